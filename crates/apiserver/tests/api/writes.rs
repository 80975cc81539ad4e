//! Create, update and patch: versions, validation, warnings, and encodings.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Api, config_map, config_maps};

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn created_objects_are_read_back_unchanged() {
    let api = Api::start().await;
    let created = api
        .post(&config_maps(""), &config_map("a", json!({"x": "1"})))
        .await;
    let object = created.expect(201);
    assert_eq!(object["metadata"]["namespace"], "default");
    assert!(!object["metadata"]["uid"].as_str().unwrap().is_empty());
    let read = api.get(&config_maps("a")).await;
    assert_eq!(read.body, created.body);
    let duplicate = api
        .post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(409);
    assert_eq!(duplicate["reason"], "AlreadyExists");
    assert_eq!(duplicate["details"]["kind"], "configmaps");
}

#[tokio::test]
async fn requests_and_responses_in_protobuf() {
    let api = Api::start().await;
    // The ConfigMap `a` with data {"k": "v"}, and DeleteOptions with the precondition UID `other`.
    let object =
        b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0d\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v";
    let options = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x09\x12\x07\x0a\x05other";
    let headers = [
        ("content-type", "application/vnd.kubernetes.protobuf"),
        ("accept", "application/vnd.kubernetes.protobuf,application/json"),
    ];
    let created = api
        .send(Method::POST, &config_maps(""), &headers, object.to_vec())
        .await;
    assert_eq!(created.code, 201);
    let read = |body: &[u8], definition| api::protobuf::open(body).unwrap().object(definition).unwrap();
    let created = read(&created.body, "io.k8s.api.core.v1.ConfigMap");
    assert_eq!(created["data"], json!({"k": "v"}));
    let refused = api
        .send(Method::DELETE, &config_maps("a"), &headers, options.to_vec())
        .await;
    assert_eq!(refused.code, 409);
    let refused = read(&refused.body, "io.k8s.apimachinery.pkg.apis.meta.v1.Status");
    assert!(
        refused["message"].as_str().unwrap().contains("other"),
        "{refused}"
    );
    assert_eq!(api.get(&config_maps("a")).await.json(), created);
}

