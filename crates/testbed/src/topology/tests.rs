use std::collections::BTreeSet;

use super::*;

#[test]
fn number_of_nodes_is_bounded() {
    assert_eq!(Topology::with_nodes(0), Err(TopologyError::Nodes { nodes: 0 }));
    assert_eq!(Topology::with_nodes(65), Err(TopologyError::Nodes { nodes: 65 }));
    assert_eq!(Topology::with_nodes(NODES_MAX).unwrap().nodes.len(), NODES_MAX);
}

#[test]
fn members_have_distinct_names_and_addresses() {
    let topology = Topology::with_nodes(NODES_MAX).unwrap();
    let names: BTreeSet<&str> = topology.members().map(|member| member.name.as_str()).collect();
    let addresses: BTreeSet<IpAddr> = topology
        .members()
        .flat_map(|member| member.address.both())
        .chain(topology.router.both())
        .collect();
    assert_eq!(names.len(), NODES_MAX + 2);
    assert_eq!(addresses.len(), 2 * (NODES_MAX + 3));
    for address in addresses {
        assert!(
            topology.underlay.both().iter().any(|net| net.contains(&address)),
            "{address}"
        );
    }
}

#[test]
fn pods_are_within_the_cluster_and_apart() {
    let topology = Topology::with_nodes(NODES_MAX).unwrap();
    for node in &topology.nodes {
        assert!(topology.cluster_cidrs.ipv4.contains(&node.pods.ipv4));
        assert!(topology.cluster_cidrs.ipv6.contains(&node.pods.ipv6));
    }
    let nets: BTreeSet<IpNet> = topology.nodes.iter().flat_map(|node| node.pods.both()).collect();
    assert_eq!(nets.len(), 2 * NODES_MAX);
}

#[test]
fn addresses_match_the_recorded_cases() {
    let topology = Topology::with_nodes(2).unwrap();
    let second = &topology.nodes[1];
    assert_eq!(second.member.address.ipv4.to_string(), "172.30.0.12");
    assert_eq!(second.member.address.ipv6.to_string(), "fd00:30::12");
    assert_eq!(second.pods.ipv6.to_string(), "fd00:244:2::/64");
    assert_eq!(topology.outside.address.ipv6.to_string(), "fd00:30::100");
}

#[test]
fn nodes_have_routes_to_pods_and_outside_to_the_first_node() {
    let topology = Topology::with_nodes(2).unwrap();
    let routes = topology.routes_of("node-1");
    let expected: [(IpNet, IpAddr); 2] = [
        ("10.244.2.0/24".parse().unwrap(), "172.30.0.12".parse().unwrap()),
        ("fd00:244:2::/64".parse().unwrap(), "fd00:30::12".parse().unwrap()),
    ];
    assert_eq!(routes, expected);
    assert_eq!(topology.routes_of("control-plane").len(), 4);
    let outside = topology.routes_of("outside");
    assert_eq!(outside.len(), topology.routed.len());
    assert!(
        outside
            .iter()
            .all(|(_, via)| topology.nodes[0].member.address.both().contains(via))
    );
}
