//! ServiceAccount tokens that a node requests. Each token must be bound to a Pod of the node.

use serde_json::{Value, json};

use super::{Cluster, PODS, expect_refusal, pod_on, post};

const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";

fn request(spec: Value) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
}

fn bound_to(pod: &Value) -> Value {
    let metadata = &pod["metadata"];
    json!({"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn node_gets_only_tokens_bound_to_its_pods() {
    let cluster = Cluster::start().await;
    let own = cluster.create(PODS, &pod_on("one", "own")).await;
    let other = cluster.create(PODS, &pod_on("two", "other")).await;
    for (spec, text) in [
        (
            json!({"expirationSeconds": 31_536_000}),
            "node requested token not bound to a pod",
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": "one"}}),
            "node requested token not bound to a pod",
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "own"}}),
            "node requested token with a pod binding without a uid",
        ),
        (
            json!({"boundObjectRef": bound_to(&other)}),
            "node requested token bound to a pod scheduled on a different node",
        ),
        (
            json!({"boundObjectRef": bound_to(&own), "audiences": ["vault"]}),
            "audience \"vault\" not found in pod spec volume, system:node:one is not authorized to request tokens for \
             this audience",
        ),
    ] {
        expect_refusal(post(&cluster.node, TOKEN, &request(spec)).await, text);
    }
    let granted = post(
        &cluster.node,
        TOKEN,
        &request(json!({"boundObjectRef": bound_to(&own)})),
    )
    .await;
    assert!(granted.expect("a token")["status"]["token"].is_string());
}
