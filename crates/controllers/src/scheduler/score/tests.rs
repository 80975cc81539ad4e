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

fn occupied<'a>(like: i64, cpu_millis: i64, pods: i64) -> Occupied<'a> {
    let resources = Resources {
        cpu_millis,
        memory_bytes: 0,
    };
    Occupied {
        pods,
        resources,
        like,
        ports: Vec::new(),
    }
}

fn chosen(a: (Value, Occupied<'_>), b: (Value, Occupied<'_>)) -> String {
    let (first, second) = (node("a", a.0), node("b", b.0));
    let node = choose(&SchedulePod::default(), &[(&first, a.1), (&second, b.1)]).expect("a Node");
    node.metadata.name.clone()
}

#[test]
fn pods_of_one_owner_are_spread_then_load_decides() {
    assert_eq!(
        chosen((json!({}), occupied(1, 0, 1)), (json!({}), occupied(0, 1_900, 9))),
        "b"
    );
    assert_eq!(
        chosen((json!({}), occupied(1, 900, 1)), (json!({}), occupied(1, 500, 9))),
        "b"
    );
    assert_eq!(
        chosen((json!({}), occupied(0, 0, 2)), (json!({}), occupied(0, 0, 1))),
        "b"
    );
    assert_eq!(
        chosen((json!({}), occupied(0, 0, 0)), (json!({}), occupied(0, 0, 0))),
        "a"
    );
}

#[test]
fn unwelcome_nodes_are_taken_last() {
    let unwelcome = json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]});
    assert_eq!(
        chosen((unwelcome, occupied(0, 0, 0)), (json!({}), occupied(5, 0, 5))),
        "b"
    );
}

#[test]
fn where_none_fits_all_reasons_are_told() {
    let (a, b) = (
        node("a", json!({"unschedulable": true})),
        node("b", json!({"unschedulable": true})),
    );
    let nodes = [(&a, Occupied::default()), (&b, Occupied::default())];
    assert_eq!(
        choose(&SchedulePod::default(), &nodes),
        Err(vec![Refusal::Unschedulable, Refusal::Unschedulable])
    );
}
