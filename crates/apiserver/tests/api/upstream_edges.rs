//! Rare requests with upstream's responses, as `tools/differential` found them with kube-apiserver 1.36.2.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Api, config_map, config_maps};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

async fn patch(api: &Api, path: &str, form: &str, body: &str) -> crate::harness::Reply {
    let headers = [("content-type", form)];
    api.send(Method::PATCH, path, &headers, body.to_owned()).await
}

async fn with_object() -> Api {
    let api = Api::start().await;
    let created = api.post(&config_maps(""), &config_map("a", json!({}))).await;
    created.expect(201);
    api
}

#[tokio::test]
async fn new_objects_cannot_have_a_version() {
    let api = Api::start().await;
    for (version, code) in [("5", 500), ("0", 201), ("x", 201)] {
        let mut object = config_map(&format!("v{version}"), json!({}));
        object["metadata"]["resourceVersion"] = version.into();
        let reply = api.post(&config_maps(""), &object).await.expect(code);
        if code == 500 {
            assert_eq!(
                reply["message"],
                "resourceVersion should not be set on objects to be created"
            );
            assert_eq!(reply["reason"], Value::Null);
        }
    }
}

#[tokio::test]
async fn new_objects_keep_their_generation() {
    let api = Api::start().await;
    for (generation, code) in [(7, 201), (-1, 422)] {
        let mut object = config_map("g", json!({}));
        object["metadata"]["generation"] = generation.into();
        let reply = api.post(&config_maps(""), &object).await.expect(code);
        if code == 201 {
            assert_eq!(reply["metadata"]["generation"], 7);
        }
    }
}

