//! Access of a node to Nodes, Pods, labels and Pod ranges of others.

use http::Method;
use serde_json::{Value, json};

use super::{Cluster, NODES, PODS, expect_refusal, merge, named, pod_on, post};

#[tokio::test(flavor = "multi_thread")]
async fn node_cannot_set_restricted_labels() {
    let cluster = Cluster::start().await;
    for key in [
        "node-restriction.kubernetes.io/pci",
        "node-role.kubernetes.io/control-plane",
    ] {
        let patch = json!({"metadata": {"labels": {key: "yes"}}});
        for path in [format!("{NODES}/one"), format!("{NODES}/one/status")] {
            let result = merge(&cluster.node, &path, &patch).await;
            expect_refusal(result, &format!("is not allowed to modify labels: {key}"));
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
async fn node_cannot_change_pod_labels_through_the_status() {
    let cluster = Cluster::start().await;
    cluster.create(PODS, &pod_on("one", "p")).await;
    let patch = json!({"metadata": {"labels": {"app": "bank"}}});
    let result = merge(&cluster.node, &format!("{PODS}/p/status"), &patch).await;
    expect_refusal(result, "node \"one\" cannot update labels through pod status");
}

#[tokio::test(flavor = "multi_thread")]
async fn node_cannot_outlast_its_removal() {
    let cluster = Cluster::start().await;
    let own = format!("{NODES}/one");
    let patch = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    for path in [own.clone(), format!("{own}/status")] {
        let text = "node \"one\" is not allowed to modify finalizers";
        expect_refusal(merge(&cluster.node, &path, &patch).await, text);
    }
    cluster.create(PODS, &pod_on("one", "p")).await;
    let text = "node \"one\" cannot update finalizers through pod status";
    expect_refusal(
        merge(&cluster.node, &format!("{PODS}/p/status"), &patch).await,
        text,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn node_cannot_change_its_pod_range() {
    let cluster = Cluster::start().await;
    let spec = json!({"podCIDR": "10.244.7.0/24", "podCIDRs": ["10.244.7.0/24"]});
    let own = format!("{NODES}/one");
    let text = "node \"one\" is not allowed to modify podCIDR or podCIDRs";
    expect_refusal(merge(&cluster.node, &own, &json!({"spec": spec})).await, text);
    cluster
        .node
        .request(Method::DELETE, &own, client::JSON, None)
        .await
        .expect("a deleted Node");
    let mut node = named("Node", "one");
    node["spec"] = spec;
    let text = "node \"one\" is not allowed to set podCIDR or podCIDRs";
    expect_refusal(post(&cluster.node, NODES, &node).await, text);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_reads_only_its_own_node_and_pods() {
    let cluster = Cluster::start().await;
    for (node, name) in [("one", "own"), ("two", "other")] {
        cluster.create(PODS, &pod_on(node, name)).await;
    }
    cluster.create(NODES, &named("Node", "two")).await;
    let read = async |path: &str| cluster.node.get::<Value>(path).await;
    for path in [format!("{PODS}/own"), format!("{NODES}/one")] {
        read(&path).await.expect("an object of the node");
    }
    let own = read("/api/v1/pods?fieldSelector=spec.nodeName%3Done")
        .await
        .expect("the Pods of the node");
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
