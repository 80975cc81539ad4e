//! Malformed requests: bodies, methods, selectors, and plaintext connections.

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Api, TIMEOUT, config_map, config_maps};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[tokio::test]
async fn rejects_malformed_bodies() {
    let api = Api::start().await;
    let deep = "[".repeat(100_000);
    let bodies: [&[u8]; 9] = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\"ConfigMap\"",
        b"\xff\xfe",
        br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
        br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":"a"}"#,
        deep.as_bytes(),
    ];
    for body in bodies {
        let excerpt = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        for method in [Method::POST, Method::PUT, Method::PATCH] {
            let path = if method == Method::POST {
                config_maps("")
            } else {
                config_maps("a")
            };
            let headers = match method {
                Method::PATCH => [("content-type", "application/merge-patch+json")],
                _ => JSON,
            };
            let reply = api.send(method.clone(), &path, &headers, body.to_vec()).await;
            assert!(reply.code.is_client_error(), "{method} {excerpt}: {}", reply.code);
            assert_eq!(reply.json()["kind"], "Status", "{method} {excerpt}");
        }
    }
}

#[tokio::test]
async fn rejects_bodies_above_the_size_limit() {
    let api = Api::start().await;
    let mut object = config_map("a", json!({}));
    object["data"]["k"] = "x".repeat(3 << 20).into();
    let status = api.post(&config_maps(""), &object).await.expect(413);
    assert_eq!(status["reason"], "RequestEntityTooLarge");
    // The server still answers further requests.
    api.post(&config_maps(""), &config_map("a", json!({})))
        .await
        .expect(201);
}

#[tokio::test]
async fn rejects_malformed_protobuf() {
    let api = Api::start().await;
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    let config_map_envelope = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap";
    let bodies: [&[u8]; 5] = [b"", b"{}", b"k8s", b"k8s\0\xff", config_map_envelope];
    for body in bodies {
        let reply = api
            .send(Method::POST, "/api/v1/namespaces", &headers, body.to_vec())
            .await;
        let status = reply.expect(400);
        assert_eq!(status["reason"], "BadRequest", "{body:?}");
    }
}

#[tokio::test]
async fn rejects_methods_that_a_path_does_not_support() {
    let api = Api::start().await;
    for (method, path) in [
        (Method::POST, config_maps("a")),
        (Method::PUT, config_maps("")),
        (Method::PATCH, config_maps("")),
        (Method::DELETE, "/api/v1/namespaces".to_owned()),
        (Method::DELETE, "/api/v1/configmaps".to_owned()),
        (Method::POST, "/api/v1/nodes/n/status".to_owned()),
        (Method::OPTIONS, config_maps("a")),
    ] {
        let status = api.send(method.clone(), &path, &JSON, "{}").await.expect(405);
        assert_eq!(status["reason"], "MethodNotAllowed", "{method} {path}");
    }
}

#[tokio::test]
async fn documents_serve_the_methods_of_upstream() {
    let api = Api::start().await;
    for path in [
        "/version",
        "/api",
        "/api/v1",
        "/apis/apps/v1",
        "/openid/v1/jwks",
        "/.well-known/openid-configuration",
    ] {
        for method in [Method::HEAD, Method::POST, Method::OPTIONS] {
            let reply = api.send(method.clone(), path, &[], "").await;
            assert_eq!(reply.code, 405, "{method} {path}");
        }
    }
    for path in [
        "/",
        "/apis",
        "/apis/apps",
        "/openapi/v3",
        "/healthz",
        "/livez",
        "/metrics",
    ] {
        for method in [Method::HEAD, Method::POST] {
            let reply = api.send(method.clone(), path, &[], "").await;
            assert_eq!(reply.code, 200, "{method} {path}");
        }
    }
    assert_eq!(api.send(Method::HEAD, "/apis/apps/v9", &[], "").await.code, 404);
}

#[tokio::test]
async fn rejects_malformed_selectors_and_tokens() {
    let api = Api::start().await;
    for query in [
        "labelSelector=app%20in%20x",
        "fieldSelector=spec.nonsense%3D1",
        "continue=nonsense",
        "limit=many",
        "resourceVersion=x",
        "watch=1&fieldSelector=%3D%3D%3D",
    ] {
        let status = api.get(&format!("{}?{query}", config_maps(""))).await.expect(400);
        assert_eq!(status["reason"], "BadRequest", "{query}");
    }
}

#[tokio::test]
async fn plaintext_connections_are_closed() {
    let api = Api::start().await;
    let mut stream = TcpStream::connect(api.server.address()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut rest))
        .await
        .expect("the end of the connection in time");
    // The connection ends with an alert or a reset, never with a plaintext response.
    assert!(read.is_err() || !rest.starts_with(b"HTTP"));
    api.get("/api/v1/nodes").await.expect(200);
}
