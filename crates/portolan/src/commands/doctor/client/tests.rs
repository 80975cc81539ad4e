use explain::World;
use serde_json::json;

use super::*;

fn objects() -> WorldBuilder {
    let mut objects = World::builder();
    objects.add(json!({"kind": "List", "apiVersion": "v1", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
         "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "pay", "name": "cart"},
         "spec": {"nodeName": "node-b"}, "status": {"podIPs": [{"ip": "10.244.2.9"}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent"},
         "spec": {"nodeName": "node-a", "hostNetwork": true}, "status": {"podIPs": [{"ip": "192.0.2.11"}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "pay", "name": "old"},
         "spec": {"nodeName": "node-a"}, "status": {"phase": "Failed", "podIPs": [{"ip": "10.244.2.9"}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "pay", "name": "pending"}, "spec": {}}]}));
    objects
}

fn find(name: &str) -> Result<ExaminedClient, UsageError> {
    ExaminedClient::find(&objects(), &name.parse().expect("a client"))
}

#[test]
fn pod_stands_for_its_node() {
    let cart = ExaminedClient {
        node: Some("node-b".to_owned()),
        pod: Some(ObjectKey::new("pay", "cart")),
    };
    assert_eq!(find("pod/pay/cart").expect("a client"), cart);
    assert_eq!(find("10.244.2.9").expect("a client"), cart);
}

#[test]
fn pod_in_the_network_of_its_node_stands_for_a_process_of_the_node() {
    let node = ExaminedClient::on(Some("node-a".to_owned()));
    for name in ["pod/agent", "node/node-a", "192.0.2.11"] {
        assert_eq!(find(name).expect("a client"), node, "{name}");
    }
}

#[test]
fn client_without_a_node_is_rejected() {
    for (name, reason) in [
        ("pod/pay/none", "the input has no pod/pay/none"),
        ("node/none", "the input has no node/none"),
        ("pod/pay/pending", "runs on no node yet"),
        ("203.0.113.9", "name the node that its packets reach with --node"),
    ] {
        let error = find(name).expect_err(name).to_string();
        assert!(error.contains(reason), "{error}");
    }
}
