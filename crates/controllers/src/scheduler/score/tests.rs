use serde_json::{Value, json};

use super::*;

fn node(name: &str, spec: Value) -> Node {
    let node = json!({
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "110"},
        },
    });
    serde_json::from_value(node).expect("a Node")
}

fn usage<'a>(similar_pods: i64, cpu_millis: i64, pods: i64) -> NodeUsage<'a> {
    let resources = Resources {
        cpu_millis,
        memory_bytes: 0,
    };
    NodeUsage {
        pods,
        resources,
        similar_pods,
        ports: api::pod::UsedHostPorts::default(),
    }
}

fn chosen(a: (Value, NodeUsage<'_>), b: (Value, NodeUsage<'_>)) -> String {
    let (first, second) = (node("a", a.0), node("b", b.0));
    let node = choose_node(
        &SchedulePod::default(),
        &[(&first, a.1), (&second, b.1)],
        &Constraints::default(),
    )
    .expect("a Node");
    node.metadata.name.clone()
}

#[test]
fn pods_of_one_owner_are_spread_then_load_decides() {
    assert_eq!(
        chosen((json!({}), usage(1, 0, 1)), (json!({}), usage(0, 1_900, 9))),
        "b"
    );
    assert_eq!(
        chosen((json!({}), usage(1, 900, 1)), (json!({}), usage(1, 500, 9))),
        "b"
    );
    assert_eq!(
        chosen((json!({}), usage(0, 0, 2)), (json!({}), usage(0, 0, 1))),
        "b"
    );
    assert_eq!(
        chosen((json!({}), usage(0, 0, 0)), (json!({}), usage(0, 0, 0))),
        "a"
    );
}

#[test]
fn nodes_with_prefer_no_schedule_taints_are_chosen_last() {
    let avoided = json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]});
    assert_eq!(
        chosen((avoided, usage(0, 0, 0)), (json!({}), usage(5, 0, 5))),
        "b"
    );
}

#[test]
fn returns_all_reasons_if_no_node_fits() {
    let (a, b) = (
        node("a", json!({"unschedulable": true})),
        node("b", json!({"unschedulable": true})),
    );
    let nodes = [(&a, NodeUsage::default()), (&b, NodeUsage::default())];
    assert_eq!(
        choose_node(&SchedulePod::default(), &nodes, &Constraints::default()),
        Err(vec![Refusal::Unschedulable, Refusal::Unschedulable])
    );
}
