use super::*;

#[test]
fn only_parts_that_are_there_are_told_of() {
    let none = Pages::default();
    assert_eq!(none.metrics(), "");
    let all = Pages {
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
    let told = serde_json::to_value(all.page()).expect("JSON");
    assert_eq!(
        (&told["node"], &told["assigner"]["syncs"]),
        (&"node-1".into(), &0.into())
    );
    assert_eq!(told["announcer"]["saidSecondsAgo"], serde_json::Value::Null);
    let read: Page = serde_json::from_value(told).expect("what was told");
    assert_eq!(read.edge.map(|ports| ports.len()), Some(0));
}
