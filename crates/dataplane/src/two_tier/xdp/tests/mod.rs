mod traffic;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::peers::NodeAddresses;
use super::super::slots::{Slots, Weights};
use super::super::state::{FrontendKey, kept_slots};
use super::*;

const OWN: &str = "node-a";

fn peers() -> Peers {
    let address = |host| vec![IpAddr::from([192, 0, 2, host])];
    let names = [OWN, "node-b", "node-c"].into_iter().zip(1..);
    let nodes: NodeAddresses = names
        .map(|(name, host)| (Arc::from(name), address(host)))
        .collect();
    let mut peers = Peers::default();
    peers.update(&nodes, OWN, [192, 0, 2, 1].into());
    peers
}

fn key(port: u16) -> FrontendKey {
    FrontendKey {
        address: [203, 0, 113, 5].into(),
        protocol: 6,
        port,
    }
}

/// State with frontends that have slots of these numbers, each with slot 7 at node-b.
fn state(frontends: &[(u16, u32)]) -> State {
    let mut state = State::default();
    let node = peers().get("node-b").unwrap().number;
    for (port, number) in frontends {
        state.frontends[HashInput::Connection as usize].insert(key(*port), *number);
        state.choices[0].insert((*number, 7), node);
    }
    state
}

fn contents(state: &State, before: &MapContents) -> MapContents {
    MapContents::new(state, &before.places, BTreeMap::new())
}

#[test]
fn service_port_keeps_its_place() {
    let before = contents(&state(&[(80, 4), (81, 9)]), &MapContents::default());
    assert_eq!(before.places, BTreeMap::from([(4, 0), (9, 1)]));
    let after = contents(&state(&[(79, 12), (81, 9)]), &before);
    assert_eq!(after.places, BTreeMap::from([(9, 1), (12, 0)]));
    let node = u32::from(peers().get("node-b").unwrap().number.get());
    assert_eq!(after.slots, BTreeMap::from([(7, node), (TABLE_SIZE + 7, node)]));
    let first = frontend_bytes(&key(81)).unwrap();
    assert_eq!(after.frontends.get(&first), Some(&TABLE_SIZE));
}

#[test]
fn packet_of_a_slot_that_this_node_served_is_left_to_the_rules() {
    let mut state = state(&[(80, 4)]);
    state.kept = BTreeSet::from([(4, 7)]);
    let contents = contents(&state, &MapContents::default());
    assert_eq!(contents.frontends.len(), 1);
    assert!(contents.slots.is_empty());
}

#[test]
fn slots_that_this_node_served_are_kept() {
    let weights = |names: &[&str]| -> Weights { names.iter().map(|name| (Arc::from(*name), 1)).collect() };
    let mut slots = Slots::default();
    slots.update(&weights(&["node-b", "node-c"]), OWN);
    assert_eq!(kept_slots(&slots, &peers()).count(), 0);
    slots.update(&weights(&[OWN, "node-b", "node-c"]), OWN);
    let own: BTreeSet<u32> = slots
        .at_level(0)
        .filter(|(_, node)| ***node == *OWN)
        .map(|(index, _)| index)
        .collect();
    assert!(!own.is_empty());
    slots.update(&weights(&["node-b", "node-c"]), OWN);
    assert_eq!(kept_slots(&slots, &peers()).collect::<BTreeSet<u32>>(), own);
}

#[test]
fn frontend_with_slots_by_client_is_left_to_the_rules() {
    let mut state = state(&[]);
    state.frontends[HashInput::Client as usize].insert(key(80), 4);
    assert_eq!(contents(&state, &MapContents::default()), MapContents::default());
}

#[test]
fn difference_removes_adds_and_replaces() {
    let before = BTreeMap::from([(1, 10), (2, 20), (3, 30)]);
    let after = BTreeMap::from([(2, 20), (3, 31), (4, 40)]);
    let (keys, values) = difference(
        &before,
        &after,
        |key| key.to_ne_bytes(),
        |value| [value.copied().unwrap_or(0)],
    );
    assert_eq!(keys, [1_u32, 3, 4].map(u32::to_ne_bytes).concat());
    assert_eq!(values, [0_u8, 31, 40]);
}

#[test]
fn interface_of_pods_is_refused() {
    let interface: LinkName = "eth0".parse().unwrap();
    let ranges = PodDetection::Ranges(vec![
        "10.244.0.0/16".parse().unwrap(),
        "fd00::/8".parse().unwrap(),
    ]);
    let found = pod_ranges(&ranges, &interface).unwrap();
    assert_eq!(found, [[[10, 244, 0, 0], [255, 255, 0, 0]]]);
    for pods in [
        PodDetection::Interface("eth0".parse().unwrap()),
        PodDetection::InterfacePrefix("eth".parse().unwrap()),
    ] {
        let error = pod_ranges(&pods, &interface).unwrap_err();
        assert!(error.to_string().contains("eth0"), "{error}");
    }
    let others = PodDetection::Interface("cni0".parse().unwrap());
    assert_eq!(pod_ranges(&others, &interface).unwrap(), [[[0; 4]; 2]; 0]);
}

#[test]
fn failure_leaves_the_packets_to_the_rules() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().unwrap();
        let mut xdp = Xdp::new("absent".parse().unwrap());
        let local = [192, 0, 2, 1].into();
        xdp.apply(&mut connection, &state(&[(80, 4)]), OWN, local, &peers());
        let XdpState::Unusable(reason) = xdp.xdp_state() else {
            panic!("{:?}", xdp.xdp_state())
        };
        assert!(reason.contains("absent"), "{reason}");
        xdp.apply(&mut connection, &State::default(), OWN, local, &peers());
        assert_eq!(*xdp.xdp_state(), XdpState::Idle);
    });
}
