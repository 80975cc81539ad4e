//! Events in the groups core and `events.k8s.io`.

use http::Method;
use serde_json::{Value, json};

use crate::harness::Api;

const CORE: &str = "/api/v1/namespaces/default/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn core(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Started", "message": "it started", "type": "Normal", "count": 2,
        "source": {"component": "c"}, "firstTimestamp": "2026-01-01T00:00:00Z",
    })
}

fn new(name: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
        "regarding": {"kind": "Node", "name": "n"}, "reason": "Ready", "note": "it is ready", "type": "Normal",
        "action": "Watching", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c", "reportingInstance": "c-1",
    })
}

#[tokio::test]
async fn both_groups_serve_the_same_events() {
    let api = Api::start().await;
    let mut watch = api.watch(&format!("{NEW}?watch=true")).await;
    api.post(CORE, &core("a")).await.expect(201);
    let created = api.post(NEW, &new("b")).await.expect(201);
    assert_eq!(created["apiVersion"], "events.k8s.io/v1");
    assert_eq!(created["note"], "it is ready");

    let shown = api.get(&format!("{NEW}/a")).await.expect(200);
    assert_eq!(shown["apiVersion"], "events.k8s.io/v1");
    assert_eq!(shown["regarding"]["name"], "p");
    assert_eq!(shown["deprecatedCount"], 2);
    assert_eq!(shown.get("reportingController"), None, "empty");
    assert_eq!(shown["deprecatedSource"]["component"], "c");
    let shown = api.get(&format!("{CORE}/b")).await.expect(200);
    assert_eq!(shown["apiVersion"], "v1");
    assert_eq!(shown["involvedObject"]["name"], "n");
    assert_eq!(shown["reportingComponent"], "example.com/c");
    for (path, version) in [(CORE, "v1"), (NEW, "events.k8s.io/v1")] {
        let list = api.get(path).await.expect(200);
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (&json!("EventList"), &json!(version))
        );
        assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    }
    let list = api
        .get(&format!("{NEW}?fieldSelector=regarding.kind%3DPod"))
        .await
        .expect(200);
    assert_eq!(list["items"][0]["note"], "it started");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let seen = watch.next().await.unwrap();
    assert_eq!(seen["object"]["note"], "it started");
    assert_eq!(seen["object"]["apiVersion"], "events.k8s.io/v1");
    assert_eq!(watch.next().await.unwrap()["object"]["note"], "it is ready");
}

#[tokio::test]
async fn series_are_updated_by_patches() {
    let api = Api::start().await;
    api.post(NEW, &new("e")).await.expect(201);
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}});
    for (kind, count) in [("strategic-merge-patch", 2), ("merge-patch", 3)] {
        let mut patch = series.clone();
        patch["series"]["count"] = json!(count);
        let content_type = format!("application/{kind}+json");
        let headers = [("content-type", content_type.as_str())];
        let path = format!("{NEW}/e");
        let reply = api.send(Method::PATCH, &path, &headers, patch.to_string()).await;
        assert_eq!(reply.expect(200)["series"]["count"], count);
    }
    assert_eq!(
        api.get(&format!("{CORE}/e")).await.expect(200)["series"]["count"],
        3
    );
    let changed = api
        .merge(&format!("{NEW}/e"), &json!({"note": "something else"}))
        .await
        .expect(422);
    assert_eq!(changed["details"]["causes"][0]["reason"], "FieldValueInvalid");
    let mut old = new("old");
    old["deprecatedCount"] = json!(1);
    api.post(NEW, &old).await.expect(422);
}

#[tokio::test]
async fn events_are_applied_in_the_new_group() {
    let api = Api::start().await;
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{NEW}/e?fieldManager=m");
    let reply = api
        .send(Method::PATCH, &path, &headers, new("e").to_string())
        .await;
    let applied = reply.expect(201);
    assert_eq!(applied["note"], "it is ready");
    assert_eq!(applied["metadata"]["managedFields"][0]["apiVersion"], "v1");
}
