use api::object::ObjectKey;
use serde_json::json;

use super::ObjectReference;

#[test]
fn reference_omits_empty_attributes() {
    let mut reference = ObjectReference::service(ObjectKey::new("shop", "web"), "u-1".to_owned());
    let expected =
        json!({"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web", "uid": "u-1"});
    assert_eq!(reference.to_json(), expected);
    reference.field_path = "spec.ports{http}".to_owned();
    assert_eq!(reference.to_json()["fieldPath"], "spec.ports{http}");
}

#[test]
fn events_about_cluster_scoped_objects_are_in_namespace_default() {
    let node = ObjectReference {
        kind: "Node".to_owned(),
        name: "node-1".to_owned(),
        ..ObjectReference::default()
    };
    assert_eq!(node.event_namespace(), "default");
    assert_eq!(node.to_json(), json!({"kind": "Node", "name": "node-1"}));
}
