use api::object::{Node, Pod};
use serde_json::{Value, json};

use super::{RoundRobin, needs_node, says_unschedulable};
use crate::world::World;

fn node(name: &str, ready: &str, spec: Value) -> Node {
    let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec, "status": status}))
        .expect("a Node")
}

fn pod(spec: Value, status: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).expect("a Pod")
}

#[test]
fn nodes_that_accept_pods_take_turns() {
    let mut world = World::default();
    let taint = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
    for node in [
        node("a", "True", json!({})),
        node("b", "False", json!({})),
        node("c", "True", json!({"unschedulable": true})),
        node("d", "True", taint),
        node("e", "True", json!({})),
    ] {
        world.apply_node(&node);
    }
    let mut turns = RoundRobin::default();
    let chosen: Vec<_> = (0..4).filter_map(|_| turns.choose(&world)).collect();
    assert_eq!(chosen, ["a", "e", "a", "e"]);
    world.remove_node("e");
    assert_eq!(turns.choose(&world).as_deref(), Some("a"));
    world.remove_node("a");
    assert_eq!(turns.choose(&world), None);
}

#[test]
fn only_living_pods_without_a_node_need_one() {
    assert!(needs_node(&pod(json!({}), json!({"phase": "Pending"}))));
    assert!(!needs_node(&pod(json!({"nodeName": "a"}), json!({}))));
    assert!(!needs_node(&pod(json!({}), json!({"phase": "Failed"}))));
    let mut going = pod(json!({}), json!({}));
    going.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    assert!(!needs_node(&going));
}

#[test]
fn what_a_pod_says_already_is_seen() {
    let said = |status: &str| {
        pod(
            json!({}),
            json!({"conditions": [{"type": "PodScheduled", "status": status}]}),
        )
    };
    assert!(says_unschedulable(&said("False")));
    assert!(!says_unschedulable(&said("True")));
    assert!(!says_unschedulable(&pod(json!({}), json!({}))));
}
