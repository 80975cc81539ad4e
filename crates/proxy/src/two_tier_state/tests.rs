use super::*;

fn node(name: &str, address: &str) -> Event<Node> {
    let text = r#"{"metadata":{"name":"NAME"},
        "status":{"addresses":[{"type":"Hostname","address":"NAME"},{"type":"InternalIP","address":"ADDRESS"}]}}"#;
    let text = text.replace("NAME", name).replace("ADDRESS", address);
    Event::Applied(serde_json::from_str(&text).expect("a Node"))
}

#[test]
fn addresses_of_nodes_are_due_when_they_change() {
    let mut state = TwoTierState::default();
    state.apply_node(node("node-b", "192.0.2.2"));
    assert!(std::mem::take(&mut state.is_due));
    state.apply_node(node("node-b", "192.0.2.2"));
    assert!(!state.is_due, "a heartbeat changes nothing");
    state.apply_node(node("node-b", "192.0.2.3"));
    assert!(std::mem::take(&mut state.is_due));
    assert_eq!(
        state.nodes,
        NodeAddresses::from([("node-b".into(), vec![IpAddr::from([192, 0, 2, 3])])])
    );
    state.apply_node(Event::Deleted(ObjectKey::new("", "node-b")));
    assert!(state.is_due && state.nodes.is_empty());
}

#[test]
fn watch_of_nodes_starts_once() {
    let (sender, receiver) = watch::channel(false);
    let mut state = TwoTierState {
        node_watch: Some(sender),
        ..TwoTierState::default()
    };
    state.start_node_watch();
    assert!(*receiver.borrow());
    state.start_node_watch();
    assert!(state.node_watch.is_none());
}
