//! Forms of responses: media types, compression, entity tags, health and metrics.

use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::harness::{Api, TIMEOUT, config_map, config_maps};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn decode(body: &[u8], definition: &str) -> Value {
    api::protobuf::open(body).unwrap().object(definition).unwrap()
}

#[tokio::test]
async fn objects_are_encoded_as_accepted() {
    let api = Api::start().await;
    let created = api
        .post(&config_maps(""), &config_map("a", json!({"x": "1"})))
        .await;
    let created = created.expect(201);
    let get = async |accept: &str| {
        let accept = [("accept", accept)];
        api.send(Method::GET, &config_maps("a"), &accept, "").await
    };
    let protobuf = get(PROTOBUF).await;
    assert_eq!(protobuf.headers["content-type"], PROTOBUF);
    assert_eq!(decode(&protobuf.body, "io.k8s.api.core.v1.ConfigMap"), created);
    let yaml = get("application/yaml").await;
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    let text = String::from_utf8(yaml.body.to_vec()).unwrap();
    assert!(
        text.starts_with("apiVersion: v1\n") && text.contains("\nkind: ConfigMap\n"),
        "{text}"
    );
    let is_sorted = text.find("apiVersion").unwrap() < text.find("data").unwrap();
    assert!(is_sorted, "{text}");
    let pretty = get("application/json;pretty=1").await;
    assert!(pretty.body.starts_with(b"{\n  \""));
    assert_eq!(pretty.json(), created);
    assert_eq!(get("text/html").await.code, 406);
    let missing = [("accept", PROTOBUF)];
    let missing = api.send(Method::GET, &config_maps("b"), &missing, "").await;
    let status = decode(&missing.body, "io.k8s.apimachinery.pkg.apis.meta.v1.Status");
    assert_eq!(
        (missing.code.as_u16(), &status["reason"]),
        (404, &json!("NotFound"))
    );
    // A client that accepts no response form writes nothing.
    let refused = [("accept", "text/html"), ("content-type", "application/json")];
    let body = config_map("c", json!({})).to_string();
    let refused = api.send(Method::POST, &config_maps(""), &refused, body).await;
    assert_eq!(refused.code, 406);
    api.get(&config_maps("c")).await.expect(404);
}

#[tokio::test]
async fn watches_send_protobuf_frames() {
    let api = Api::start().await;
    api.post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(201);
    let path = format!("{}?watch=true&timeoutSeconds=1", config_maps(""));
    let accept = [("accept", "application/vnd.kubernetes.protobuf;stream=watch")];
    let response = api.open(Method::GET, &path, &accept, bytes::Bytes::new()).await;
    assert_eq!(
        response.headers()["content-type"],
        "application/vnd.kubernetes.protobuf;stream=watch"
    );
    let body = tokio::time::timeout(TIMEOUT, response.into_body().collect()).await;
    let body = body.expect("the end of the watch in time").unwrap().to_bytes();
    let length = u32::from_be_bytes(body[..4].try_into().unwrap()) as usize;
    let frame = &body[4..4 + length];
    let magic = frame.windows(4).position(|window| window == b"k8s\0").unwrap();
    assert_eq!(&frame[2..7], b"ADDED");
    assert_eq!(api::protobuf::open(&frame[magic..]).unwrap().kind, "ConfigMap");
    let yaml = [("accept", "application/yaml")];
    let refused = api.send(Method::GET, &path, &yaml, "").await;
    assert_eq!(refused.code, 406);
}

#[tokio::test]
async fn large_lists_are_compressed_if_accepted() {
    let api = Api::start().await;
    let mut large = config_map("a", json!({}));
    large["data"]["k"] = "v".repeat(200_000).into();
    api.post(&config_maps(""), &large).await.expect(201);
    let accept = [("accept-encoding", "gzip")];
    let compressed = api.send(Method::GET, &config_maps(""), &accept, "").await;
    assert_eq!(compressed.headers["content-encoding"], "gzip");
    assert!(compressed.body.len() < 20_000 && compressed.body.starts_with(&[0x1f, 0x8b]));
    let plain = api.get(&config_maps("")).await;
    assert!(plain.headers.get("content-encoding").is_none());
    plain.expect(200);
}

