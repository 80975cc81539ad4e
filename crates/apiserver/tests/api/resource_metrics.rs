//! The group `metrics.k8s.io` on a server whose nodes have no agents.

use http::Method;
use serde_json::json;

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
