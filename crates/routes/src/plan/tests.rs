#[path = "../../tests/nodes/mod.rs"]
mod nodes;

use nodes::{created, ip, net, node, settings};

use super::*;

const VXLAN: Network = Network::Vxlan { id: 1, port: 4789 };

/// Returns the kernel's state after changes.
fn after(present: &KernelState, changes: &Changes) -> KernelState {
    let mut present = present.clone();
    present
        .routes
        .retain(|route| !changes.removed_routes.contains(route));
    present.routes.extend(changes.routes.iter().copied());
    if let Some(link) = &mut present.link {
        link.entries
            .retain(|entry| !changes.removed_entries.contains(entry));
        link.entries.extend(changes.entries.iter().copied());
        link.neighbours
            .retain(|gateway, _| !changes.removed_neighbours.contains(gateway));
        link.neighbours.extend(changes.neighbours.iter().copied());
        link.addresses
            .retain(|address| !changes.removed_addresses.contains(address));
        link.addresses.extend(changes.addresses.iter().copied());
    }
    present
}

#[test]
fn host_gw_uses_node_addresses_as_gateways() {
    let plan = Plan::new(&settings(Network::HostGw), &[node(1), node(2), node(3)]);
    let expected = [
        (net("10.244.2.0/24"), ip("192.0.2.2")),
        (net("10.244.3.0/24"), ip("192.0.2.3")),
        (net("fd00:244:0:2::/64"), ip("2001:db8::2")),
        (net("fd00:244:0:3::/64"), ip("2001:db8::3")),
    ];
    assert_eq!(plan.gateways, expected.into());
    assert!(plan.entries.is_empty() && plan.addresses.is_empty() && plan.faults.is_empty());
}

#[test]
fn vxlan_maps_ranges_to_nodes() {
    let plan = Plan::new(&settings(VXLAN), &[node(1), node(2)]);
    let expected = [
        (net("10.244.2.0/24"), ip("10.244.2.0")),
        (net("fd00:244:0:2::/64"), ip("fd00:244:0:2::")),
    ];
    assert_eq!(plan.gateways, expected.into());
    let ethernet = ethernet_of("n2");
    let neighbours = [(ip("10.244.2.0"), ethernet), (ip("fd00:244:0:2::"), ethernet)];
    assert_eq!(plan.neighbours, neighbours.into());
    let node = ip("192.0.2.2");
    assert_eq!(plan.entries, [ForwardingEntry { ethernet, host: node }].into());
    assert_eq!(plan.sources, [node, ip("2001:db8::2")].into());
    assert_eq!(
        plan.addresses,
        [net("10.244.1.0/32"), net("fd00:244:0:1::/128")].into()
    );
    assert_ne!(ethernet_of("n1"), ethernet);
    assert_eq!(ethernet[0] & 3, 2, "a local address of one host");
}

#[test]
fn node_with_the_ethernet_address_of_an_older_one_gets_no_packets() {
    // A collision of the hash, which takes seconds to find.
    let (victim, name) = ("n2", "no2bafaeyzdw");
    assert_eq!(ethernet_of(victim), ethernet_of(name));
    let thief = ClusterNode {
        name: name.to_owned(),
        ..node(3)
    };
    let plan = Plan::new(&settings(VXLAN), &[thief.clone(), node(2)]);
    let fault = RouteFault::SameEthernet(name.to_owned(), victim.to_owned());
    assert_eq!(plan.faults, [fault].into());
    let ethernet = ethernet_of(victim);
    let host = ip("192.0.2.2");
    assert_eq!(plan.entries, [ForwardingEntry { ethernet, host }].into());
    assert!(!plan.gateways.contains_key(&net("10.244.3.0/24")));
    // Without the link, no Ethernet addresses are derived.
    let plan = Plan::new(&settings(Network::HostGw), &[thief, node(2)]);
    assert!(plan.faults.is_empty() && plan.gateways.len() == 4);
}

