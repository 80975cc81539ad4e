use super::*;

fn node(name: &str, addresses: &[&str]) -> Node {
    let addresses: Vec<_> = addresses
        .iter()
        .map(|address| serde_json::json!({"type": "InternalIP", "address": address}))
        .collect();
    let node = serde_json::json!({"metadata": {"name": name}, "status": {"addresses": addresses}});
    serde_json::from_value(node).expect("a Node")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn allows_networks_and_loopback_only() {
    let clients = ClientAccessList::of_networks(
        ["10.244.0.0/16", "fd00:244::/48"].map(|net| net.parse().expect("a net")),
    );
    for allowed in [
        "10.244.7.9",
        "fd00:244::9",
        "127.0.0.1",
        "::1",
        "::ffff:10.244.7.9",
    ] {
        assert!(clients.allows(address(allowed)), "{allowed}");
    }
    for stranger in ["10.245.0.1", "192.0.2.1", "fd00:245::1", "::ffff:192.0.2.1"] {
        assert!(!clients.allows(address(stranger)), "{stranger}");
    }
}

#[test]
fn follows_the_addresses_of_nodes() {
    let clients = ClientAccessList::default();
    clients.put_node(&node("a", &["192.0.2.1", "2001:db8::1", "node-a.example"]));
    clients.put_node(&node("b", &["192.0.2.2", "192.0.2.1"]));
    assert!(clients.allows(address("192.0.2.1")) && clients.allows(address("2001:db8::1")));
    clients.put_node(&node("a", &["192.0.2.3"]));
    assert!(
        !clients.allows(address("2001:db8::1")),
        "the old address is forgotten"
    );
    assert!(clients.allows(address("192.0.2.1")), "another Node has it still");
    clients.remove_node("b");
    assert!(!clients.allows(address("192.0.2.1")) && !clients.allows(address("192.0.2.2")));
    assert!(clients.allows(address("192.0.2.3")));
}

#[test]
fn follows_the_addresses_of_this_host() {
    let clients = ClientAccessList::default();
    clients.set_own([address("192.0.2.9")]);
    assert!(clients.allows(address("192.0.2.9")));
    clients.set_own([address("192.0.2.10")]);
    assert!(!clients.allows(address("192.0.2.9")));
}
