//! The group `metrics.k8s.io` on a server whose nodes have no agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::harness::{ANN_TOKEN, Api};

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

#[tokio::test]
async fn nodes_without_agent_have_no_metrics() {
    let api = Api::start().await;
    let node = json!({"metadata": {"name": "n1"}});
    api.post("/api/v1/nodes", &node).await.expect(201);
    let list = api.get(&format!("{METRICS}/nodes")).await.expect(200);
    assert_eq!(
        (&list["kind"], &list["items"]),
        (&json!("NodeMetricsList"), &json!([]))
    );
    let missing = api.get(&format!("{METRICS}/nodes/n1")).await.expect(404);
    assert_eq!(missing["message"], "nodes.metrics.k8s.io \"n1\" not found");
    let pods = api
        .get(&format!("{METRICS}/namespaces/default/pods"))
        .await
        .expect(200);
    assert_eq!(pods["kind"], "PodMetricsList");
}

#[tokio::test]
async fn measurements_are_discovered_and_read_only() {
    let api = Api::start().await;
    let resources = api.get(METRICS).await.expect(200);
    assert_eq!(resources["resources"][1]["kind"], "PodMetrics");
    let groups = api.get("/apis").await.expect(200).to_string();
    assert!(groups.contains("metrics.k8s.io/v1beta1"));
    let created = api.post(&format!("{METRICS}/nodes"), &json!({})).await;
    assert_eq!(created.code, 405);
    let watched = api.get(&format!("{METRICS}/nodes?watch=true")).await;
    assert_eq!(watched.code, 405);
}

#[tokio::test]
async fn invalid_selectors_are_rejected() {
    let api = Api::start().await;
    for query in ["labelSelector=%3D%3D", "fieldSelector=spec.nodeName%3Dn1"] {
        let reply = api.get(&format!("{METRICS}/pods?{query}")).await;
        assert_eq!(reply.code, 400, "{query}");
    }
}

#[tokio::test]
async fn measurements_need_a_role() {
    let api = Api::start().await;
    let path = format!("{METRICS}/pods");
    let as_ann = format!("Bearer {ANN_TOKEN}");
    let refused = api
        .send(Method::GET, &path, &[("authorization", &as_ann)], "")
        .await;
    assert_eq!(refused.code, 403);
    let binding = json!({
        "metadata": {"name": "ann"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:aggregated-metrics-reader",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    });
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding)
        .await
        .expect(201);
    let allowed = api
        .send(Method::GET, &path, &[("authorization", &as_ann)], "")
        .await;
    assert_eq!(allowed.code, 200);
}

/// Agents are not asked again for each request that a client begins and gives up.
#[tokio::test]
async fn requests_that_are_given_up_share_one_report() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    // An agent that does not respond.
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            open.push(stream);
        }
    });
    let api = Api::start().await;
    let node = json!({"metadata": {"name": "n1"}});
    api.post("/api/v1/nodes", &node).await.expect(201);
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    api.merge("/api/v1/nodes/n1/status", &status).await.expect(200);
    let path = format!("{METRICS}/nodes");
    for _ in 0..5 {
        let reading = timeout(Duration::from_millis(200), api.get(&path)).await;
        assert!(reading.is_err(), "the agent does not respond");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}
