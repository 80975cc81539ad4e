//! The history of the store, from which the watches of all clients continue.

use client::{Client, JSON};
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::Api;

const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/services";
const RBAC: &str = "rbac.authorization.k8s.io";
/// Changes of one megabyte. Half of them exceed the history.
const CHANGES: usize = 60;

async fn create(client: &Client, collection: &str, object: &Value) {
    let created = client.request(Method::POST, collection, JSON, Some(object));
    created.await.expect("an object");
}

fn large_object(number: usize) -> Value {
    let text = format!("{number}-{}", "x".repeat(1_000_000));
    json!({"metadata": {"name": "large"}, "data": {"text": text}})
}

/// A client lists, and then watches from the version of the list. The version has to last for as long as the list takes.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_large_objects_leave_history_to_others() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let binding = json!({
        "metadata": {"name": "editor"}, "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "editor"}],
    });
    let bindings = format!("/apis/{RBAC}/v1/namespaces/default/rolebindings");
    create(&administrator, &bindings, &binding).await;
    let editor = access::with_certificate(&api, "editor", "");
    create(&editor, OBJECTS, &large_object(0)).await;
    let list = async |path: &str| administrator.request(Method::GET, path, JSON, None).await;
    let services = list(SERVICES).await.expect("the Services");
    let version = services["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    let path = format!("{OBJECTS}/large");
    let mut changes = 0;
    for number in 1..=CHANGES {
        let object = large_object(number);
        match editor.request(Method::PUT, &path, JSON, Some(&object)).await {
            Ok(_) => changes += 1,
            Err(error) => assert_eq!(error.code(), Some(429), "{error}"),
        }
    }
    println!("{changes} changes");
    assert!(changes > 10, "{changes}");
    let at_version = format!("{SERVICES}?resourceVersion={version}&resourceVersionMatch=Exact&limit=1");
    list(&at_version).await.expect("the Services at the version");
    // Administrators are not refused.
    administrator
        .request(Method::PUT, &path, JSON, Some(&large_object(0)))
        .await
        .expect("a change");
}
