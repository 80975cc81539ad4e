use super::*;

fn nodes(of: &[(&str, &[&str])]) -> NodeAddresses {
    of.iter()
        .map(|(name, addresses)| {
            let addresses = addresses.iter().map(|text| text.parse().expect("an address"));
            ((*name).into(), addresses.collect())
        })
        .collect()
}

fn local() -> IpAddr {
    [192, 0, 2, 1].into()
}

#[test]
fn peers_are_the_other_nodes_with_an_address_of_the_family() {
    let mut peers = Peers::default();
    let all = nodes(&[
        ("a", &["192.0.2.1"]),
        ("b", &["2001:db8::2", "192.0.2.2"]),
        ("c", &["2001:db8::3"]),
        ("d", &[]),
    ]);
    peers.update(&all, "a", local());
    let hosts: Vec<IpAddr> = peers.iter().map(|peer| peer.host).collect();
    assert_eq!(hosts, [IpAddr::from([192, 0, 2, 2])]);
    assert_eq!(peers.get("a"), None);
}

#[test]
fn nodes_with_one_ethernet_address_are_not_new_peers() {
    // A collision of the hash.
    let (victim, thief) = ("n987164", "n1946890");
    assert_eq!(ethernet_of(victim), ethernet_of(thief));
    let both = nodes(&[
        (victim, &["192.0.2.2"]),
        (thief, &["192.0.2.3"]),
        ("b", &["192.0.2.4"]),
    ]);
    let mut peers = Peers::default();
    peers.update(&both, "a", local());
    assert_eq!(peers.iter().count(), 1);
    let mut peers = Peers::default();
    peers.update(&nodes(&[(victim, &["192.0.2.2"])]), "a", local());
    peers.update(&both, "a", local());
    assert!(peers.get(victim).is_some() && peers.get(thief).is_none());
    let mut peers = Peers::default();
    peers.update(&both, victim, local());
    assert_eq!(peers.iter().count(), 1, "the address of this node is taken, too");
}

#[test]
fn peer_keeps_its_number_while_others_leave() {
    let mut peers = Peers::default();
    peers.update(
        &nodes(&[("b", &["192.0.2.2"]), ("c", &["192.0.2.3"])]),
        "a",
        local(),
    );
    let before = *peers.get("c").expect("a peer");
    peers.update(
        &nodes(&[("c", &["192.0.2.4"]), ("d", &["192.0.2.5"])]),
        "a",
        local(),
    );
    let after = *peers.get("c").expect("a peer");
    let moved = Peer {
        host: [192, 0, 2, 4].into(),
        ..before
    };
    assert_eq!(after, moved);
    let other = *peers.get("d").expect("a peer");
    assert_ne!(other.number, after.number);
    assert_ne!(other.ethernet, after.ethernet);
}

#[test]
fn gateways_differ_by_peer() {
    let (first, second) = (PeerNumber(2), PeerNumber(515));
    assert_eq!(first.gateway(false), IpAddr::from([240, 0, 0, 2]));
    assert_eq!(second.gateway(false), IpAddr::from([240, 0, 2, 3]));
    let ipv6: IpAddr = "fe80::1:203".parse().expect("an address");
    assert_eq!(second.gateway(true), ipv6);
}

#[test]
fn gateway_encodes_the_number_of_the_peer() {
    for is_ipv6 in [false, true] {
        let gateway = PeerNumber(515).gateway(is_ipv6);
        assert_eq!(PeerNumber::of_gateway(gateway), Some(PeerNumber(515)));
        let bytes = match gateway {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        assert_eq!(PeerNumber::of_bytes(&bytes), Some(PeerNumber(515)));
    }
    assert_eq!(
        PeerNumber::of_bytes(&[240, 1, 0, 1]),
        None,
        "the node's own address"
    );
    assert_eq!(PeerNumber::of_bytes(&[240]), None);
}

#[test]
fn reserved_numbers_go_to_their_nodes_only() {
    let mut peers = Peers::default();
    peers.reserve(BTreeMap::from([
        ("c".into(), PeerNumber(2)),
        ("gone".into(), PeerNumber(3)),
    ]));
    peers.update(
        &nodes(&[("b", &["192.0.2.2"]), ("c", &["192.0.2.3"])]),
        "a",
        local(),
    );
    let number = |name: &str| peers.get(name).map(|peer| peer.number);
    assert_eq!(number("c"), Some(PeerNumber(2)));
    assert_eq!(number("b"), Some(PeerNumber(4)));
}
