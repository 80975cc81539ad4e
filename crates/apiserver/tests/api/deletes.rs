//! Deletion: finalizers, preconditions, grace periods, and collections.

use http::Method;
use serde_json::json;

use crate::harness::{Api, config_map, config_maps};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn deleted_objects_are_not_found() {
    let api = Api::start().await;
    let created = api
        .post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(201);
    let status = api.delete(&config_maps("a")).await.expect(200);
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"]["uid"], created["metadata"]["uid"]);
    assert_eq!(
        api.get(&config_maps("a")).await.expect(404)["details"]["name"],
        "a"
    );
    api.delete(&config_maps("a")).await.expect(404);
}

#[tokio::test]
async fn finalizers_keep_a_deleted_object() {
    let api = Api::start().await;
    let mut object = config_map("a", json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    api.post(&config_maps(""), &object).await.expect(201);
    let marked = api.delete(&config_maps("a")).await.expect(200);
    assert_eq!(marked["kind"], "ConfigMap");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let cascading = format!("{}?orphanDependents=false", config_maps("a"));
    api.delete(&cascading).await.expect(202);
    let added = json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}});
    api.merge(&config_maps("a"), &added).await.expect(422);
    api.merge(&config_maps("a"), &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    api.get(&config_maps("a")).await.expect(404);
}

#[tokio::test]
async fn deletes_check_preconditions() {
    let api = Api::start().await;
    let created = api
        .post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(201);
    let delete = |preconditions| {
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions});
        let api = &api;
        async move {
            let headers = [("content-type", "application/json")];
            api.send(Method::DELETE, &config_maps("a"), &headers, body.to_string())
                .await
        }
    };
    let refused = delete(json!({"uid": "other"})).await.expect(409);
    assert_eq!(refused["reason"], "Conflict");
    delete(json!({"resourceVersion": "1"})).await.expect(409);
    delete(json!({"uid": created["metadata"]["uid"]}))
        .await
        .expect(200);
}

#[tokio::test]
async fn scheduled_pods_stay_until_deleted_without_grace_period() {
    let api = Api::start().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    api.post(PODS, &pod).await.expect(201);
    let path = format!("{PODS}/p");
    let marked = api.delete(&path).await.expect(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    api.get(&path).await.expect(200);
    let deleted = api
        .delete(&format!("{path}?gracePeriodSeconds=0"))
        .await
        .expect(200);
    assert_eq!(deleted["kind"], "Pod");
    api.get(&path).await.expect(404);
}

/// Upstream's `Store.Delete` marks such a Pod before it removes it.
#[tokio::test]
async fn watches_see_the_mark_of_a_pod_that_is_deleted_at_once() {
    let api = Api::start().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post(PODS, &pod).await.expect(201);
    let mut lines = api.watch(&format!("{PODS}?watch=true")).await;
    assert_eq!(lines.next_named().await.0, "ADDED");
    let deleted = api.delete(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 0);
    let event = lines.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"], deleted);
}

#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let api = Api::start().await;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        api.post(&config_maps(""), &config_map(name, json!({"color": color})))
            .await
            .expect(201);
    }
    let list = api
        .delete(&format!("{}?labelSelector=color%3Dred", config_maps("")))
        .await
        .expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let path = format!("{}?labelSelector=color", config_maps(""));
    let remaining = api.get(&path).await.expect(200);
    assert_eq!(remaining["items"][0]["metadata"]["name"], "b");
    assert_eq!(remaining["items"].as_array().unwrap().len(), 1);
}

/// Upstream: registry/batch/job/storage/storage.go, `DeleteCollection`.
#[tokio::test]
async fn deletions_of_collections_of_jobs_warn_about_their_pods() {
    let api = Api::start().await;
    for (query, warnings) in [("", 1), ("?propagationPolicy=Background", 0)] {
        let jobs = format!("/apis/batch/v1/namespaces/default/jobs{query}");
        let deleted = api.delete(&jobs).await;
        deleted.expect(200);
        assert_eq!(
            deleted.headers.get_all("warning").iter().count(),
            warnings,
            "{query}"
        );
    }
}
