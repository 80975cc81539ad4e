use api::object::{EndpointSlice, ObjectKey, Service};
use plan::Settings;

use super::*;

fn service() -> Service {
    serde_json::from_str(
        r#"{"metadata":{"namespace":"ns","name":"dns"},"spec":{"type":"NodePort","clusterIP":"10.96.0.10",
            "ports":[{"port":53,"protocol":"UDP","nodePort":30053},{"name":"t","port":53,"nodePort":30053}]}}"#,
    )
    .expect("a Service")
}

fn slice(address: &str) -> EndpointSlice {
    let text = r#"{"metadata":{"namespace":"ns","name":"dns-1","labels":{"kubernetes.io/service-name":"dns"}},
        "addressType":"IPv4","endpoints":[{"addresses":["ADDRESS"],"conditions":{"ready":false,"terminating":true}}],
        "ports":[{"name":"","protocol":"UDP","port":5353}]}"#;
    serde_json::from_str(&text.replace("ADDRESS", address)).expect("a slice")
}

fn plan() -> Plan {
    let mut plan = Plan::new(Settings {
        service_cidrs: vec!["10.96.0.0/16".parse().expect("CIDR")],
        node_addresses: vec!["172.30.0.11".parse().expect("IP")],
        ..Settings::default()
    });
    plan.apply_service(&service());
    plan.apply_slice(&slice("10.244.1.2"));
    plan
}

fn flow(destination: &str, answered_by: &str) -> Flow {
    Flow {
        protocol: Protocol::Udp,
        destination: destination.parse().expect("address"),
        answered_by: answered_by.parse().expect("address"),
    }
}

#[test]
fn flows_to_endpoints_that_serve_stay_and_others_go() {
    let mut plan = plan();
    plan.take_changes();
    plan.apply_slice(&slice("10.244.1.3"));
    let changes = plan.take_changes();
    let scope = Scope::of(&plan, &changes);
    for (destination, answered_by, stale) in [
        ("10.96.0.10:53", "10.244.1.2:5353", true),
        ("10.96.0.10:53", "10.244.1.3:5353", false),
        ("10.96.0.10:53", "10.96.0.10:53", true),
        ("172.30.0.11:30053", "10.244.1.2:5353", true),
        ("172.30.0.11:30053", "10.244.1.3:5353", false),
        ("192.0.2.1:30053", "192.0.2.1:30053", false),
        ("192.0.2.1:53", "192.0.2.1:53", false),
        ("10.96.0.11:53", "10.244.1.2:5353", false),
    ] {
        assert_eq!(
            scope.is_stale(&plan, &flow(destination, answered_by)),
            stale,
            "{destination}"
        );
    }
}

#[test]
fn tcp_is_never_stale() {
    let mut plan = plan();
    let changes = plan.take_changes();
    let scope = Scope::of(&plan, &changes);
    let tcp = Flow {
        protocol: Protocol::Tcp,
        ..flow("10.96.0.10:53", "10.244.1.9:5353")
    };
    assert!(!scope.is_stale(&plan, &tcp));
}

#[test]
fn flows_of_a_service_that_is_gone_go() {
    let mut plan = plan();
    plan.take_changes();
    plan.remove_service(&ObjectKey::new("ns", "dns"));
    let changes = plan.take_changes();
    let scope = Scope::of(&plan, &changes);
    assert!(scope.is_stale(&plan, &flow("10.96.0.10:53", "10.244.1.2:5353")));
    assert!(scope.is_stale(&plan, &flow("172.30.0.11:30053", "10.244.1.2:5353")));
    assert!(!scope.is_stale(&plan, &flow("172.30.0.11:30053", "172.30.0.11:30053")));
    assert!(!scope.is_stale(&plan, &flow("198.51.100.1:53", "10.244.1.2:5353")));
}

#[test]
fn after_a_start_only_what_is_surely_a_services_goes() {
    let mut plan = plan();
    let changes = plan.take_changes();
    assert!(changes.everything);
    let scope = Scope::of(&plan, &changes);
    assert!(scope.is_stale(&plan, &flow("10.96.7.7:53", "10.244.1.2:5353")));
    assert!(!scope.is_stale(&plan, &flow("10.96.7.7:53", "10.96.7.7:53")));
    assert!(!scope.is_stale(&plan, &flow("198.51.100.1:53", "10.244.1.2:5353")));
    assert!(scope.is_stale(&plan, &flow("10.96.0.10:53", "10.244.1.77:5353")));
}

#[test]
fn without_datagram_ports_there_is_nothing_to_look_at() {
    let mut plan = plan();
    plan.take_changes();
    let mut tcp = service();
    tcp.metadata.name = "web".to_owned();
    tcp.spec.cluster_ip = "10.96.0.20".to_owned();
    tcp.spec.ports.remove(0);
    tcp.spec.ports[0].node_port = 30_080;
    plan.apply_service(&tcp);
    let changes = plan.take_changes();
    assert_eq!(changes.services.len(), 1);
    assert!(Scope::of(&plan, &changes).is_empty());
}
