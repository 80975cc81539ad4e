//! Watches: start, resumption, selectors, bookmarks, timeouts, and shutdown.

use serde_json::json;

use crate::harness::{Api, config_map, config_maps};

fn named(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test]
async fn watches_start_at_the_revision_of_the_list() {
    let api = Api::start().await;
    api.post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(201);
    let list = api.get(&config_maps("")).await.expect(200);
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    api.post(&config_maps(""), &config_map("b", json!({})))
        .await
        .expect(201);
    let mut lines = api
        .watch(&format!("{}?watch=1&resourceVersion={version}", config_maps("")))
        .await;
    assert_eq!(lines.next_named().await, named("ADDED", "b"));
    api.merge(&config_maps("a"), &json!({"data": {"k": "w"}}))
        .await
        .expect(200);
    assert_eq!(lines.next_named().await, named("MODIFIED", "a"));
    let deleted = api.delete(&config_maps("b")).await;
    assert_eq!(deleted.code, 200);
    assert_eq!(lines.next_named().await, named("DELETED", "b"));
}

#[tokio::test]
async fn watches_without_version_start_with_existing_objects() {
    let api = Api::start().await;
    api.post(&config_maps(""), &config_map("a", json!({"x": "1"})))
        .await
        .expect(201);
    api.post(&config_maps(""), &config_map("b", json!({"x": "2"})))
        .await
        .expect(201);
    let mut lines = api
        .watch(&format!("{}?watch=1&labelSelector=x%3D1", config_maps("")))
        .await;
    assert_eq!(lines.next_named().await, named("ADDED", "a"));
    api.merge(&config_maps("b"), &json!({"metadata": {"labels": {"x": "1"}}}))
        .await
        .expect(200);
    assert_eq!(lines.next_named().await, named("ADDED", "b"));
    api.merge(&config_maps("a"), &json!({"metadata": {"labels": {"x": "2"}}}))
        .await
        .expect(200);
    assert_eq!(lines.next_named().await, named("DELETED", "a"));
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let api = Api::start().await;
    api.post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(201);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let only = "&fieldSelector=metadata.name%3Da";
    let mut lines = api.watch(&format!("{}?{query}{only}", config_maps(""))).await;
    assert_eq!(lines.next_named().await, named("ADDED", "a"));
    let bookmark = lines.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    // An empty collection has a bookmark too.
    let mut lines = api
        .watch(&format!("/api/v1/namespaces/default/secrets?{query}"))
        .await;
    assert_eq!(lines.next().await.unwrap()["type"], "BOOKMARK");
}

#[tokio::test]
async fn watches_end_at_their_timeout_with_a_bookmark() {
    let api = Api::start().await;
    let mut lines = api
        .watch(&format!(
            "{}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&labelSelector=x",
            config_maps("")
        ))
        .await;
    assert_eq!(lines.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn watches_one_object_by_its_path() {
    let api = Api::start().await;
    for name in ["a", "ab"] {
        api.post(&config_maps(""), &config_map(name, json!({})))
            .await
            .expect(201);
    }
    let mut lines = api
        .watch("/api/v1/watch/namespaces/default/configmaps/a?resourceVersion=0")
        .await;
    assert_eq!(lines.next_named().await, named("ADDED", "a"));
    api.delete(&config_maps("ab")).await.expect(200);
    api.delete(&config_maps("a")).await.expect(200);
    assert_eq!(lines.next_named().await, named("DELETED", "a"));
}

#[tokio::test]
async fn draining_the_server_ends_watches() {
    let api = Api::start().await;
    let mut lines = api
        .watch(&format!(
            "{}?watch=1&fieldSelector=metadata.name%3Da",
            config_maps("")
        ))
        .await;
    // The first event shows that the watch is established.
    api.post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(201);
    assert_eq!(lines.next_named().await, named("ADDED", "a"));
    let stopped = api.stop();
    let (directory, rest) = tokio::join!(stopped, lines.next());
    assert_eq!(rest, None);
    drop(directory);
}