#[tokio::test]
async fn generate_name_yields_distinct_names() {
    let api = Api::start().await;
    let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "web-"}});
    let first = api.post(&config_maps(""), &template).await.expect(201);
    let second = api.post(&config_maps(""), &template).await.expect(201);
    assert!(first["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let refused = api.post(&config_maps(""), &nameless).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "metadata.name");
}

#[tokio::test]
async fn dry_run_stores_nothing() {
    let api = Api::start().await;
    let path = format!("{}?dryRun=All", config_maps(""));
    let object = api.post(&path, &config_map("a", json!({}))).await.expect(201);
    assert_eq!(object["metadata"].get("resourceVersion"), None);
    api.get(&config_maps("a")).await.expect(404);
}

#[tokio::test]
async fn unknown_fields_follow_field_validation() {
    let api = Api::start().await;
    let mut object = config_map("a", json!({}));
    object["nonsense"] = json!(1);
    let warned = api.post(&config_maps(""), &object).await;
    assert_eq!(warned.code, 201);
    let warning = warned.headers["warning"].to_str().unwrap();
    assert!(warning.contains(r#"unknown field \"nonsense\""#), "{warning}");
    assert_eq!(warned.json().get("nonsense"), None);
    object["metadata"]["name"] = json!("b");
    let strict = api
        .post(&format!("{}?fieldValidation=Strict", config_maps("")), &object)
        .await;
    assert_eq!(strict.expect(400)["reason"], "BadRequest");
    let ignored = api
        .post(&format!("{}?fieldValidation=Ignore", config_maps("")), &object)
        .await;
    assert!(ignored.code == 201 && !ignored.headers.contains_key("warning"));
}

#[tokio::test]
async fn updates_require_the_current_version() {
    let api = Api::start().await;
    let mut object = api
        .post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(201);
    let first = version(&object);
    object["data"]["k"] = json!("w");
    let updated = api.put(&config_maps("a"), &object).await.expect(200);
    assert_ne!(version(&updated), first);
    assert_eq!(updated["metadata"]["uid"], object["metadata"]["uid"]);
    let stale = api.put(&config_maps("a"), &object).await.expect(409);
    assert_eq!(stale["reason"], "Conflict");
    // An update without a version is unconditional.
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    object["data"]["k"] = json!("x");
    let forced = api.put(&config_maps("a"), &object).await.expect(200);
    // An update without changes does not change the version.
    let same = api.put(&config_maps("a"), &object).await.expect(200);
    assert_eq!(version(&forced), version(&same));
}

#[tokio::test]
async fn updates_with_the_uid_of_a_deleted_object_create_none() {
    let api = Api::start().await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease =
        |metadata| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
    let created = api.put(path, &lease(json!({"name": "l"}))).await.expect(201);
    let uid = created["metadata"]["uid"].clone();
    api.delete(path).await.expect(200);
    let refused = api.put(path, &lease(json!({"name": "l", "uid": uid}))).await;
    assert_eq!(refused.expect(409)["reason"], "Conflict");
}

#[tokio::test]
async fn updates_create_only_kinds_that_allow_it() {
    let api = Api::start().await;
    api.put(&config_maps("a"), &config_map("a", json!({})))
        .await
        .expect(404);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let created = api.put(path, &lease).await.expect(201);
    assert_eq!(created["metadata"]["name"], "l");
    let unversioned = api.put(path, &lease).await.expect(422);
    assert_eq!(
        unversioned["details"]["causes"][0]["field"],
        "metadata.resourceVersion"
    );
}

#[tokio::test]
async fn patches_apply_to_the_stored_object() {
    let api = Api::start().await;
    api.post(&config_maps(""), &config_map("a", json!({"x": "1"})))
        .await
        .expect(201);
    let merged = api
        .merge(
            &config_maps("a"),
            &json!({"metadata": {"labels": {"x": null, "y": "2"}}}),
        )
        .await;
    assert_eq!(merged.expect(200)["metadata"]["labels"], json!({"y": "2"}));
    let json_patch = [("content-type", "application/json-patch+json")];
    let body = r#"[{"op":"test","path":"/data/k","value":"other"}]"#;
    let refused = api
        .send(Method::PATCH, &config_maps("a"), &json_patch, body)
        .await;
    assert_eq!(refused.expect(422)["reason"], "Invalid");
    let stale = api
        .merge(&config_maps("a"), &json!({"metadata": {"resourceVersion": "1"}}))
        .await;
    assert_eq!(stale.expect(409)["reason"], "Conflict");
    let renamed = api
        .merge(&config_maps("a"), &json!({"metadata": {"name": "b"}}))
        .await;
    assert_eq!(renamed.expect(400)["reason"], "BadRequest");
    let cbor = [("content-type", "application/apply-patch+cbor")];
    let refused = api.send(Method::PATCH, &config_maps("a"), &cbor, "{}").await;
    assert_eq!(refused.expect(415)["reason"], "UnsupportedMediaType");
}

#[tokio::test]
async fn concurrent_patches_all_apply() {
    let api = Api::start().await;
    api.post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(201);
    let patches = (0..8).map(|number| {
        let (api, path) = (&api, config_maps("a"));
        async move {
            api.merge(&path, &json!({"data": {format!("k{number}"): "v"}}))
                .await
                .expect(200)
        }
    });
    futures_util::future::join_all(patches).await;
    let object = api.get(&config_maps("a")).await.expect(200);
    assert_eq!(object["data"].as_object().unwrap().len(), 9);
}

#[tokio::test]
async fn yaml_bodies_are_accepted() {
    let api = Api::start().await;
    let yaml = [("content-type", "application/yaml")];
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n";
    let object = api
        .send(Method::POST, &config_maps(""), &yaml, body)
        .await
        .expect(201);
    assert_eq!(object["data"]["k"], "v");
}

#[tokio::test]
async fn status_and_spec_are_written_separately() {
    let api = Api::start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}});
    api.post("/api/v1/nodes", &node).await.expect(201);
    let patch = json!({"spec": {"podCIDR": "10.9.0.0/24"}, "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
    let after = api.merge("/api/v1/nodes/n/status", &patch).await.expect(200);
    assert_eq!(after["spec"]["podCIDR"], "10.0.0.0/24");
    assert_eq!(after["status"]["addresses"][0]["address"], "192.0.2.1");
    let patch = json!({"spec": {"unschedulable": true}, "status": null});
    let after = api.merge("/api/v1/nodes/n", &patch).await.expect(200);
    assert_eq!(after["spec"]["unschedulable"], true);
    assert_eq!(after["status"]["addresses"][0]["address"], "192.0.2.1");
}

/// Returns the texts of the `Warning` headers.
fn warnings(reply: &crate::harness::Reply) -> Vec<String> {
    let values = reply.headers.get_all("warning").iter();
    values
        .map(|value| value.to_str().unwrap().to_owned())
        .map(|value| value["299 - \"".len()..value.len() - 1].to_owned())
        .collect()
}

#[tokio::test]
async fn warnings_are_sent_with_successes_and_failures() {
    let api = Api::start().await;
    let services = "/api/v1/namespaces/default/services";
    let service = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let unknown = "unknown field \\\"spec.nonsense\\\"";
    let deprecated = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";

    let refused = api
        .post(
            services,
            &service(json!({"nonsense": 1, "externalIPs": ["192.0.2.1"]})),
        )
        .await;
    assert_eq!(
        (refused.code.as_u16(), warnings(&refused)),
        (422, vec![unknown.to_owned()])
    );
    let valid = json!({"nonsense": 1, "externalIPs": ["192.0.2.1"], "ports": [{"port": 80}]});
    for code in [201, 409] {
        let reply = api.post(services, &service(valid.clone())).await;
        assert_eq!(reply.code.as_u16(), code);
        assert_eq!(warnings(&reply), [unknown, deprecated]);
    }
    let (name, json) = (format!("{services}/a"), [("content-type", "application/json")]);
    let stale = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": valid});
    let stale = api.send(Method::PUT, &name, &json, stale.to_string()).await;
    assert_eq!(
        (stale.code.as_u16(), warnings(&stale)),
        (409, vec![unknown.to_owned()])
    );
    let other = json!({"metadata": {"name": "b"}, "spec": valid});
    let other = api.send(Method::PUT, &name, &json, other.to_string()).await;
    assert_eq!(
        (other.code.as_u16(), warnings(&other)),
        (400, vec![unknown.to_owned()])
    );
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = r#"{"spec":{"nonsense":1,"type":"Odd"}}"#;
    let patched = api.send(Method::PATCH, &name, &merge, patch).await;
    assert_eq!(
        (patched.code.as_u16(), warnings(&patched)),
        (422, vec![unknown.to_owned()])
    );

    let endpoints = json!({"metadata": {"name": "a"}, "nonsense": 1});
    let endpoints = api.post("/api/v1/namespaces/default/endpoints", &endpoints).await;
    assert_eq!(endpoints.code, 201);
    assert_eq!(
        warnings(&endpoints),
        [
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
            "unknown field \\\"nonsense\\\""
        ]
    );
}

#[tokio::test]
async fn patches_to_a_version_of_another_type_are_invalid() {
    let api = Api::start().await;
    let created = api
        .post(&config_maps(""), &config_map("a", json!({"x": "1"})))
        .await;
    created.expect(201);
    let patched = api.merge(&config_maps("a"), &json!({"apiVersion": 1})).await;
    let status = patched.expect(422);
    assert_eq!(status["details"]["causes"][0]["field"], "patch");
}
