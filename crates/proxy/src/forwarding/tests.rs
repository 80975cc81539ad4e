use super::*;

fn node(name: &str, address: &str) -> Event<Node> {
    let text = r#"{"metadata":{"name":"NAME"},
        "status":{"addresses":[{"type":"Hostname","address":"NAME"},{"type":"InternalIP","address":"ADDRESS"}]}}"#;
    let text = text.replace("NAME", name).replace("ADDRESS", address);
    Event::Applied(serde_json::from_str(&text).expect("a Node"))
}

#[test]
fn addresses_of_nodes_are_due_when_they_change() {
    let mut forwarding = Forwarding::default();
    forwarding.apply_node(node("node-b", "192.0.2.2"));
    assert!(std::mem::take(&mut forwarding.is_due));
    forwarding.apply_node(node("node-b", "192.0.2.2"));
    assert!(!forwarding.is_due, "a heartbeat changes nothing");
    forwarding.apply_node(node("node-b", "192.0.2.3"));
    assert!(std::mem::take(&mut forwarding.is_due));
    assert_eq!(
        forwarding.nodes,
        NodeAddresses::from([("node-b".into(), vec![IpAddr::from([192, 0, 2, 3])])])
    );
    forwarding.apply_node(Event::Deleted(ObjectKey::new("", "node-b")));
    assert!(forwarding.is_due && forwarding.nodes.is_empty());
}

#[test]
fn watch_of_nodes_starts_once() {
    let (sender, receiver) = watch::channel(false);
    let mut forwarding = Forwarding {
        node_watch: Some(sender),
        ..Forwarding::default()
    };
    forwarding.start_node_watch();
    assert!(*receiver.borrow());
    forwarding.start_node_watch();
    assert!(forwarding.node_watch.is_none());
}
