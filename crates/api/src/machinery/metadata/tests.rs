use serde_json::json;

use super::*;

fn causes(errors: &FieldErrors) -> Vec<(&'static str, &str)> {
    errors
        .iter()
        .map(|error| (error.reason.as_str(), error.path.as_str()))
        .collect()
}

#[test]
fn accepts_a_plain_object() {
    let object = json!({"metadata": {"name": "a", "namespace": "n", "labels": {"a/b": "c"}, "annotations": {"A": "!"}}});
    assert!(validate(&object, NameForm::DnsLabel, true).is_empty());
    let object = json!({"metadata": {"name": "web-x1", "generateName": "web-", "namespace": "n"}});
    assert!(validate(&object, NameForm::DnsLabel, true).is_empty());
}

#[test]
fn forms_of_names_differ_by_kind() {
    let named = |name: &str, form| validate(&json!({"metadata": {"name": name}}), form, false).len();
    assert_eq!(named("a.b", NameForm::DnsLabel), 1);
    assert_eq!(named("a.b", NameForm::DnsSubdomain), 0);
    assert_eq!(named("system:node", NameForm::PathSegment), 0);
    assert_eq!(named("10.0.0.1", NameForm::IpAddress), 0);
    assert_eq!(named("10.0.0.01", NameForm::IpAddress), 1);
    assert_eq!(named("2001:DB8::1", NameForm::IpAddress), 1);
    assert_eq!(named("", NameForm::DnsSubdomain), 1);
}

#[test]
fn requires_namespaces_for_namespaced_kinds_only() {
    let errors = validate(&json!({"metadata": {"name": "a"}}), NameForm::DnsLabel, true);
    assert_eq!(causes(&errors), [("FieldValueRequired", "metadata.namespace")]);
    let errors = validate(
        &json!({"metadata": {"name": "a", "namespace": "n"}}),
        NameForm::DnsLabel,
        false,
    );
    assert_eq!(causes(&errors), [("FieldValueForbidden", "metadata.namespace")]);
}

#[test]
fn validates_finalizers_and_owners() {
    let object = json!({"metadata": {"name": "a", "finalizers": ["nonsense finalizer"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap"}]}});
    let errors = validate(&object, NameForm::DnsLabel, false);
    assert_eq!(
        causes(&errors),
        [
            ("FieldValueInvalid", "metadata.ownerReferences.name"),
            ("FieldValueInvalid", "metadata.ownerReferences.uid"),
            ("FieldValueInvalid", "metadata.finalizers"),
            ("FieldValueInvalid", "metadata.finalizers[0]"),
        ]
    );
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "X", "name": name, "uid": "u", "controller": true});
    let object = json!({"metadata": {"name": "a", "ownerReferences": [owner("a"), owner("b")]}});
    assert_eq!(
        causes(&validate(&object, NameForm::DnsLabel, false)),
        [("FieldValueInvalid", "metadata.ownerReferences")]
    );
}

#[test]
fn rejects_too_many_bytes_of_annotations() {
    let object = json!({"metadata": {"name": "a", "annotations": {"a": "x".repeat(ANNOTATIONS_BYTES_MAX)}}});
    let errors = validate(&object, NameForm::DnsLabel, false);
    assert_eq!(causes(&errors), [("FieldValueTooLong", "metadata.annotations")]);
}

#[test]
fn updates_keep_the_identity() {
    let old = json!({"metadata": {"name": "a", "uid": "1", "deletionTimestamp": "t", "finalizers": ["x/a"]}});
    let new = json!({"metadata": {"name": "b", "uid": "2", "deletionTimestamp": "t", "finalizers": ["x/b"]}});
    let once = [
        ("FieldValueForbidden", "metadata.finalizers"),
        ("FieldValueInvalid", "metadata.name"),
        ("FieldValueInvalid", "metadata.uid"),
    ];
    assert_eq!(causes(&validate_update_of_any(&new, &old)), once);
    assert_eq!(causes(&validate_update(&new, &old)), [once, once].concat());
    assert!(validate_update(&old, &old).is_empty());
}

#[test]
fn invalid_label_has_three_causes_on_an_update() {
    let old = json!({"metadata": {"name": "a", "namespace": "n"}});
    let new = json!({"metadata": {"name": "a", "namespace": "n", "labels": {"bad key": "x"}}});
    let expected = [("FieldValueInvalid", "metadata.labels"); 3];
    assert_eq!(causes(&validate_update(&new, &old)), expected);
    let new = json!({"metadata": {"name": "a", "namespace": "n", "finalizers": ["nonsense finalizer"]}});
    let expected = [
        ("FieldValueInvalid", "metadata.finalizers"),
        ("FieldValueInvalid", "metadata.finalizers[0]"),
    ];
    assert_eq!(causes(&validate_update(&new, &old)), expected);
}

#[test]
fn drops_duplicate_owners() {
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid});
    let mut object = json!({"metadata": {"ownerReferences": [owner("a"), owner("b"), owner("a")]}});
    let warning = drop_duplicate_owners(&mut object).expect("a warning");
    assert!(warning.ends_with("duplicate UID(s) observed: a"), "{warning}");
    assert_eq!(
        object["metadata"]["ownerReferences"],
        json!([owner("a"), owner("b")])
    );
    assert_eq!(drop_duplicate_owners(&mut object), None);
    assert_eq!(drop_duplicate_owners(&mut json!({})), None);
}

#[test]
fn many_owners_take_linear_time_and_few_errors() {
    let owner = |uid: usize| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid.to_string(), "controller": true});
    let owners: Vec<Value> = (0..20_000).map(owner).collect();
    let mut object = json!({"metadata": {"name": "a", "ownerReferences": owners}});
    // The pairwise comparison of all owners would take a minute.
    assert_eq!(drop_duplicate_owners(&mut object), None);
    let errors = validate(&object, NameForm::DnsSubdomain, false);
    assert_eq!(errors.len(), SURPLUS_CONTROLLERS_MAX);
}

#[test]
fn many_finalizers_of_a_deleted_object_take_linear_time() {
    let finalizers: Vec<String> = (0..60_000).map(|number| format!("a/{number}")).collect();
    let object = json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T12:00:00Z", "finalizers": finalizers}});
    // The pairwise comparison of all finalizers would take a minute.
    assert_eq!(validate_update(&object, &object), vec![]);
}

#[test]
fn many_invalid_labels_have_a_bounded_number_of_errors() {
    let labels: serde_json::Map<_, _> = (0..100_000)
        .map(|number| (format!("!{number}"), json!("!")))
        .collect();
    let object = json!({"metadata": {"name": "a", "namespace": "b", "labels": labels}});
    let errors = validate(&object, NameForm::DnsSubdomain, true);
    assert!((ERRORS_MAX..ERRORS_MAX + 2).contains(&errors.len()));
}
