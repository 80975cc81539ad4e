//! Objects beyond a node's own: Nodes, Pods, labels and ranges of others.

use http::Method;
use serde_json::{Value, json};

use super::{Cluster, NODES, PODS, expect_refusal, merge, named, pod_on, post};

#[tokio::test(flavor = "multi_thread")]
async fn sets_no_label_of_administrators_by_any_way() {
    let cluster = Cluster::start().await;
    for key in [
        "node-restriction.kubernetes.io/pci",
        "node-role.kubernetes.io/control-plane",
    ] {
        let patch = json!({"metadata": {"labels": {key: "yes"}}});
        for path in [format!("{NODES}/one"), format!("{NODES}/one/status")] {
            let answer = merge(&cluster.node, &path, &patch).await;
            expect_refusal(answer, &format!("is not allowed to modify labels: {key}"));
        }
    }
    let node = crate::access::node(&cluster.api, "two");
    let mut object = named("Node", "two");
    object["metadata"]["labels"] = json!({"node-role.kubernetes.io/control-plane": ""});
    let text =
        "node \"two\" is not allowed to set the following labels: node-role.kubernetes.io/control-plane";
    expect_refusal(post(&node, NODES, &object).await, text);
}

#[tokio::test(flavor = "multi_thread")]
async fn makes_no_pod_an_endpoint_by_its_status() {
    let cluster = Cluster::start().await;
    cluster.create(PODS, &pod_on("one", "p")).await;
    let patch = json!({"metadata": {"labels": {"app": "bank"}}});
    let answer = merge(&cluster.node, &format!("{PODS}/p/status"), &patch).await;
    expect_refusal(answer, "node \"one\" cannot update labels through pod status");
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_no_range_of_others() {
    let cluster = Cluster::start().await;
    let spec = json!({"podCIDR": "10.244.7.0/24", "podCIDRs": ["10.244.7.0/24"]});
    let own = format!("{NODES}/one");
    let text = "node \"one\" is not allowed to modify podCIDR or podCIDRs";
    expect_refusal(merge(&cluster.node, &own, &json!({"spec": spec})).await, text);
    cluster
        .node
        .request(Method::DELETE, &own, client::JSON, None)
        .await
        .expect("a node may leave");
    let mut node = named("Node", "one");
    node["spec"] = spec;
    let text = "node \"one\" is not allowed to set podCIDR or podCIDRs";
    expect_refusal(post(&cluster.node, NODES, &node).await, text);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_no_pods_and_nodes_of_others() {
    let cluster = Cluster::start().await;
    for (node, name) in [("one", "own"), ("two", "other")] {
        cluster.create(PODS, &pod_on(node, name)).await;
    }
    cluster.create(NODES, &named("Node", "two")).await;
    let read = async |path: &str| cluster.node.get::<Value>(path).await;
    for path in [format!("{PODS}/own"), format!("{NODES}/one")] {
        read(&path).await.expect("its own object");
    }
    let own = read("/api/v1/pods?fieldSelector=spec.nodeName%3Done")
        .await
        .expect("its own Pods");
    assert_eq!(own["items"].as_array().map(Vec::len), Some(1));
    for (path, text) in [
        (
            "/api/v1/pods",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dtwo",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%21%3Done",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "/api/v1/namespaces/default/pods/other",
            "no relationship found between node 'one' and this object",
        ),
        (
            "/api/v1/nodes",
            "node 'one' cannot read all nodes, only its own Node object",
        ),
        (
            "/api/v1/nodes/two",
            "node 'one' cannot read 'two', only its own Node object",
        ),
        ("/api/v1/namespaces/default/secrets", "No Object name found"),
    ] {
        expect_refusal(read(path).await, text);
    }
}
