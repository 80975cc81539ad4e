use serde_json::{Value, json};

use super::*;
use crate::machinery::field::FieldErrors;

fn causes(errors: &FieldErrors) -> Vec<String> {
    errors
        .iter()
        .map(|error| format!("{} {}", error.reason.as_str(), error.path))
        .collect()
}

fn cidr(cidrs: Value) -> Value {
    json!({"metadata": {"name": "c"}, "spec": {"cidrs": cidrs}})
}

#[test]
fn service_cidrs_are_validated() {
    let of = |cidrs: Value| causes(&validate_service_cidr(&cidr(cidrs)));
    assert!(of(json!(["10.0.0.0/24", "fd00::/112"])).is_empty());
    assert_eq!(of(json!([])), ["FieldValueRequired spec.cidrs"]);
    assert_eq!(of(json!(["a", "b", "c"])), ["FieldValueInvalid spec.cidrs"]);
    assert_eq!(of(json!(["10.0.0.1/24"])), ["FieldValueInvalid spec.cidrs[0]"]);
    assert_eq!(
        of(json!(["10.0.0.0/24", "10.1.0.0/24"])),
        ["FieldValueInvalid spec.cidrs"]
    );
}

#[test]
fn ranges_are_immutable_but_a_second_can_be_added() {
    let of = |old: Value, new: Value| causes(&validate_service_cidr_update(&cidr(new), &cidr(old)));
    assert!(of(json!(["10.0.0.0/24"]), json!(["10.0.0.0/24"])).is_empty());
    assert!(of(json!(["10.0.0.0/24"]), json!(["10.0.0.0/24", "fd00::/112"])).is_empty());
    assert_eq!(
        of(json!(["10.0.0.0/24"]), json!(["10.1.0.0/24"])),
        ["FieldValueInvalid spec.cidrs[0]"]
    );
    assert_eq!(
        of(json!(["10.0.0.0/24", "fd00::/112"]), json!(["10.0.0.0/24"])),
        ["FieldValueInvalid spec.cidrs"]
    );
}

#[test]
fn status_has_its_own_path() {
    let old = json!({"spec": {"cidrs": ["a"]}, "status": {"conditions": [1]}});
    let mut new = json!({"spec": {"cidrs": ["b"]}, "status": {}});
    prepare_service_cidr_update(&mut new, &old);
    assert_eq!(new["status"], old["status"]);
    prepare_service_cidr_status_update(&mut new, &old);
    assert_eq!(new["spec"], old["spec"]);
    prepare_service_cidr_create(&mut new);
    assert_eq!(new["status"], json!({}));
}

#[test]
fn status_updates_keep_the_metadata() {
    let old = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"cidrs": ["a"]}});
    let mut new = json!({"metadata": {"labels": {"c": "d"}, "finalizers": ["x/y"]},
        "status": {"conditions": [{"type": "Ready"}]}});
    prepare_service_cidr_status_update(&mut new, &old);
    default_service_cidr_on_write(&mut new);
    assert_eq!(new["metadata"], old["metadata"]);
    let condition =
        json!({"type": "Ready", "lastTransitionTime": null, "status": "", "reason": "", "message": ""});
    assert_eq!(new["status"]["conditions"], json!([condition]));
}

#[test]
fn validates_addresses_and_their_parents() {
    let address =
        |name: &str, parent: Value| json!({"metadata": {"name": name}, "spec": {"parentRef": parent}});
    let valid = address(
        "10.0.0.1",
        json!({"resource": "services", "namespace": "n", "name": "s"}),
    );
    assert!(validate_ip_address(&valid).is_empty());
    assert_eq!(
        causes(&validate_ip_address(&address("x", Value::Null))),
        [
            "FieldValueInvalid metadata.name",
            "FieldValueRequired spec.parentRef"
        ]
    );
    let invalid = address("10.0.0.1", json!({"group": "A", "name": "a/b"}));
    assert_eq!(
        causes(&validate_ip_address(&invalid)),
        [
            "FieldValueInvalid spec.parentRef.group",
            "FieldValueRequired spec.parentRef.resource",
            "FieldValueInvalid spec.parentRef.name"
        ]
    );
    assert_eq!(
        causes(&validate_ip_address_update(&invalid, &valid)),
        [
            "FieldValueInvalid spec.parentRef.group",
            "FieldValueRequired spec.parentRef.resource",
            "FieldValueInvalid spec.parentRef.name",
            "FieldValueInvalid spec.parentRef"
        ]
    );
}
