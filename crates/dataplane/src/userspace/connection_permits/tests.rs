use super::*;

/// Returns a Service with a namespace of its own.
fn service(namespace: &str) -> ObjectKey {
    ObjectKey::new(namespace, "web")
}

fn client(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

#[test]
fn client_share_is_a_quarter_and_at_least_1024() {
    let share = |permits_max| ConnectionPermits::new(permits_max).client_share_max;
    assert_eq!([65_536, 2_048].map(share), [16_384, 1_024]);
}

#[test]
fn service_and_client_leave_permits_to_others() {
    let permits = ConnectionPermits::with_shares(6, 1, 2);
    let take = |name: &str, last: u8| permits.acquire(&service(name))?.for_client(client(last));
    let first = [take("a", 1), take("a", 2), take("a", 3)];
    assert_eq!(take("a", 4).unwrap_err(), Refusal::Service);
    let second = [take("b", 1), take("b", 3)];
    assert_eq!(take("c", 1).unwrap_err(), Refusal::Client);
    let third = [take("c", 4)];
    assert!(first.iter().chain(&second).chain(&third).all(Result::is_ok));
    assert_eq!(take("d", 6).unwrap_err(), Refusal::Process);
    drop(first);
    assert!(take("a", 1).is_ok(), "permits of service and client are released");
    let refusals = PermitRefusals {
        process: 1,
        service: 1,
        client: 1,
    };
    assert_eq!(permits.refusals(), refusals);
    drop((second, third));
    let held = permits.lock();
    assert!(held.all == 0 && held.services.is_empty() && held.clients.is_empty());
}

/// Otherwise, a tenant with a few Pods and many Services takes all permits.
#[test]
fn services_of_a_namespace_leave_permits_to_others() {
    let permits = ConnectionPermits::with_shares(90, 5, 90);
    let of_service = |namespace: &str, number: usize| {
        let service = ObjectKey::new(namespace, &format!("s{number}"));
        std::iter::from_fn(|| permits.acquire(&service).ok()).collect::<Vec<_>>()
    };
    let held: Vec<_> = (0..40).map(|number| of_service("many", number)).collect();
    assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 60);
    assert_eq!(of_service("one", 0).len(), 15);
    drop(held);
    let held = permits.lock();
    assert!(held.all == 0 && held.services.is_empty() && held.namespaces.is_empty());
}

#[test]
fn mapped_addresses_count_as_their_ipv4_address() {
    let permits = ConnectionPermits::with_shares(4, 4, 1);
    let mapped = "::ffff:192.0.2.1".parse().unwrap();
    let held = permits.acquire(&service("a")).unwrap().for_client(client(1));
    assert!(held.is_ok());
    let refused = permits.acquire(&service("b")).unwrap().for_client(mapped);
    assert_eq!(refused.unwrap_err(), Refusal::Client);
}

#[test]
fn ipv6_clients_count_by_their_network_and_pods_by_address() {
    let permits = ConnectionPermits::with_shares(8, 8, 1);
    permits.set_pods(&["fd00:244::/56".parse().unwrap()]);
    let take = |client: &str| {
        let permit = permits.acquire(&service("a"))?;
        permit.for_client(client.parse().unwrap())
    };
    let held = [take("2001:db8::1"), take("2001:db8:0:1::1")];
    assert!(held.iter().all(Result::is_ok));
    assert_eq!(take("2001:db8::2").unwrap_err(), Refusal::Client);
    let pods = [take("fd00:244:0:1::5"), take("fd00:244:0:1::6")];
    assert!(pods.iter().all(Result::is_ok));
    assert_eq!(take("fd00:244:0:1::6").unwrap_err(), Refusal::Client);
}
