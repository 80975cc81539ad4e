use serde_json::{Value, json};

use super::*;

fn is_match(spec: Value) -> bool {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "a", "labels": {"zone": "z1", "cores": "8"}},
    }))
    .expect("a Node");
    let spec: SchedulePodSpec = serde_json::from_value(spec).expect("a spec");
    matches_node_affinity(&spec, &node)
}

fn required(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }}})
}

#[test]
fn operators_match_as_upstream() {
    for (key, operator, values, expected) in [
        ("zone", "In", json!(["z1", "z2"]), true),
        ("zone", "NotIn", json!(["z1"]), false),
        ("rack", "NotIn", json!(["z1"]), true),
        ("zone", "Exists", json!([]), true),
        ("zone", "DoesNotExist", json!([]), false),
        ("cores", "Gt", json!(["4"]), true),
        ("cores", "Lt", json!(["8"]), false),
        ("zone", "Gt", json!(["4"]), false),
        ("zone", "Near", json!([]), false),
    ] {
        let expression = json!({"key": key, "operator": operator, "values": values});
        let spec = required(json!([{"matchExpressions": [expression]}]));
        assert_eq!(is_match(spec), expected, "{key} {operator}");
    }
}

#[test]
fn one_term_has_to_match_completely() {
    let zone = json!({"key": "zone", "operator": "In", "values": ["z1"]});
    let name = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    let both = |node| json!({"matchExpressions": [zone], "matchFields": [name(node)]});
    assert!(is_match(required(json!([both("a")]))));
    assert!(!is_match(required(json!([both("b")]))));
    assert!(is_match(required(json!([both("b"), both("a")]))));
    assert!(!is_match(required(json!([{}]))));
}

#[test]
fn node_selector_and_affinity_both_apply() {
    let mut spec = required(json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]));
    assert!(is_match(spec.clone()));
    spec["nodeSelector"] = json!({"zone": "z2"});
    assert!(!is_match(spec));
}
