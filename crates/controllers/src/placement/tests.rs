use api::object::Node;
use serde_json::{Value, json};

use super::RoundRobin;
use crate::world::World;

fn node(name: &str, ready: &str, spec: Value) -> Node {
    let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec, "status": status}))
        .expect("a Node")
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
