use super::*;

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts
        .iter()
        .map(|text| text.parse().expect("an address"))
        .collect()
}

#[test]
fn resolvers_are_read_from_resolv_conf() {
    let text = "# nameserver 1.1.1.1\nsearch a b\nnameserver 10.0.0.1\n nameserver\tfd00::1 # two\nnameserver x\nnameserver\n";
    assert_eq!(
        resolv_conf::nameservers(text),
        addresses(&["10.0.0.1:53", "[fd00::1]:53"])
    );
    let search = resolv_conf::search("search a\ndomain x\nsearch example.net b..c corp\n");
    assert_eq!(
        search,
        ["example.net", "corp"].map(|text| Name::from_text(text).expect("a name"))
    );
    let many = "nameserver 10.0.0.1\n".repeat(20);
    assert_eq!(resolv_conf::nameservers(&many).len(), 15);
}

#[test]
fn excludes_own_addresses_from_upstreams() {
    let own: Vec<IpAddr> = vec!["192.0.2.7".parse().expect("an address")];
    let upstreams = addresses(&[
        "127.0.0.1:53",
        "192.0.2.7:53",
        "192.0.2.8:53",
        "192.0.2.7:54",
        "[::1]:53",
    ]);
    let left = |listen: &[&str]| without_self(upstreams.clone(), &addresses(listen), &own);
    assert_eq!(
        left(&["0.0.0.0:53"]),
        addresses(&["192.0.2.8:53", "192.0.2.7:54", "[::1]:53"])
    );
    assert_eq!(
        left(&["127.0.0.1:53", "[::]:53"]),
        addresses(&["192.0.2.7:53", "192.0.2.8:53", "192.0.2.7:54"])
    );
    assert_eq!(left(&["127.0.0.2:53"]), upstreams);
}

#[test]
fn limits_waiting_clients() {
    let forwarder = Forwarder::to(Vec::new());
    let host = IpAddr::from([127, 0, 0, 1]);
    let mut admitted: Vec<Admission> = std::iter::from_fn(|| forwarder.admit(host)).collect();
    assert_eq!(admitted.len(), WAITING_CLIENTS_MAX);
    admitted.pop();
    assert!(forwarder.admit(host).is_some(), "an answered question makes room");
}

#[test]
fn limits_the_questions_of_a_client_that_wait() {
    let forwarder = Forwarder::to(Vec::new());
    let [pod, other] = [[10, 1, 0, 5], [10, 1, 0, 6]].map(IpAddr::from);
    let mut admitted: Vec<Admission> = std::iter::from_fn(|| forwarder.admit(pod)).collect();
    assert_eq!(admitted.len(), WAITING_CLIENTS_MAX / 4);
    assert!(
        forwarder.admit(other).is_some(),
        "others have shares of their own"
    );
    admitted.pop();
    assert!(forwarder.admit(pod).is_some(), "an answered question makes room");
}

/// Otherwise, a tenant with a few Pods takes all permits.
#[test]
fn several_clients_leave_permits_to_another() {
    let forwarder = Forwarder::to(Vec::new());
    let admitted_of = |last: u8| {
        let pod = IpAddr::from([10, 1, 0, last]);
        std::iter::from_fn(|| forwarder.admit(pod)).collect::<Vec<Admission>>()
    };
    let held: Vec<_> = (1..=10).map(admitted_of).collect();
    let other = admitted_of(11);
    assert!(other.len() >= 100, "{} questions", other.len());
    drop(held);
}

/// A resolver that does not respond keeps each query open.
#[tokio::test]
async fn limits_the_open_queries_of_a_client() {
    let resolver = tokio::net::UdpSocket::bind(("127.0.0.1", 0))
        .await
        .expect("a socket");
    let forwarder = Forwarder::new(ForwardSettings {
        routes: RouteSettings {
            upstreams: vec![resolver.local_addr().expect("an address")],
            ..RouteSettings::default()
        },
        open_queries_max: 8,
        ..ForwardSettings::default()
    });
    let [pod, other] = [[10, 1, 0, 5], [10, 1, 0, 6]].map(IpAddr::from);
    let join = |label: &str, client| {
        let question = Question {
            name: Name::from_text(&format!("{label}.example")).expect("a name"),
            kind: crate::wire::kind::A,
            recursion_desired: true,
            checking_disabled: false,
            dnssec_ok: false,
        };
        let mut key_buffer = [0; QUESTION_KEY_BYTES_MAX];
        let key = question.key(&mut key_buffer);
        forwarder.inner.join(key, &question, client).is_ok()
    };
    assert_eq!(["a", "b", "c"].map(|label| join(label, pod)), [true, true, false]);
    assert!(join("a", pod), "an open query is shared");
    assert!(join("c", SERVER) && join("d", SERVER));
    assert!(!join("e", SERVER), "refreshes have a share too");
    assert!(join("c", pod), "a query of another client is shared");
    assert!(join("f", other));
}
