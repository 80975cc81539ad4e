use serde_json::json;

use super::*;

#[test]
fn requires_all_labels_and_expressions() {
    let selector = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "old", "operator": "DoesNotExist"},
        ],
    });
    let selector = LabelSelector::from_object(&Path::new("s"), &selector).expect("selector");
    let matches = |labels: Value| selector.matches_object(&json!({"metadata": {"labels": labels}}));
    assert!(matches(json!({"app": "web", "tier": "a"})));
    assert!(!matches(json!({"app": "web", "tier": "c"})));
    assert!(!matches(json!({"app": "web", "tier": "a", "old": ""})));
    assert!(!matches(json!({"tier": "a"})));
}

#[test]
fn empty_selector_matches_all_objects() {
    let selector = LabelSelector::from_object(&Path::new("s"), &json!({})).expect("selector");
    assert!(selector.is_empty());
}

#[test]
fn errors_name_their_fields() {
    let selector = json!({"matchExpressions": [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "", "operator": "Like"},
    ]});
    let errors = LabelSelector::from_object(&Path::new("s"), &selector).expect_err("invalid selector");
    let fields: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    assert!(fields.contains(&"s.matchExpressions[0].values"), "{fields:?}");
    assert!(fields.contains(&"s.matchExpressions[1].values"), "{fields:?}");
    assert!(fields.contains(&"s.matchExpressions[2].operator"), "{fields:?}");
    assert!(fields.contains(&"s.matchExpressions[2].key"), "{fields:?}");
}

// Upstream: apimachinery/pkg/apis/meta/v1/validation, `ValidateLabelSelectorRequirement`.
#[test]
fn unknown_operators_are_invalid() {
    let selector = json!({"matchExpressions": [{"key": "a b", "operator": "Like"}]});
    let errors = LabelSelector::from_object(&Path::new("s"), &selector).expect_err("invalid selector");
    assert_eq!(
        errors[0].to_string(),
        "s.matchExpressions[0].operator: Invalid value: \"Like\": not a valid selector operator"
    );
    assert_eq!(errors[1].path.as_str(), "s.matchExpressions[0].key");
}
