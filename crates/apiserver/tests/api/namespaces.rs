//! Namespaces: existence checks, and termination with their content.

use serde_json::json;

use crate::harness::{Api, TIMEOUT, config_map};

#[tokio::test]
async fn objects_require_an_existing_namespace() {
    let api = Api::start().await;
    let status = api
        .post("/api/v1/namespaces/nope/configmaps", &config_map("a", json!({})))
        .await
        .expect(404);
    assert_eq!(status["details"]["kind"], "namespaces");
    let mut elsewhere = config_map("a", json!({}));
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    api.post("/api/v1/namespaces/default/configmaps", &elsewhere)
        .await
        .expect(400);
    api.post("/api/v1/configmaps", &config_map("a", json!({})))
        .await
        .expect(405);
}

#[tokio::test]
async fn deleted_namespaces_delete_their_content() {
    let api = Api::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    api.post("/api/v1/namespaces", &namespace).await.expect(201);
    let mut held = config_map("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/f"]);
    let path = "/api/v1/namespaces/n/configmaps";
    api.post(path, &held).await.expect(201);
    api.post(path, &config_map("free", json!({}))).await.expect(201);
    let marked = api.delete("/api/v1/namespaces/n").await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    let refused = api.post(path, &config_map("late", json!({}))).await.expect(403);
    assert_eq!(refused["details"]["causes"][0]["reason"], "NamespaceTerminating");
    // A finalizer in the namespace delays its deletion.
    let mut lines = api.watch("/api/v1/watch/namespaces/n").await;
    assert_eq!(lines.next_named().await.0, "ADDED");
    api.merge(
        &format!("{path}/held"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    let deleted = async { while lines.next_named().await.0 != "DELETED" {} };
    tokio::time::timeout(TIMEOUT, deleted)
        .await
        .expect("deletion of the namespace in time");
    api.get("/api/v1/namespaces/n").await.expect(404);
    api.get(&format!("{path}/free")).await.expect(404);
    // The name can be used again.
    api.post("/api/v1/namespaces", &namespace).await.expect(201);
}

#[tokio::test]
async fn system_namespaces_cannot_be_deleted() {
    let api = Api::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        let refused = api
            .delete(&format!("/api/v1/namespaces/{name}"))
            .await
            .expect(403);
        assert_eq!(refused["reason"], "Forbidden");
    }
}
