use api::object::Node;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{NodeState, Step, judge};

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
        Some(Step::Taint(taints)) => taints.iter().map(|t| format!("{}:{}", t.key, t.effect)).collect(),
        other => panic!("taints, not {other:?}"),
    }
}

#[test]
fn a_silent_node_becomes_unknown_and_what_it_never_said_is_marked_so() {
    let silent = node(
        &[("Ready", "True"), ("MemoryPressure", "False")],
        json!([]),
        false,
    );
    let Some(Step::SayUnknown(changes)) = judge(&silent, true, false, NOW) else {
        panic!("conditions change first");
    };
    let reasons: Vec<_> = changes
        .iter()
        .map(|c| (c.kind, c.reason, c.first_heartbeat.is_some()))
        .collect();
    let expected = [
        ("Ready", "NodeStatusUnknown", false),
        ("MemoryPressure", "NodeStatusUnknown", false),
        ("DiskPressure", "NodeStatusNeverUpdated", true),
        ("PIDPressure", "NodeStatusNeverUpdated", true),
    ];
    assert_eq!(reasons, expected);
    assert_eq!(
        judge(&silent, false, true, NOW),
        None,
        "one that is heard is left alone"
    );
}

#[test]
fn taints_follow_the_conditions_and_those_of_others_stay() {
    let foreign = json!([{"key": "mine", "effect": "NoExecute"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    let unknown = [
        ("Ready", "Unknown"),
        ("MemoryPressure", "Unknown"),
        ("DiskPressure", "Unknown"),
        ("PIDPressure", "Unknown"),
    ];
    let lost = node(&unknown, foreign.clone(), false);
    let unreachable = "node.kubernetes.io/unreachable";
    assert_eq!(
        tainted(judge(&lost, true, false, NOW)),
        ["mine:NoExecute".to_owned(), format!("{unreachable}:NoSchedule")]
    );
    assert_eq!(
        tainted(judge(&lost, true, true, NOW)),
        [
            "mine:NoExecute".to_owned(),
            format!("{unreachable}:NoSchedule"),
            format!("{unreachable}:NoExecute")
        ]
    );
    let back = node(&[("Ready", "True")], foreign, false);
    assert_eq!(tainted(judge(&back, false, true, NOW)), ["mine:NoExecute"]);
    let full = node(&[("Ready", "True"), ("DiskPressure", "True")], json!([]), true);
    let keys = [
        "node.kubernetes.io/disk-pressure:NoSchedule",
        "node.kubernetes.io/unschedulable:NoSchedule",
    ];
    assert_eq!(tainted(judge(&full, false, false, NOW)), keys);
}

proptest! {
    #[test]
    fn what_was_written_is_a_fixpoint(
        ready in prop::sample::select(vec!["True", "False", "Unknown"]),
        pressure in prop::sample::select(vec!["True", "False", "Unknown"]),
        is_silent: bool, leaves: bool, cordoned: bool,
        taints in proptest::collection::vec((0usize..3, 0usize..3), 0..5),
    ) {
        let keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "mine"];
        let effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
        let taints: Vec<Value> = taints.iter().map(|(k, e)| json!({"key": keys[*k], "effect": effects[*e]})).collect();
        let mut state = node(&[("Ready", ready), ("DiskPressure", pressure)], json!(taints), cordoned);
        let mut steps = 0;
        while let Some(step) = judge(&state, is_silent, leaves, NOW) {
            steps += 1;
            match step {
                Step::SayUnknown(changes) => for change in changes {
                    state.conditions.retain(|c| c.kind != change.kind);
                    state.conditions.push(api::object::NodeCondition {
                        kind: change.kind.to_owned(), status: "Unknown".to_owned(), last_heartbeat_time: None,
                    });
                },
                Step::Taint(taints) => state.taints = taints,
            }
            prop_assert!(steps <= 2, "conditions, taints, and nothing more");
        }
        if state.is_ready() {
            prop_assert!(!state.has_left_traffic());
        } else {
            prop_assert_eq!(state.has_left_traffic(), leaves);
        }
    }
}
