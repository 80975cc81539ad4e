use plan::Settings;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn put(plan: &mut Plan, endpoints: &[&str]) -> Changes {
    let service = r#"{"metadata":{"namespace":"ns","name":"web",
        "annotations":{"service.portolan.dev/drain-seconds":"10"}},
        "spec":{"type":"NodePort","clusterIP":"10.96.0.5","ports":[{"port":80,"nodePort":30080}]}}"#;
    plan.apply_service(&serde_json::from_str(service).expect("a Service"));
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|address| serde_json::json!({"addresses": [address]}))
        .collect();
    let slice = serde_json::json!({
        "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    });
    plan.apply_slice(&serde_json::from_value(slice).expect("a slice"));
    plan.take_changes()
}

fn plan() -> Plan {
    Plan::new(Settings {
        node_addresses: vec!["172.30.0.11".parse().expect("IP")],
        ..Settings::default()
    })
}

fn flow(destination: &str, endpoint: &str) -> TrackedFlow {
    TrackedFlow {
        protocol: Protocol::Tcp,
        destination: destination.parse().expect("an address"),
        endpoint: endpoint.parse().expect("an address"),
        is_replied: true,
    }
}

#[test]
fn connections_end_at_drain_deadline() {
    let (mut plan, mut drains, start) = (plan(), Drains::default(), Instant::now());
    let changes = put(&mut plan, &["10.244.1.2", "10.244.1.3"]);
    drains.record(&plan, &changes, start);
    assert_eq!(drains.next(), None);

    let changes = put(&mut plan, &["10.244.1.3"]);
    drains.record(&plan, &changes, start);
    assert_eq!(drains.next(), Some(start + 10 * SECOND));
    assert!(drains.due(start + 9 * SECOND).is_empty());

    let changes = put(&mut plan, &[]);
    drains.record(&plan, &changes, start + 5 * SECOND);
    let due = drains.due(start + 10 * SECOND);
    for (destination, endpoint, ends) in [
        ("10.96.0.5:80", "10.244.1.2:8080", true),
        ("172.30.0.11:30080", "10.244.1.2:8080", true),
        ("10.96.0.5:80", "10.244.1.3:8080", false),
        ("10.96.0.6:80", "10.244.1.2:8080", false),
        ("172.30.0.12:30080", "10.244.1.2:8080", false),
    ] {
        assert_eq!(
            due.ends(&plan, &flow(destination, endpoint)),
            ends,
            "{destination} {endpoint}"
        );
    }
    assert_eq!(drains.next(), Some(start + 15 * SECOND));
}

#[test]
fn returning_endpoint_keeps_connections() {
    let (mut plan, mut drains, start) = (plan(), Drains::default(), Instant::now());
    for endpoints in [&["10.244.1.2"][..], &[], &["10.244.1.2"]] {
        let changes = put(&mut plan, endpoints);
        drains.record(&plan, &changes, start);
    }
    assert_eq!(drains.next(), None);
}

#[test]
fn deleted_service_drains() {
    let (mut plan, mut drains, start) = (plan(), Drains::default(), Instant::now());
    let changes = put(&mut plan, &["10.244.1.2"]);
    drains.record(&plan, &changes, start);
    plan.remove_service(&ObjectKey::new("ns", "web"));
    let changes = plan.take_changes();
    drains.record(&plan, &changes, start);
    let due = drains.due(start + 10 * SECOND);
    assert!(due.ends(&plan, &flow("10.96.0.5:80", "10.244.1.2:8080")));
}

#[test]
fn restart_drains_connections_to_departed_endpoints() {
    let (mut plan, mut drains, start) = (plan(), Drains::default(), Instant::now());
    let changes = put(&mut plan, &["10.244.1.2"]);
    drains.record(&plan, &changes, start);
    for endpoint in ["10.244.1.2:8080", "10.244.1.9:8080", "10.244.1.9:8080"] {
        drains.record_connection(&plan, &flow("10.96.0.5:80", endpoint), start);
    }
    assert_eq!(drains.departures.len(), 1);
    assert!(
        drains
            .due(start + 10 * SECOND)
            .ends(&plan, &flow("10.96.0.5:80", "10.244.1.9:8080"))
    );
}

#[test]
fn service_without_the_annotation_keeps_connections() {
    let (mut plan, mut drains, start) = (plan(), Drains::default(), Instant::now());
    for endpoints in [&["10.244.1.2", "10.244.1.3"][..], &["10.244.1.2"]] {
        let changes = put(&mut plan, endpoints);
        drains.record(&plan, &changes, start);
    }
    assert!(drains.next().is_some());
    let service = r#"{"metadata":{"namespace":"ns","name":"web"},
        "spec":{"type":"NodePort","clusterIP":"10.96.0.5","ports":[{"port":80,"nodePort":30080}]}}"#;
    plan.apply_service(&serde_json::from_str(service).expect("a Service"));
    let changes = plan.take_changes();
    drains.record(&plan, &changes, start);
    assert_eq!(drains.next(), None);
}

#[test]
fn endpoint_of_another_port_is_left_out() {
    let (mut plan, mut drains, start) = (plan(), Drains::default(), Instant::now());
    let mut put = |ports: serde_json::Value, endpoints: &[&str]| {
        let service = serde_json::json!({
            "metadata": {"namespace": "ns", "name": "web",
                "annotations": {"service.portolan.dev/drain-seconds": "10"}},
            "spec": {"clusterIP": "10.96.0.5", "ports": ports},
        });
        plan.apply_service(&serde_json::from_value(service).expect("a Service"));
        let endpoints: Vec<_> = endpoints
            .iter()
            .map(|address| serde_json::json!({"addresses": [address]}))
            .collect();
        let slice = serde_json::json!({
            "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "a", "port": 8080}, {"name": "b", "port": 8080}],
        });
        plan.apply_slice(&serde_json::from_value(slice).expect("a slice"));
        let changes = plan.take_changes();
        drains.record(&plan, &changes, start);
        drains.due(start + 10 * SECOND).endpoints(&plan)
    };
    let both = serde_json::json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    assert!(put(both, &["10.244.1.2"]).is_empty());
    let one = serde_json::json!([{"name": "a", "port": 80}]);
    assert!(put(one.clone(), &["10.244.1.2"]).is_empty());
    let endpoint = "10.244.1.2:8080".parse().expect("an address");
    let expected = ServiceSockets::from([(ObjectKey::new("ns", "web"), endpoint)]);
    assert_eq!(put(one, &[]), expected);
}

#[test]
fn departures_from_a_port_share_its_state() {
    let (mut plan, mut drains, start) = (plan(), Drains::default(), Instant::now());
    for endpoints in [&["10.244.1.2", "10.244.1.3"][..], &[]] {
        let changes = put(&mut plan, endpoints);
        drains.record(&plan, &changes, start);
    }
    let departures: Vec<&Departure> = drains.departures.values().collect();
    let [first, second] = departures.as_slice() else {
        panic!("expected two departures, found {departures:?}");
    };
    assert!(Arc::ptr_eq(&first.from, &second.from));
}
