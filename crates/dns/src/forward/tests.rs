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
    let mut admitted: Vec<Admission> = std::iter::from_fn(|| forwarder.admit()).collect();
    assert_eq!(admitted.len(), WAITING_CLIENTS_MAX);
    admitted.pop();
    assert!(forwarder.admit().is_some(), "an answered question makes room");
}
