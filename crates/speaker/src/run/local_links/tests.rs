use super::*;

/// Creates a link of a kind, with a master.
fn link(index: u32, name: &str, kind: &str, master: Option<u32>) -> Link {
    Link {
        index: LinkIndex(index),
        name: name.to_owned(),
        kind: kind.to_owned(),
        is_up: true,
        is_loopback: false,
        mtu_bytes: 1_500,
        master: master.map(LinkIndex),
        ethernet: None,
        vxlan: None,
        encapsulation_port: None,
        group: 0,
        is_promiscuous: false,
        is_hairpin: None,
        lower: None,
    }
}

fn address(link: u32, network: &str) -> Address {
    Address {
        link: LinkIndex(link),
        network: network.parse().expect("a network"),
        scope: 0,
        is_tentative: false,
    }
}

#[test]
fn address_in_several_vrfs_is_found_on_the_link_of_each() {
    let links = [
        link(1, "red", "vrf", None),
        link(2, "blue", "vrf", None),
        link(3, "bridge", "bridge", None),
        link(4, "red0", "veth", Some(1)),
        link(5, "blue0", "veth", Some(2)),
        link(6, "port", "veth", Some(3)),
    ];
    let addresses = [4, 5, 6].map(|link| address(link, "10.9.0.1/24"));
    let own = "10.9.0.1".parse().expect("an address");
    let found = |vrf| address_in(&addresses, &links, own, vrf).map(|address| address.link.0);
    assert_eq!(found(Some("red")), Some(4));
    assert_eq!(found(Some("blue")), Some(5));
    assert_eq!(found(None), Some(6));
}

#[test]
fn address_outside_of_the_vrf_of_the_peer_is_found() {
    let links = [
        link(1, "red", "vrf", None),
        link(2, "red0", "veth", Some(1)),
        link(3, "eth0", "veth", None),
    ];
    let addresses = [address(2, "10.9.0.1/24"), address(3, "10.7.0.1/24")];
    let found = |own: &str, vrf| {
        let own = own.parse().expect("an address");
        address_in(&addresses, &links, own, vrf).map(|address| address.link.0)
    };
    assert_eq!(found("10.9.0.1", None), Some(2), "a route leads into the VRF");
    assert_eq!(
        found("10.7.0.1", Some("red")),
        Some(3),
        "a route leads out of the VRF"
    );
    assert_eq!(
        found("10.7.0.1", Some("eth0")),
        Some(3),
        "the socket is bound to a link"
    );
    assert_eq!(found("10.6.0.1", None), None);
}

#[test]
fn address_of_the_link_of_a_vrf_is_in_the_vrf() {
    let links = [link(1, "red", "vrf", None), link(2, "eth0", "veth", None)];
    let addresses = [address(2, "10.8.0.1/24"), address(1, "10.8.0.1/32")];
    let own = "10.8.0.1".parse().expect("an address");
    let found = |vrf| address_in(&addresses, &links, own, vrf).map(|address| address.link.0);
    assert_eq!(found(Some("red")), Some(1));
    assert_eq!(found(None), Some(2));
}
