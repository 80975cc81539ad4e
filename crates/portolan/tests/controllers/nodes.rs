//! Removal of a Node without heartbeats from traffic, and its return.

use serde_json::{Value, json};

use crate::driver::{Driver, condition};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn ready(status: &str) -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": status,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}})
}

fn renewed(number: u64) -> Value {
    json!({"spec": {"renewTime": format!("2026-01-01T00:00:00.{number:06}Z")}})
}

fn taints(node: Option<&Value>) -> Vec<String> {
    let taints = node.and_then(|node| node["spec"]["taints"].as_array());
    let name = |taint: &Value| {
        format!(
            "{}:{}",
            taint["key"].as_str().unwrap_or(""),
            taint["effect"].as_str().unwrap_or("")
        )
    };
    taints.into_iter().flatten().map(name).collect()
}

/// Starts a cluster of two Nodes with Leases, and a ready Pod on the first.
fn cluster() -> Driver {
    let cluster = Driver::start(&["--node-monitor-period=200ms", "--node-monitor-grace-period=4s"]);
    for name in ["a", "b"] {
        cluster.create(
            "/api/v1/nodes",
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}),
        );
        cluster.merge(&format!("/api/v1/nodes/{name}/status"), &ready("True"));
        let mut lease = renewed(0);
        lease["metadata"] = json!({"name": name});
        cluster.create(LEASES, &lease);
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                     "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "none"}]}});
    cluster.create(PODS, &pod);
    cluster.merge(&format!("{PODS}/p/status"), &ready("True"));
    cluster
}

#[test]
fn node_without_heartbeats_is_out_of_traffic_until_the_next_one() {
    let cluster = cluster();
    let mut number = 0;
    let mut renew = |names: &[&str]| {
        number += 1;
        for name in names {
            cluster.merge(&format!("{LEASES}/{name}"), &renewed(number));
        }
    };
    let node = || cluster.get("/api/v1/nodes/a");
    // Each check renews the Lease of the other Node, so that only one expires.
    crate::support::wait_for("a Node with unknown state", || {
        renew(&["b"]);
        condition(node().as_ref(), "Ready") == "Unknown"
    });
    let unreachable = [
        "node.kubernetes.io/unreachable:NoSchedule",
        "node.kubernetes.io/unreachable:NoExecute",
    ];
    crate::support::wait_for("the taints of the Node", || {
        renew(&["b"]);
        taints(node().as_ref()) == unreachable
    });
    crate::support::wait_for("a Pod that is not ready", || {
        renew(&["b"]);
        condition(cluster.get(&format!("{PODS}/p")).as_ref(), "Ready") == "False"
    });
    assert_eq!(
        condition(cluster.get("/api/v1/nodes/b").as_ref(), "Ready"),
        "True"
    );
    // Events are written in the background.
    crate::support::wait_for("Events about the Node and its Pod", || {
        renew(&["b"]);
        let events = cluster.get("/api/v1/namespaces/default/events");
        let items = events.as_ref().and_then(|events| events["items"].as_array());
        let alike = items
            .into_iter()
            .flatten()
            .filter(|event| event["reason"] == "NodeNotReady");
        alike.count() >= 2
    });
    renew(&["a", "b"]);
    cluster.merge("/api/v1/nodes/a/status", &ready("True"));
    crate::support::wait_for("a Node without taints", || {
        renew(&["a", "b"]);
        taints(node().as_ref()).is_empty()
    });
}
