use api::object::Node;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{NodeState, Step, decide};

const NOW: &str = "2026-01-01T00:00:00Z";

fn node(conditions: &[(&str, &str)], taints: Value, unschedulable: bool) -> NodeState {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status)| json!({"type": kind, "status": status}))
        .collect();
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": "u", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"taints": taints, "unschedulable": unschedulable}, "status": {"conditions": conditions}}))
    .expect("a Node");
    NodeState::of(&node)
}

fn tainted(step: Option<Step>) -> Vec<String> {
    match step {
        Some(Step::Taint(taints)) => taints
            .iter()
            .map(|taint| format!("{}:{}", taint.key, taint.effect))
            .collect(),
        other => panic!("taints, not {other:?}"),
    }
}

#[test]
fn nodes_without_heartbeats_become_unknown() {
    let without_heartbeat = node(
        &[("Ready", "True"), ("MemoryPressure", "False")],
        json!([]),
        false,
    );
    let Some(Step::SetUnknown(changes)) = decide(&without_heartbeat, true, false, NOW) else {
        panic!("conditions change first");
    };
    let reasons: Vec<_> = changes
        .iter()
        .map(|condition| {
            (
                condition.kind,
                condition.reason,
                condition.first_heartbeat.is_some(),
            )
        })
        .collect();
    let expected = [
        ("Ready", "NodeStatusUnknown", false),
        ("MemoryPressure", "NodeStatusUnknown", false),
        ("DiskPressure", "NodeStatusNeverUpdated", true),
        ("PIDPressure", "NodeStatusNeverUpdated", true),
    ];
    assert_eq!(reasons, expected);
    assert_eq!(
        decide(&without_heartbeat, false, true, NOW),
        None,
        "one that is heartbeat is left alone"
    );
}

#[test]
fn taints_follow_conditions_and_foreign_taints_stay() {
    let foreign = json!([{"key": "mine", "effect": "NoExecute"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    let unknown = [
        ("Ready", "Unknown"),
        ("MemoryPressure", "Unknown"),
        ("DiskPressure", "Unknown"),
        ("PIDPressure", "Unknown"),
    ];
    let not_ready = node(&unknown, foreign.clone(), false);
    let unreachable = "node.kubernetes.io/unreachable";
    assert_eq!(
        tainted(decide(&not_ready, true, false, NOW)),
        ["mine:NoExecute".to_owned(), format!("{unreachable}:NoSchedule")]
    );
    assert_eq!(
        tainted(decide(&not_ready, true, true, NOW)),
        [
            "mine:NoExecute".to_owned(),
            format!("{unreachable}:NoSchedule"),
            format!("{unreachable}:NoExecute")
        ]
    );
    let back = node(&[("Ready", "True")], foreign, false);
    assert_eq!(tainted(decide(&back, false, true, NOW)), ["mine:NoExecute"]);
    let full = node(&[("Ready", "True"), ("DiskPressure", "True")], json!([]), true);
    let keys = [
        "node.kubernetes.io/disk-pressure:NoSchedule",
        "node.kubernetes.io/unschedulable:NoSchedule",
    ];
    assert_eq!(tainted(decide(&full, false, false, NOW)), keys);
}

proptest! {
    #[test]
    fn result_of_a_step_is_a_fixpoint(
        ready in prop::sample::select(vec!["True", "False", "Unknown"]),
        pressure in prop::sample::select(vec!["True", "False", "Unknown"]),
        is_heartbeat_overdue: bool, leaves: bool, cordoned: bool,
        taints in proptest::collection::vec((0usize..3, 0usize..3), 0..5),
    ) {
        let keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "mine"];
        let effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
        let taints: Vec<Value> = taints.iter().map(|(key, effect)| json!({"key": keys[*key], "effect": effects[*effect]})).collect();
        let mut state = node(&[("Ready", ready), ("DiskPressure", pressure)], json!(taints), cordoned);
        let mut steps = 0;
        while let Some(step) = decide(&state, is_heartbeat_overdue, leaves, NOW) {
            steps += 1;
            match step {
                Step::SetUnknown(changes) => for change in changes {
                    state.conditions.retain(|condition| condition.kind != change.kind);
                    state.conditions.push(api::object::NodeCondition {
                        kind: change.kind.to_owned(), status: "Unknown".to_owned(), last_heartbeat_time: None,
                    });
                },
                Step::Taint(taints) => state.taints = taints,
            }
            prop_assert!(steps <= 2, "conditions, taints, and nothing more");
        }
        if state.is_ready() {
            prop_assert!(!state.has_eviction_taint());
        } else {
            prop_assert_eq!(state.has_eviction_taint(), leaves);
        }
    }
}
