use super::*;

#[test]
fn only_components_of_this_process_are_reported() {
    let none = Endpoints::default();
    assert_eq!(none.metrics(), "");
    let all = Endpoints {
        node_name: "node-1".to_owned(),
        assigner: Some(Arc::default()),
        announcer: Some(Arc::default()),
        edge: Some(Arc::default()),
    };
    let text = all.metrics();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for name in [
        "service_controller_loadbalancer_sync_total 0",
        "portolan_announcer_probes_sent_total 0",
    ] {
        assert!(text.contains(name), "{text}");
    }
    let document = serde_json::to_value(all.status()).expect("JSON");
    assert_eq!(
        (&document["node"], &document["assigner"]["syncs"]),
        (&"node-1".into(), &0.into())
    );
    assert_eq!(document["announcer"]["saidSecondsAgo"], serde_json::Value::Null);
    let parsed: Status = serde_json::from_value(document).expect("a status");
    assert_eq!(parsed.edge.map(|ports| ports.len()), Some(0));
}
