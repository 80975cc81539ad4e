use super::*;

#[test]
fn reports_components_of_this_process_only() {
    let none = Endpoints::default().metrics();
    assert!(
        none.lines()
            .all(|line| line.starts_with('#') || line.starts_with("process_")),
        "{none}"
    );
    let client = Client::new(client::Config {
        server: "https://192.0.2.1:6443".to_owned(),
        ..client::Config::default()
    });
    let all = Endpoints {
        node_name: "node-1".to_owned(),
        assigner: Some(Arc::default()),
        announcer: Some(Arc::default()),
        speaker: Some(Arc::default()),
        edge: Some(Arc::default()),
        client: Some(client.expect("a client")),
        election: Some(("lock".to_owned(), watch::Sender::new(true).subscribe())),
    };
    let text = all.metrics();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for name in [
        "service_controller_loadbalancer_sync_total 0",
        "portolan_announcer_probes_sent_total 0",
        "leader_election_master_status{name=\"lock\"} 1",
        "portolan_bgp_faults 0",
        "# TYPE rest_client_requests_total counter",
    ] {
        assert!(text.contains(name), "{text}");
    }
    let document = serde_json::to_value(all.status()).expect("JSON");
    assert_eq!(
        (&document["node"], &document["assigner"]["syncs"]),
        (&"node-1".into(), &0.into())
    );
    assert_eq!(document["announcer"]["ageSeconds"], serde_json::Value::Null);
    let parsed: Status = serde_json::from_value(document).expect("a status");
    assert_eq!(parsed.edge.map(|ports| ports.len()), Some(0));
}
