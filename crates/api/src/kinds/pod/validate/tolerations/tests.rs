use serde_json::json;

use super::*;

/// Returns the errors of one toleration.
fn faults(toleration: Value) -> Vec<String> {
    let mut errors = FieldErrors::new();
    validate(
        &mut errors,
        &json!({"tolerations": [toleration]}),
        &Path::new("spec"),
    );
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn accepts_tolerations_of_each_form() {
    for toleration in [
        json!({"operator": "Exists"}),
        json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1}),
        json!({"key": "example.com/gpu", "value": "a100", "effect": "PreferNoSchedule"}),
        json!({"key": "gpu", "operator": "Equal", "effect": "NoSchedule"}),
    ] {
        assert_eq!(faults(toleration.clone()), Vec::<String>::new(), "{toleration}");
    }
}

#[test]
fn rejects_invalid_fields_with_the_messages_of_upstream() {
    let operator = "spec.tolerations[0].operator";
    let effects = "supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"";
    for (toleration, expected) in [
        (
            json!({"value": "v"}),
            format!(
                "{operator}: Invalid value: \"\": operator must be Exists when `key` is empty, \
                which means \"match all values and all keys\""
            ),
        ),
        (
            json!({"key": "k", "effect": "NoSchedule", "tolerationSeconds": 5}),
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": \
            effect must be 'NoExecute' when `tolerationSeconds` is set"
                .to_owned(),
        ),
        (
            json!({"key": "k", "operator": "Gt", "value": "5"}),
            format!("{operator}: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\""),
        ),
        (
            json!({"key": "k", "effect": "Never"}),
            format!("spec.tolerations[0].effect: Unsupported value: \"Never\": {effects}"),
        ),
    ] {
        assert_eq!(faults(toleration), [expected]);
    }
}

#[test]
fn rejects_keys_and_values_that_no_taint_has() {
    let of = |toleration| faults(toleration).join(" ");
    assert!(
        of(json!({"key": "a b"})).starts_with("spec.tolerations[0].key: Invalid value: \"a b\": name part")
    );
    let value = of(json!({"key": "k", "value": "a b"}));
    assert!(
        value.starts_with("spec.tolerations[0].operator: Invalid value: \"a b\": "),
        "{value}"
    );
    let value = of(json!({"key": "k", "operator": "Exists", "value": "v"}));
    assert!(
        value.ends_with(": value must be empty when `operator` is 'Exists'"),
        "{value}"
    );
}
