use http::Method;
use serde_json::json;

use crate::harness::Api;

#[tokio::test]
async fn who_is_not_known_gets_a_status() {
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
async fn health_and_version_need_no_proof_but_a_wrong_one_is_refused() {
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
async fn a_certificate_of_our_authority_is_enough() {
    let mut api = Api::start().await;
    let no_token = [("authorization", "")];
    api.send(Method::GET, "/api/v1/namespaces", &no_token, "")
        .await
        .expect(403);
    api.use_certificate();
    api.send(Method::GET, "/api/v1/namespaces", &no_token, "")
        .await
        .expect(200);
    // A wrong token is not made up for by it.
    let wrong = [("authorization", "Bearer wrong")];
    api.send(Method::GET, "/api/v1/namespaces", &wrong, "")
        .await
        .expect(401);
}

#[tokio::test]
async fn a_removed_node_loses_its_open_watches_and_its_connection() {
    const SERVICES: &str = "/api/v1/services";
    let mut api = Api::start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    api.post("/api/v1/nodes", &node).await.expect(201);
    let by_certificate = [("authorization", "")];
    api.use_certificate_of("system:node:n1", "system:nodes");
    let watch = format!("{SERVICES}?watch=true&resourceVersion=0");
    let mut of_node = api.watch_with(&watch, &by_certificate).await;
    // Whoever proves to be somebody else on the same connection keeps the watch.
    let mut of_another = api.watch(&watch).await;
    of_node.next().await.expect("the Service kubernetes");
    of_another.next().await.expect("the Service kubernetes");
    api.delete("/api/v1/nodes/n1").await.expect(200);
    assert_eq!(of_node.next().await, None);
    api.send(Method::GET, SERVICES, &by_certificate, "")
        .await
        .expect(401);
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    api.post("/api/v1/namespaces/default/services", &service)
        .await
        .expect(201);
    assert_eq!(
        of_another.next_named().await,
        ("ADDED".to_owned(), "s".to_owned())
    );
}
