//! Writes of an edge to the status of Services and to reports of other nodes.

use client::{APPLY_PATCH, Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::Api;

const SERVICES: &str = "/api/v1/namespaces/default/services";
/// Group of all edges.
const EDGES: &str = "system:portolan:edges";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn request(
    client: &Client,
    method: Method,
    path: &str,
    kind: &str,
    body: &Value,
) -> Result<Value, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(client.request(method, path, kind, Some(body)))
}

/// Applies a Lease.
fn apply(client: &Client, name: &str) -> Result<Value, ClientError> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "kube-system", "name": name},
        "spec": {"holderIdentity": "attacker"},
    });
    let path = format!("{LEASES}/{name}?fieldManager=attacker&force=true");
    request(client, Method::PATCH, &path, APPLY_PATCH, &lease)
}

#[test]
fn edge_writes_only_the_report_of_its_node() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    request(&administrator, Method::POST, SERVICES, JSON, &service).expect("a Service");
    let ingress = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    for (user, group) in [
        ("system:portolan-edge", ""),
        ("system:portolan-edge:node-1", EDGES),
        ("system:portolan-load-balancer", ""),
    ] {
        let edge = access::with_certificate(&api, user, group);
        let path = format!("{SERVICES}/web/status");
        let patched = request(&edge, Method::PATCH, &path, MERGE_PATCH, &ingress);
        assert_eq!(
            patched.expect_err("a refusal").code(),
            Some(403),
            "{user} writes a status"
        );
        for name in ["portolan-balancer", "portolan-edge"] {
            let applied = apply(&edge, name);
            assert_eq!(
                applied.expect_err("a refusal").code(),
                Some(403),
                "{user} writes {name}"
            );
        }
    }
    let shared = access::with_certificate(&api, "system:portolan-edge", "");
    let applied = apply(&shared, "portolan-edge-node-1");
    assert_eq!(applied.expect_err("a refusal").code(), Some(403));
    let edge = access::with_certificate(&api, "system:portolan-edge:node-1", EDGES);
    apply(&edge, "portolan-edge-node-1").expect("the report of the node");
    let applied = apply(&edge, "portolan-edge-node-2");
    assert_eq!(applied.expect_err("a refusal").code(), Some(403));
}
