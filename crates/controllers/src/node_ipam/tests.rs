use std::time::Instant;

use api::object::{Node, ObjectKey};
use client::Event;
use ipnet::IpNet;
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::controller::{Job, NodeIpamController};
use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn settings(cidrs: &[&str]) -> Settings {
    Settings::of(cidrs.iter().map(|text| net(text)).collect())
}

#[test]
fn nodes_get_a_pod_cidr_of_each_family() {
    let mut ranges = Ranges::new(&settings(&["10.244.0.0/16", "fd00:244::/48"])).unwrap();
    assert_eq!(
        ranges.allocate("a").unwrap(),
        [net("10.244.0.0/24"), net("fd00:244::/64")]
    );
    assert_eq!(
        ranges.allocate("b").unwrap(),
        [net("10.244.1.0/24"), net("fd00:244:0:1::/64")]
    );
    assert_eq!(
        ranges.allocate("a").unwrap(),
        [net("10.244.0.0/24"), net("fd00:244::/64")]
    );
}

#[test]
fn held_pod_cidrs_are_not_allocated_until_released() {
    let mut ranges = Ranges::new(&settings(&["10.0.0.0/22"])).unwrap();
    ranges.hold("old", &[net("10.0.1.0/24")]);
    // One range covers two Pod CIDRs, the other lies within one.
    ranges.hold("large", &[net("10.0.2.0/23"), net("192.0.2.0/24")]);
    assert_eq!(ranges.allocate("a").unwrap(), [net("10.0.0.0/24")]);
    assert_eq!(ranges.allocate("b"), None);
    ranges.release("large");
    ranges.hold("small", &[net("10.0.2.128/25")]);
    assert_eq!(ranges.allocate("b").unwrap(), [net("10.0.3.0/24")]);
    assert_eq!(ranges.allocate("c"), None);
    ranges.release("a");
    assert_eq!(ranges.allocate("c").unwrap(), [net("10.0.0.0/24")]);
}

#[test]
fn shared_pod_cidr_is_free_after_both_holders_are_gone() {
    let mut ranges = Ranges::new(&settings(&["10.0.0.0/24"])).unwrap();
    ranges.hold("a", &[net("10.0.0.0/24")]);
    ranges.hold("b", &[net("10.0.0.0/24")]);
    ranges.release("a");
    assert_eq!(ranges.allocate("c"), None);
    ranges.release("b");
    assert_eq!(ranges.allocate("c").unwrap(), [net("10.0.0.0/24")]);
}

#[test]
fn released_pod_cidrs_are_reused_last() {
    let mut ranges = Ranges::new(&settings(&["10.0.0.0/22"])).unwrap();
    ranges.allocate("a").unwrap();
    ranges.release("a");
    assert_eq!(ranges.allocate("b").unwrap(), [net("10.0.1.0/24")]);
}

#[test]
fn rejects_indivisible_cluster_cidrs() {
    assert_eq!(Ranges::new(&settings(&[])).unwrap_err(), RangeError::None);
    let twice = settings(&["10.0.0.0/16", "10.1.0.0/16"]);
    assert_eq!(
        Ranges::new(&twice).unwrap_err(),
        RangeError::Family(net("10.1.0.0/16"))
    );
    for cidr in ["10.0.0.0/25", "fd00::/32"] {
        assert!(
            matches!(Ranges::new(&settings(&[cidr])), Err(RangeError::Mask { .. })),
            "{cidr}"
        );
    }
}

fn node(name: &str, version: &str, ranges: &[IpNet]) -> Node {
    let mut node = Node::default();
    node.metadata.name = name.to_owned();
    node.metadata.uid = format!("uid-{name}");
    node.metadata.resource_version = version.to_owned();
    node.spec.pod_cidrs = ranges.iter().map(ToString::to_string).collect();
    node
}

/// Returns the Pod CIDRs that the Node receives.
fn given(nodes: &mut NodeIpamController, name: &str, now: Instant) -> Option<Vec<IpNet>> {
    match nodes.reconcile(&name.to_owned(), now) {
        Action::Run(Job::Assign { ranges, .. }) => Some(ranges),
        _ => None,
    }
}

#[test]
fn outdated_events_and_events_of_deleted_nodes_are_ignored() {
    let (now, mut queue) = (Instant::now(), Queue::default());
    let mut nodes = NodeIpamController::new(Ranges::new(&settings(&["10.0.0.0/24"])).unwrap());
    nodes.apply_change(Event::Applied(node("a", "1", &[])), &mut queue, now);
    let ranges = given(&mut nodes, "a", now).unwrap();
    nodes.on_success(&"a".to_owned(), Some(node("a", "2", &ranges)), &mut queue, now);
    // The watch delivers the state before the write.
    nodes.apply_change(Event::Applied(node("a", "1", &[])), &mut queue, now);
    assert_eq!(given(&mut nodes, "a", now), None);
    nodes.apply_change(Event::Deleted(ObjectKey::new("", "a")), &mut queue, now);
    nodes.on_success(&"a".to_owned(), Some(node("a", "3", &ranges)), &mut queue, now);
    nodes.apply_change(Event::Applied(node("b", "4", &[])), &mut queue, now);
    assert_eq!(given(&mut nodes, "b", now), Some(ranges));
}
