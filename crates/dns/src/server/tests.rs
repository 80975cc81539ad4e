use std::net::IpAddr;
use std::sync::Arc;

use super::{ClientAccessList, Policy, own_addresses};

#[test]
fn clients_without_a_named_network_count_by_their_network() {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let [pod, outside] = ["fd00:244:0:1::5", "2001:db8:0:1::5"].map(address);
    let network = address("2001:db8:0:1::");
    assert_eq!(Policy::default().counted_client(outside), network);
    let pods = ClientAccessList::of_networks(["fd00:244::/56".parse().expect("a network")]);
    let policy = Policy {
        clients: Some(Arc::new(pods)),
        ..Policy::default()
    };
    assert_eq!(policy.counted_client(pod), pod);
    assert_eq!(policy.counted_client(outside), network);
}

#[test]
fn own_addresses_exclude_loopback() {
    let listen = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect::<Vec<_>>()
    };
    assert!(
        own_addresses(&listen(&["127.0.0.1:53", "[::1]:53"])).is_empty(),
        "other hosts do not reach loopback"
    );
    let named = own_addresses(&listen(&["192.0.2.1:53", "192.0.2.1:5353", "[fd00::1]:53"]));
    assert_eq!(
        named,
        [
            "192.0.2.1".parse::<std::net::IpAddr>().expect("v4"),
            "fd00::1".parse().expect("v6")
        ]
    );
    let everywhere = own_addresses(&listen(&["0.0.0.0:53"]));
    assert!(
        everywhere
            .iter()
            .all(|address| address.is_ipv4() && !address.is_loopback())
    );
}
