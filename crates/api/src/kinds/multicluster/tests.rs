use serde_json::{Value, json};

use super::*;
use crate::kinds::kind;

fn import(spec: &Value) -> Value {
    json!({"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
           "metadata": {"namespace": "shop", "name": "web"}, "spec": spec})
}

/// Returns the paths of the errors.
fn paths(errors: &FieldErrors) -> Vec<&str> {
    errors.iter().map(|error| error.path.as_str()).collect()
}

#[test]
fn accepts_imports_of_both_types() {
    for spec in [
        json!({"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80}], "ips": ["10.96.0.9", "fd00::9"]}),
        json!({"type": "Headless", "ports": []}),
    ] {
        assert_eq!(
            paths(&validate_import(&import(&spec))),
            Vec::<&str>::new(),
            "{spec}"
        );
    }
}

#[test]
fn rejects_imports_against_the_definition() {
    for (spec, expected) in [
        (json!({"ports": []}), "spec.type"),
        (json!({"type": "NodePort", "ports": []}), "spec.type"),
        (json!({"type": "Headless"}), "spec.ports"),
        (
            json!({"type": "Headless", "ports": [{"name": "a"}]}),
            "spec.ports[0].port",
        ),
        (
            json!({"type": "Headless", "ports": [], "ips": ["1", "2", "3"]}),
            "spec.ips",
        ),
        (
            json!({"type": "Headless", "ports": [], "ipFamilies": ["a", "b", "c"]}),
            "spec.ipFamilies",
        ),
    ] {
        let object = import(&spec);
        assert_eq!(paths(&validate_import(&object)), [expected], "{spec}");
    }
}

#[test]
fn status_belongs_to_the_subresource() {
    let mut new = import(&json!({"type": "Headless", "ports": []}));
    new["status"] = json!({"clusters": [{"cluster": "east"}]});
    let mut old = new.clone();
    old["metadata"]["generation"] = json!(3);
    prepare_create(&mut new);
    assert!(new.get("status").is_none());
    new["spec"]["ports"] = json!([{"port": 80}]);
    prepare_update(&mut new, &old);
    assert_eq!(new["status"], old["status"]);
    assert_eq!(new["metadata"]["generation"], 4);
}

#[test]
fn rejects_invalid_states() {
    let mut new = import(&json!({"type": "Headless", "ports": []}));
    new["status"] = json!({
        "conditions": [
            {"type": "Ready", "status": "Yes", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}],
        "clusters": [{"cluster": "east"}, {"cluster": "east"}, {}],
        "endpointSliceObjects": "Perhaps"});
    new["metadata"]["resourceVersion"] = json!("1");
    let errors = validate_import_status_update(&new, &new);
    assert_eq!(
        paths(&errors),
        [
            "status.conditions[0].reason",
            "status.conditions[0].status",
            "status.conditions[1].lastTransitionTime",
            "status.conditions[1].type",
            "status.clusters[1].cluster",
            "status.clusters[2].cluster",
            "status.endpointSliceObjects"
        ]
    );
}

#[test]
fn both_versions_share_the_stored_objects() {
    for plural in ["serviceexports", "serviceimports"] {
        let present = kind::find(GROUP, VERSION, plural).expect("served");
        let earlier = kind::find(GROUP, EARLIER_VERSION, plural).expect("served");
        assert!(present.is_stored_form() && !earlier.is_stored_form());
        assert!(std::ptr::eq(earlier.stored(), present));
        assert_eq!(earlier.store_key("a", "b"), present.store_key("a", "b"));
        let object = earlier.into_stored(json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1"}));
        assert_eq!(object["apiVersion"], "multicluster.x-k8s.io/v1beta1");
        assert_eq!(
            earlier.of_stored(object)["apiVersion"],
            "multicluster.x-k8s.io/v1alpha1"
        );
        assert!(!present.has_protobuf());
    }
}
