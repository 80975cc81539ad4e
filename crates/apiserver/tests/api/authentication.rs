//! Authentication by bearer tokens and client certificates.

use http::Method;
use serde_json::json;

use crate::harness::Api;

#[tokio::test]
async fn unauthenticated_requests_get_a_status() {
    let api = Api::start().await;
    let wrong = [("authorization", "Bearer wrong")];
    let status = api
        .send(Method::GET, "/api/v1/namespaces", &wrong, "")
        .await
        .expect(401);
    assert_eq!(status["reason"], "Unauthorized");
    let discovery = api.send(Method::GET, "/apis", &wrong, "").await;
    assert_eq!(discovery.code, 401);
}

#[tokio::test]
async fn health_and_version_are_anonymous_but_wrong_tokens_are_refused() {
    let api = Api::start().await;
    let (nothing, wrong) = ([("authorization", "")], [("authorization", "Bearer wrong")]);
    for path in ["/healthz", "/livez", "/readyz"] {
        let reply = api.send(Method::GET, path, &nothing, "").await;
        assert_eq!(
            (reply.code.as_u16(), &reply.body[..]),
            (200, &b"ok"[..]),
            "{path}"
        );
        assert_eq!(api.send(Method::GET, path, &wrong, "").await.code, 401);
    }
    let version = api.send(Method::GET, "/version", &nothing, "").await.expect(200);
    assert_eq!(version["gitVersion"], "v1.36.2+portolan");
    assert_eq!(version["minor"], json!("36"));
}

#[tokio::test]
async fn client_certificates_of_the_cluster_ca_authenticate() {
    let mut api = Api::start().await;
    let no_token = [("authorization", "")];
    api.send(Method::GET, "/api/v1/namespaces", &no_token, "")
        .await
        .expect(403);
    api.use_certificate();
    api.send(Method::GET, "/api/v1/namespaces", &no_token, "")
        .await
        .expect(200);
    // A valid certificate does not make up for a wrong token.
    let wrong = [("authorization", "Bearer wrong")];
    api.send(Method::GET, "/api/v1/namespaces", &wrong, "")
        .await
        .expect(401);
}

#[tokio::test]
async fn deleting_a_node_ends_its_watches_and_connections() {
    const SERVICES: &str = "/api/v1/services";
    let mut api = Api::start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    api.post("/api/v1/nodes", &node).await.expect(201);
    let by_certificate = [("authorization", "")];
    api.use_certificate_of("system:node:n1", "system:nodes");
    let watch = format!("{SERVICES}?watch=true&resourceVersion=0");
    let mut node_watch = api.watch_with(&watch, &by_certificate).await;
    // Another user on the same connection keeps its watch.
    let mut other_watch = api.watch(&watch).await;
    node_watch.next().await.expect("the Service kubernetes");
    other_watch.next().await.expect("the Service kubernetes");
    api.delete("/api/v1/nodes/n1").await.expect(200);
    assert_eq!(node_watch.next().await, None);
    api.send(Method::GET, SERVICES, &by_certificate, "")
        .await
        .expect(401);
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    api.post("/api/v1/namespaces/default/services", &service)
        .await
        .expect(201);
    assert_eq!(
        other_watch.next_named().await,
        ("ADDED".to_owned(), "s".to_owned())
    );
}