#[tokio::test]
async fn faulty_patches_are_unprocessable() {
    let api = with_object().await;
    let strict = config_maps("a") + "?fieldValidation=Strict";
    let cases = [
        (config_maps("a"), MERGE, r#"{"data": "x"}"#),
        (config_maps("a"), STRATEGIC, r#"{"data": {"k": 1}}"#),
        (
            config_maps("a"),
            JSON_PATCH,
            r#"[{"op": "add", "path": "/data", "value": []}]"#,
        ),
        (strict.clone(), MERGE, r#"{"nonsense": 1}"#),
        (strict.clone(), STRATEGIC, r#"{"data": {"k": "1", "k": "2"}}"#),
        (
            strict,
            JSON_PATCH,
            r#"[{"op": "add", "op": "add", "path": "/data/k", "value": "1"}]"#,
        ),
    ];
    for (path, form, body) in cases {
        let reply = patch(&api, &path, form, body).await.expect(422);
        assert_eq!(reply["details"]["causes"][0]["field"], "patch", "{body}");
        assert_eq!(
            reply["details"]["causes"][0]["reason"], "FieldValueInvalid",
            "{body}"
        );
        assert_eq!(reply["details"]["kind"], Value::Null, "{body}");
    }
    let duplicate = patch(
        &api,
        &config_maps("a"),
        MERGE,
        r#"{"data": {"k": "1", "k": "2"}}"#,
    )
    .await;
    duplicate.expect(200);
    assert_eq!(duplicate.headers.get_all("warning").iter().count(), 1);
}

#[tokio::test]
async fn patches_cannot_remove_the_name_or_change_the_uid() {
    let api = with_object().await;
    for form in [MERGE, STRATEGIC] {
        let nameless = patch(&api, &config_maps("a"), form, r#"{"metadata": {"name": null}}"#).await;
        assert_eq!(
            nameless.expect(400)["message"],
            "the name of the object (a based on URL) was undeterminable: name must be provided"
        );
        let other = patch(&api, &config_maps("a"), form, r#"{"metadata": {"uid": "x"}}"#).await;
        assert_eq!(other.expect(422)["details"]["causes"][0]["field"], "metadata.uid");
    }
}

#[tokio::test]
async fn repeated_fields_of_a_body_are_merged() {
    let api = Api::start().await;
    let body = r#"{"metadata": {"name": "r"}, "metadata": {"labels": {"a": "b"}}, "data": {"k": "1"}, "data": {"l": "2"}}"#;
    let headers = [("content-type", "application/json")];
    let reply = api.send(Method::POST, &config_maps(""), &headers, body).await;
    assert_eq!(reply.expect(201)["data"], json!({"k": "1", "l": "2"}));
}

#[tokio::test]
async fn bodies_of_deletes_replace_the_query() {
    let api = with_object().await;
    let delete = async |path: String, body: &str| {
        let headers = [("content-type", "application/json")];
        api.send(Method::DELETE, &path, &headers, body.to_owned()).await
    };
    for (body, code) in [
        (r#"{"kind": "Service", "apiVersion": "v1"}"#, 400),
        (r#"{"propagationPolicy": ""}"#, 422),
        (r#"{"preconditions": {"uid": ""}}"#, 409),
    ] {
        delete(config_maps("a"), body).await.expect(code);
    }
    delete(config_maps("a") + "?dryRun=All", "").await.expect(200);
    delete(config_maps("a") + "?dryRun=All", "{}").await.expect(200);
    api.get(&config_maps("a")).await.expect(404);
}

#[tokio::test]
async fn lists_of_any_version_are_whole() {
    let api = with_object().await;
    api.post(&config_maps(""), &config_map("b", json!({})))
        .await
        .expect(201);
    let page = api.get(&(config_maps("") + "?limit=1")).await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    let whole = api
        .get(&(config_maps("") + "?limit=1&resourceVersion=0"))
        .await
        .expect(200);
    assert!(whole["items"].as_array().unwrap().len() > 1);
    // The options are checked before the version is parsed.
    let query = "?resourceVersion=x&resourceVersionMatch=Nope";
    api.get(&(config_maps("") + query)).await.expect(422);
}

/// As upstream (`storage/etcd3/store.go`, `GetList` without `Recursive`).
#[tokio::test]
async fn pages_of_a_named_object_have_no_next_page() {
    let api = with_object().await;
    api.post(&config_maps(""), &config_map("ab", json!({})))
        .await
        .expect(201);
    let query = "?limit=1&fieldSelector=metadata.name%3Da";
    let page = api.get(&(config_maps("") + query)).await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert_eq!(page["metadata"].get("continue"), None);
}

#[tokio::test]
async fn versions_that_are_not_numbers_have_the_failures_of_upstream() {
    let api = with_object().await;
    let fault = "strconv.ParseUint: parsing \"x\": invalid syntax";
    let in_query = format!("resourceVersion: Invalid value: \"x\": {fault}");
    let query = "?resourceVersion=x";
    let read = api.get(&(config_maps("a") + query)).await.expect(500);
    assert_eq!((&read["message"], read.get("reason")), (&json!(in_query), None));
    let listed = api.get(&(config_maps("") + query)).await.expect(400);
    assert_eq!(listed["message"], format!("invalid resource version: {in_query}"));
    let mut object = config_map("a", json!({}));
    object["metadata"]["resourceVersion"] = json!("x");
    let headers = [("content-type", "application/json")];
    let path = config_maps("a");
    let updated = api.send(Method::PUT, &path, &headers, object.to_string()).await;
    assert_eq!(updated.expect(500)["message"], fault);
}

#[tokio::test]
async fn queries_of_deletes_have_preconditions() {
    let api = with_object().await;
    let delete = async |path: String| api.send(Method::DELETE, &path, &[], "").await;
    for query in ["?uid=x", "?resourceVersion=1"] {
        let refused = delete(config_maps("a") + query).await.expect(409);
        assert_eq!(refused["details"]["kind"], "ConfigMap", "{query}");
    }
    delete(config_maps("") + "?resourceVersion=0").await.expect(409);
    // A collection at an old version is empty.
    let old = delete(config_maps("") + "?resourceVersion=1").await;
    assert!(matches!(old.code.as_u16(), 200 | 410), "{}", old.code);
    api.get(&config_maps("a")).await.expect(200);
    // A body replaces the query.
    let headers = [("content-type", "application/json")];
    let path = config_maps("a") + "?uid=x";
    api.send(Method::DELETE, &path, &headers, "{}").await.expect(200);
}

#[tokio::test]
async fn tables_include_known_parts_only() {
    let api = with_object().await;
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    for path in [config_maps(""), config_maps("a")] {
        let path = path + "?includeObject=x";
        let refused = api.send(Method::GET, &path, &table, "").await.expect(400);
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.ends_with("must be 'Metadata', 'Object', 'None', or empty"),
            "{message}"
        );
        // Other forms ignore the parameter.
        api.get(&path).await.expect(200);
    }
    let missing = config_maps("b") + "?includeObject=x";
    api.send(Method::GET, &missing, &table, "").await.expect(404);
}

#[tokio::test]
async fn objects_without_version_have_no_known_fields() {
    let api = with_object().await;
    for (form, body) in [
        (MERGE, r#"{"apiVersion": null}"#),
        (JSON_PATCH, r#"[{"op": "remove", "path": "/apiVersion"}]"#),
    ] {
        let refused = patch(&api, &config_maps("a"), form, body).await;
        assert_eq!(
            refused.expect(400)["message"],
            "the name of the object (a based on URL) was undeterminable: name must be provided"
        );
        // The fields `data` and `metadata`.
        assert_eq!(refused.headers.get_all("warning").iter().count(), 2, "{form}");
        let strict = config_maps("a") + "?fieldValidation=Strict";
        patch(&api, &strict, form, body).await.expect(422);
    }
    patch(&api, &config_maps("a"), STRATEGIC, r#"{"apiVersion": null}"#)
        .await
        .expect(200);
    patch(&api, &config_maps("a"), MERGE, r#"{"kind": null}"#)
        .await
        .expect(200);
}

#[tokio::test]
async fn times_of_leases_have_microseconds() {
    let api = Api::start().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = |time: &str| json!({"metadata": {"name": "l"}, "spec": {"renewTime": time}});
    for time in [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.123Z",
        "2026-01-01T00:00:00.123456789Z",
    ] {
        api.post(leases, &lease(time)).await.expect(400);
    }
    let created = api.post(leases, &lease("2026-01-01T01:00:00.123456+01:00")).await;
    assert_eq!(
        created.expect(201)["spec"]["renewTime"],
        "2026-01-01T00:00:00.123456Z"
    );
    let headers = [("content-type", "application/json")];
    let body = lease("2026-01-01T00:00:00.000000Z").to_string();
    let path = format!("{leases}/l");
    let unversioned = api.send(Method::PUT, &path, &headers, body).await.expect(422);
    assert_eq!(unversioned["details"]["kind"], "leases");
}

#[tokio::test]
async fn field_selectors_match_the_version() {
    let api = Api::start().await;
    let new = "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=";
    let core = "/api/v1/namespaces/default/events?fieldSelector=";
    for field in ["involvedObject.name=x", "source=x", "reportingComponent=x"] {
        api.get(&format!("{new}{field}")).await.expect(400);
        api.get(&format!("{core}{field}")).await.expect(200);
    }
    for field in ["regarding.name=x", "reportingController=x", "reason=x"] {
        api.get(&format!("{new}{field}")).await.expect(200);
    }
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=";
    api.get(&format!("{requests}metadata.namespace=x"))
        .await
        .expect(400);
    api.get(&format!("{requests}spec.signerName=x")).await.expect(200);
}

#[tokio::test]
async fn objects_are_not_exported() {
    let api = with_object().await;
    api.get(&(config_maps("a") + "?export=true")).await.expect(400);
    api.get(&(config_maps("a") + "?export=false")).await.expect(200);
}

#[tokio::test]
async fn slices_of_names_are_deprecated_when_they_are_created() {
    let api = Api::start().await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({"metadata": {"name": "s"}, "addressType": "FQDN", "endpoints": [], "ports": []});
    let created = api.post(slices, &slice).await;
    created.expect(201);
    assert_eq!(created.headers.get_all("warning").iter().count(), 1);
    let path = format!("{slices}/s");
    let changed = patch(&api, &path, MERGE, r#"{"metadata": {"labels": {"a": "b"}}}"#).await;
    changed.expect(200);
    assert_eq!(changed.headers.get_all("warning").iter().count(), 0);
}

#[tokio::test]
async fn paths_below_reviews_are_absent() {
    let api = Api::start().await;
    let headers = [("content-type", "application/json")];
    for (path, code) in [
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", 405),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews/x", 404),
        ("/apis/authentication.k8s.io/v1/tokenreviews/x/status", 404),
        ("/apis/authorization.k8s.io/v1/localsubjectaccessreviews", 404),
        ("/api/v1/namespaces/default/pods/p/binding", 405),
        ("/api/v1/namespaces/default/pods/p/eviction", 405),
        ("/api/v1/namespaces/default/pods/p/binding/x", 404),
    ] {
        api.get(path).await.expect(code);
        api.send(Method::PUT, path, &headers, "{}").await.expect(code);
    }
}
