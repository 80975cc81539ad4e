//! Answers to SRV queries: their sizes, their additional records, and the names of Pods and IPv6 endpoints.

use api::object::AddressType;

use super::*;

fn response_to(index: &Index, name: &str, bytes_max: usize) -> Vec<u8> {
    let query = Query {
        id: 1,
        flags: 0,
        name: Name::from_text(name).expect("a name"),
        kind: kind::SRV,
        class: CLASS_IN,
        edns: None,
    };
    let mut buffer = vec![0; bytes_max];
    let mut reply = Reply::new(&query, &mut buffer, bytes_max);
    let Resolution::Complete(code) = index.resolve(&mut reply, &mut Scratch::default()) else {
        panic!("{name} is in the zone");
    };
    let length = reply.finish(code);
    buffer.truncate(length);
    buffer
}

/// Returns the TC flag, and the numbers of answers and of additional records.
fn summary(response: &[u8]) -> (bool, u16, u16) {
    let word = |at: usize| u16::from_be_bytes([response[at], response[at + 1]]);
    (word(2) & 0x200 != 0, word(6), word(10))
}

fn headless(endpoints: u8) -> Index {
    let index = index();
    let ready: Vec<(u8, bool)> = (1..=endpoints).map(|last| (last, true)).collect();
    index.apply_service(&service("peers", "None")).expect("applied");
    index
        .apply_slice(&slice("peers-1", "peers", &ready))
        .expect("applied");
    index
}

/// As in CoreDNS, whose library miekg/dns points from the owner of an address to the target of the SRV record
/// (`domainNameLen` in `msg.go`).
#[test]
fn owners_of_additional_addresses_point_to_targets() {
    let response = response_to(&headless(6), "peers.ns.svc.cluster.local", 512);
    assert_eq!(summary(&response), (false, 6, 6));
    // Header and question, six SRV records of 55 octets, six addresses of 16 octets.
    assert_eq!(response.len(), 44 + 6 * 55 + 6 * 16);
}

/// As in CoreDNS (`Msg.Truncate` of miekg/dns).
#[test]
fn missing_additional_addresses_mark_the_response_as_truncated() {
    let response = response_to(&headless(7), "peers.ns.svc.cluster.local", 512);
    assert_eq!(summary(&response), (true, 7, 5));
}

/// As in CoreDNS (`SRV` in `plugin/backend_lookup.go`, `findPods` in `plugin/kubernetes/kubernetes.go`).
#[test]
fn pod_name_has_a_location_with_port_0() {
    let index = index_with(|_| {});
    index.apply_namespace("ns").expect("applied");
    let response = response_to(&index, "10-1-0-7.ns.pod.cluster.local", 512);
    assert_eq!(summary(&response), (false, 1, 1));
    // Priority, weight, port, and the whole name of the Pod.
    let data = b"\0\0\0\x64\0\0\x0810-1-0-7\x02ns\x03pod\x07cluster\x05local\0";
    assert!(response.windows(data.len()).any(|window| window == data));

    let denied = response_to(&index, "10-1-0-7.other.pod.cluster.local", 512);
    assert_eq!(summary(&denied), (false, 0, 0));
    assert_eq!(u16::from(denied[3] & 15), ResponseCode::NameError as u16);
}

/// As in CoreDNS (`endpointHostname` in `plugin/kubernetes/kubernetes.go`).
#[test]
fn name_of_an_ipv6_endpoint_does_not_end_with_a_dash() {
    let index = index();
    index.apply_service(&service("peers", "None")).expect("applied");
    let mut six = slice("peers-6", "peers", &[(1, true)]);
    six.address_type = AddressType::IPv6;
    six.endpoints[0].addresses = vec!["fd00:1::".into()];
    index.apply_slice(&six).expect("applied");
    let address: IpAddr = "fd00:1::".parse().expect("an address");
    assert_eq!(
        query(&index, "fd00-1--0.peers.ns.svc.cluster.local", kind::AAAA),
        (NO_ERROR, BTreeSet::from([address]))
    );
    let without = query(&index, "fd00-1--.peers.ns.svc.cluster.local", kind::AAAA);
    assert_eq!(without.0, NO_NAME);
}