#[tokio::test]
async fn openapi_documents_have_entity_tags() {
    let api = Api::start().await;
    for path in ["/openapi/v2", "/openapi/v3/api/v1"] {
        let first = api.get(path).await;
        first.expect(200);
        let tag = first.headers["etag"].to_str().unwrap().to_owned();
        let repeated = api.send(Method::GET, path, &[("if-none-match", &tag)], "").await;
        assert_eq!((repeated.code.as_u16(), repeated.body.len()), (304, 0), "{path}");
    }
    let old = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let protobuf = api.send(Method::GET, "/openapi/v2", &[("accept", old)], "").await;
    assert!(protobuf.body.starts_with(b"\x0a\x032.0"));
    let list = api.get("/api/v1").await.expect(200);
    let services = list["resources"].as_array().unwrap();
    let services = services
        .iter()
        .find(|resource| resource["name"] == "services")
        .unwrap();
    assert_eq!(services["storageVersionHash"], "0/CO1lhkEBI=");
}

/// Upstream: kube-openapi/pkg/handler3/handler.go, `HandleGroupVersion`.
#[tokio::test]
async fn openapi_documents_of_a_hash_are_immutable() {
    let api = Api::start().await;
    let index = api.get("/openapi/v3").await.expect(200);
    let current = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    let found = api.get(current).await;
    found.expect(200);
    assert_eq!(found.headers["cache-control"], "public, immutable");
    assert!(found.headers.contains_key("expires"));
    let outdated = api.get("/openapi/v3/api/v1?hash=outdated").await;
    assert_eq!((outdated.code.as_u16(), outdated.body.len()), (301, 0));
    assert_eq!(outdated.headers["location"], current);
    let plain = api.get("/openapi/v3/api/v1").await;
    assert_eq!(plain.headers["cache-control"], "no-cache, private");
}

#[tokio::test]
async fn reviews_have_metadata_and_no_tables() {
    let api = Api::start().await;
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}).to_string();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let send = async |accept: &str| {
        let headers = [("accept", accept), ("content-type", "application/json")];
        api.send(Method::POST, path, &headers, review.clone()).await
    };
    let meta = "g=meta.k8s.io;v=v1";
    assert_eq!(send(&format!("application/json;as=Table;{meta}")).await.code, 406);
    let of_list = format!("application/json;as=PartialObjectMetadataList;{meta}");
    assert_eq!(send(&of_list).await.code, 406);
    let metadata = send(&format!("application/json;as=PartialObjectMetadata;{meta}")).await;
    assert_eq!(metadata.expect(201)["kind"], "PartialObjectMetadata");
    let either = send(&format!("application/json;as=Table;{meta},application/json")).await;
    assert_eq!(either.expect(201)["status"]["allowed"], true);
}

#[tokio::test]
async fn health_reports_each_check() {
    let api = Api::start().await;
    let text = async |path: &str| {
        let reply = api.get(path).await;
        (
            reply.code.as_u16(),
            String::from_utf8(reply.body.to_vec()).unwrap(),
        )
    };
    assert_eq!(text("/readyz").await, (200, "ok".to_owned()));
    assert_eq!(text("/livez/ping").await, (200, "ok".to_owned()));
    assert_eq!(text("/readyz/etcd").await, (200, "ok".to_owned()));
    assert_eq!(text("/livez/nonsense").await.0, 404);
    let (code, verbose) = text("/readyz?verbose&exclude=log").await;
    assert_eq!(code, 200);
    assert!(
        verbose.starts_with("[+]ping ok\n[+]log excluded: ok\n[+]etcd ok\n"),
        "{verbose}"
    );
    assert!(
        verbose.ends_with("[+]shutdown ok\nreadyz check passed\n"),
        "{verbose}"
    );
}

#[tokio::test]
async fn metrics_have_upstreams_names() {
    let api = Api::start().await;
    api.get(&config_maps("nope")).await.expect(404);
    let text = api.get("/metrics").await;
    let text = String::from_utf8(text.body.to_vec()).unwrap();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for line in [
        "apiserver_request_total{code=\"404\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\",",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0",
        "apiserver_storage_objects{resource=\"namespaces\"} 4",
        "kube_apiserver_clusterip_allocator_allocation_total{cidr=\"10.96.0.0/16\",scope=\"static\"} 1",
        "kube_apiserver_nodeport_allocator_allocation_total{scope=\"dynamic\"} 0",
        "process_open_fds ",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
