//! The expectations are responses of kube-apiserver 1.36.2.

use serde_json::json;

use super::*;

fn faults(attributes: &Value) -> Vec<String> {
    let mut errors = FieldErrors::new();
    validate(&mut errors, attributes);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn selectors_have_text_or_requirements() {
    let requirement = json!({"key": "a", "operator": "In", "values": ["b"]});
    for field in ["fieldSelector", "labelSelector"] {
        let at = format!("spec.resourceAttributes.{field}");
        assert_eq!(faults(&json!({field: {"rawSelector": "a=b"}})), [""; 0]);
        assert_eq!(
            faults(&json!({field: {"rawSelector": "a=b", "requirements": [requirement]}})),
            [format!(
                "{at}.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements"
            )]
        );
        assert_eq!(
            faults(&json!({field: {}})),
            [format!(
                "{at}.requirements: Required value: when {at} is specified, requirements or rawSelector is required"
            )]
        );
    }
}

#[test]
fn requirements_have_a_key_and_values() {
    let requirements = json!([
        {"key": "", "operator": "X", "values": []},
        {"key": "c", "operator": "Exists", "values": ["d"]},
        {"key": "e", "operator": "NotIn"},
    ]);
    let at = "spec.resourceAttributes.fieldSelector.requirements";
    assert_eq!(
        faults(&json!({"fieldSelector": {"requirements": requirements}})),
        [
            format!("{at}[0].key: Required value: must be specified"),
            format!(
                "{at}[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            ),
            format!("{at}[2].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        ]
    );
    let labels = json!({"labelSelector": {"requirements": [{"key": "a b", "operator": "Nope"}]}});
    assert!(
        faults(&labels)[0].starts_with("spec.resourceAttributes.labelSelector.requirements[0].key: Invalid")
    );
}

#[test]
fn evaluation_errors_name_selectors_that_are_not_understood() {
    let error =
        |field: &str, selector: Value| evaluation_error(&json!({ field: selector })).unwrap_or_default();
    assert_eq!(error("fieldSelector", json!({"rawSelector": "=("})), "");
    assert_eq!(
        error("fieldSelector", json!({"rawSelector": "abc"})),
        "spec.resourceAttributes.fieldSelector ignored due to parse error"
    );
    assert_eq!(
        error("labelSelector", json!({"rawSelector": "a b"})),
        "spec.resourceAttributes.labelSelector ignored due to parse error"
    );
    let several = json!([
        {"key": "a", "operator": "In", "values": ["b", "c"]},
        {"key": "a", "operator": "In", "values": ["b"]},
    ]);
    assert_eq!(
        error("fieldSelector", json!({"requirements": several})),
        "spec.resourceAttributes.fieldSelector partially ignored due to parse error"
    );
    assert_eq!(error("labelSelector", json!({"requirements": several})), "");
}
