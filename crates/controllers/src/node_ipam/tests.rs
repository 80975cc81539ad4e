use std::time::Instant;

use api::object::{Node, ObjectKey};
use client::Event;
use ipnet::IpNet;

use super::keeper::{Job, Nodes};
use super::*;
use crate::keeper::{Keeper, Look};
use crate::queue::Queue;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn settings(cidrs: &[&str]) -> Settings {
    Settings::of(cidrs.iter().map(|text| net(text)).collect())
}

#[test]
fn each_node_gets_one_of_each_family() {
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
fn what_is_held_is_not_given_and_what_is_released_is() {
    let mut ranges = Ranges::new(&settings(&["10.0.0.0/22"])).unwrap();
    ranges.hold("old", &[net("10.0.1.0/24")]);
    // Twice as large as a part, and one that lies within a part.
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
fn a_part_that_two_have_is_free_when_both_are_gone() {
    let mut ranges = Ranges::new(&settings(&["10.0.0.0/24"])).unwrap();
    ranges.hold("a", &[net("10.0.0.0/24")]);
    ranges.hold("b", &[net("10.0.0.0/24")]);
    ranges.release("a");
    assert_eq!(ranges.allocate("c"), None);
    ranges.release("b");
    assert_eq!(ranges.allocate("c").unwrap(), [net("10.0.0.0/24")]);
}

#[test]
fn a_part_rests_before_its_next_node() {
    let mut ranges = Ranges::new(&settings(&["10.0.0.0/22"])).unwrap();
    ranges.allocate("a").unwrap();
    ranges.release("a");
    assert_eq!(ranges.allocate("b").unwrap(), [net("10.0.1.0/24")]);
}

#[test]
fn ranges_that_cannot_be_divided_are_refused() {
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

/// What a Node is given.
fn given(nodes: &mut Nodes, name: &str, now: Instant) -> Option<Vec<IpNet>> {
    match nodes.look(&name.to_owned(), now) {
        Look::Do(Job::Give { ranges, .. }) => Some(ranges),
        _ => None,
    }
}

#[test]
fn old_news_and_news_of_the_dead_change_nothing() {
    let (now, mut queue) = (Instant::now(), Queue::default());
    let mut nodes = Nodes::new(Ranges::new(&settings(&["10.0.0.0/24"])).unwrap());
    nodes.take(Event::Applied(node("a", "1", &[])), &mut queue, now);
    let ranges = given(&mut nodes, "a", now).unwrap();
    nodes.answered(&"a".to_owned(), Some(node("a", "2", &ranges)), &mut queue, now);
    // The watch comes to what was before the write.
    nodes.take(Event::Applied(node("a", "1", &[])), &mut queue, now);
    assert_eq!(given(&mut nodes, "a", now), None);
    nodes.take(Event::Deleted(ObjectKey::new("", "a")), &mut queue, now);
    nodes.answered(&"a".to_owned(), Some(node("a", "3", &ranges)), &mut queue, now);
    nodes.take(Event::Applied(node("b", "4", &[])), &mut queue, now);
    assert_eq!(given(&mut nodes, "b", now), Some(ranges));
}