#[test]
fn rejects_ranges_outside_cluster_cidrs_and_overlaps() {
    let (mut greedy, mut thief) = (node(2), node(3));
    greedy.pod_cidrs = vec![net("0.0.0.0/0"), net("192.0.2.0/24")];
    thief.pod_cidrs = vec![net("10.244.1.0/24"), net("10.244.4.128/25"), net("10.244.3.0/24")];
    (greedy.created, thief.created) = (created(100), created(101));
    let nodes = [thief, greedy, node(4), node(1)];
    let plan = Plan::new(&settings(Network::HostGw), &nodes);
    let name = |number: u8| format!("n{number}");
    let faults = [
        RouteFault::OutsideClusterCidrs(name(2), net("0.0.0.0/0")),
        RouteFault::OutsideClusterCidrs(name(2), net("192.0.2.0/24")),
        RouteFault::Overlap(name(3), net("10.244.1.0/24"), name(1)),
        RouteFault::Overlap(name(3), net("10.244.4.128/25"), name(4)),
    ];
    assert_eq!(plan.faults, faults.into());
    assert!(!plan.gateways.contains_key(&net("10.244.1.0/24")));
}

#[test]
fn oldest_node_keeps_a_contested_range() {
    let contested = |created: Creation| ClusterNode {
        pod_cidrs: vec![net("10.244.9.0/24")],
        created,
        ..node(2)
    };
    let named = |name: &str, node: ClusterNode| ClusterNode {
        name: name.to_owned(),
        ..node
    };
    let time = Some("2026-01-01T00:00:00Z");
    for (younger, older) in [
        (created(2), created(1)),
        (Creation::new(time, "b"), Creation::new(time, "a")),
        (Creation::new(None, "a"), created(3000)),
    ] {
        let nodes = [named("a", contested(younger)), named("z", contested(older))];
        let plan = Plan::new(&settings(Network::HostGw), &nodes);
        let fault = RouteFault::Overlap("a".to_owned(), net("10.244.9.0/24"), "z".to_owned());
        assert_eq!(plan.faults, [fault].into());
    }
}

#[test]
fn reports_node_without_address_of_family() {
    let mut one_family = node(2);
    one_family.addresses.truncate(1);
    let plan = Plan::new(&settings(Network::HostGw), std::slice::from_ref(&one_family));
    assert_eq!(plan.gateways.len(), 1);
    assert_eq!(
        plan.faults,
        [RouteFault::NoAddress("n2".to_owned(), net("fd00:244:0:2::/64"))].into()
    );
    // Encapsulated packets of both families use the one address.
    assert_eq!(Plan::new(&settings(VXLAN), &[one_family]).gateways.len(), 2);
}

#[test]
fn changes_reach_plan_and_keep_foreign_objects() {
    let foreign = [
        Route::via(net("0.0.0.0/0"), ip("192.0.2.254")),
        Route::via(net("10.244.3.0/24"), ip("192.0.2.200")),
    ];
    let link = VxlanState {
        index: LinkIndex(7),
        entries: BTreeSet::new(),
        neighbours: BTreeMap::new(),
        addresses: [net("10.9.9.9/32")].into(),
    };
    for (network, link) in [(Network::HostGw, None), (VXLAN, Some(link))] {
        let mut present = KernelState {
            routes: foreign.to_vec(),
            link,
        };
        for numbers in [&[1, 2, 3][..], &[1, 2], &[1, 3, 4], &[1]] {
            let nodes: Vec<ClusterNode> = numbers.iter().map(|number| node(*number)).collect();
            let plan = Plan::new(&settings(network), &nodes);
            let changes = Changes::new(&plan, &present);
            present = after(&present, &changes);
            assert!(foreign.iter().all(|route| present.routes.contains(route)));
            let again = Changes::new(&plan, &present);
            assert!(again.is_empty(), "{again:?}");
            let is_blocked = numbers.contains(&3);
            assert_eq!(
                again.foreign,
                if is_blocked {
                    vec![net("10.244.3.0/24")]
                } else {
                    vec![]
                }
            );
            let ours = present
                .routes
                .iter()
                .filter(|route| route.protocol == PROTOCOL)
                .count();
            assert_eq!(ours, plan.gateways.len() - usize::from(is_blocked));
        }
    }
}
