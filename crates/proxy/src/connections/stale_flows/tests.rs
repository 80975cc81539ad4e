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

fn flow(destination: &str, endpoint: &str) -> TrackedFlow {
    TrackedFlow {
        protocol: Protocol::Udp,
        destination: destination.parse().expect("address"),
        endpoint: endpoint.parse().expect("address"),
        is_replied: true,
    }
}

#[test]
fn request_is_translated_udp_without_response() {
    let request = TrackedFlow {
        is_replied: false,
        ..flow("10.96.0.10:53", "10.244.1.2:5353")
    };
    assert!(request.is_request());
    let replied = TrackedFlow {
        is_replied: true,
        ..request
    };
    let other_protocol = TrackedFlow {
        protocol: Protocol::Sctp,
        ..request
    };
    let untranslated = TrackedFlow {
        endpoint: request.destination,
        ..request
    };
    for other in [replied, other_protocol, untranslated] {
        assert!(!other.is_request(), "{other:?}");
    }
}

#[test]
fn flows_to_serving_endpoints_stay() {
    let mut plan = plan();
    plan.take_changes();
    plan.apply_slice(&slice("10.244.1.3"));
    let changes = plan.take_changes();
    let scope = CleanupScope::after(&plan, &changes);
    for (destination, endpoint, stale) in [
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
            scope.is_stale(&plan, &flow(destination, endpoint)),
            stale,
            "{destination}"
        );
    }
}

#[test]
fn tcp_connections_are_stale_only_if_untranslated_at_the_first_sync() {
    let mut plan = plan();
    let changes = plan.take_changes();
    let first = CleanupScope::after(&plan, &changes);
    plan.apply_slice(&slice("10.244.1.3"));
    let changes = plan.take_changes();
    let later = CleanupScope::after(&plan, &changes);
    for (destination, endpoint, is_stale_at_first) in [
        ("10.96.0.10:53", "10.96.0.10:53", true),
        ("10.96.0.10:53", "10.244.1.9:5353", false),
        ("10.96.0.11:53", "10.96.0.11:53", false),
        ("172.30.0.11:30053", "172.30.0.11:30053", false),
    ] {
        let tcp = TrackedFlow {
            protocol: Protocol::Tcp,
            ..flow(destination, endpoint)
        };
        assert_eq!(first.is_stale(&plan, &tcp), is_stale_at_first, "{destination}");
        assert!(!later.is_stale(&plan, &tcp), "{destination}");
    }
}

#[test]
fn flows_of_deleted_service_are_stale() {
    let mut plan = plan();
    plan.take_changes();
    plan.remove_service(&ObjectKey::new("ns", "dns"));
    let changes = plan.take_changes();
    let scope = CleanupScope::after(&plan, &changes);
    assert!(scope.is_stale(&plan, &flow("10.96.0.10:53", "10.244.1.2:5353")));
    assert!(scope.is_stale(&plan, &flow("172.30.0.11:30053", "10.244.1.2:5353")));
    assert!(!scope.is_stale(&plan, &flow("172.30.0.11:30053", "172.30.0.11:30053")));
    assert!(!scope.is_stale(&plan, &flow("198.51.100.1:53", "10.244.1.2:5353")));
}

#[test]
fn flows_outside_of_service_cidrs_stay_after_start() {
    let mut plan = plan();
    let changes = plan.take_changes();
    assert!(changes.needs_full_write);
    let scope = CleanupScope::after(&plan, &changes);
    assert!(scope.is_stale(&plan, &flow("10.96.7.7:53", "10.244.1.2:5353")));
    assert!(!scope.is_stale(&plan, &flow("10.96.7.7:53", "10.96.7.7:53")));
    assert!(!scope.is_stale(&plan, &flow("198.51.100.1:53", "10.244.1.2:5353")));
    assert!(scope.is_stale(&plan, &flow("10.96.0.10:53", "10.244.1.77:5353")));
}

#[test]
fn scope_is_empty_without_datagram_ports() {
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
    assert!(CleanupScope::after(&plan, &changes).is_empty());
}

fn plan_with_ranges() -> Plan {
    let mut plan = plan();
    let mut service = service();
    let annotations = &mut service.metadata.annotations;
    annotations.insert(plan::PORT_RANGES_ANNOTATION.into(), "10000-20000/UDP".into());
    plan.apply_service(&service);
    plan.take_changes();
    plan
}

#[test]
fn flows_through_a_range_are_stale_without_their_endpoint() {
    let mut plan = plan_with_ranges();
    plan.apply_slice(&slice("10.244.1.3"));
    let changes = plan.take_changes();
    let scope = CleanupScope::after(&plan, &changes);
    let stale = |destination, endpoint| scope.is_stale(&plan, &flow(destination, endpoint));
    assert!(
        stale("10.96.0.10:10001", "10.244.1.2:10001"),
        "the endpoint was removed"
    );
    assert!(!stale("10.96.0.10:10001", "10.244.1.3:10001"));
    assert!(
        stale("10.96.0.10:10001", "10.244.1.3:10002"),
        "the port has to stay"
    );
    assert!(
        !stale("10.96.0.10:53", "10.244.1.3:5353"),
        "the named port has its own endpoint"
    );
}

#[test]
fn flows_through_a_withdrawn_range_are_stale() {
    let mut plan = plan_with_ranges();
    plan.apply_service(&service());
    let changes = plan.take_changes();
    let scope = CleanupScope::after(&plan, &changes);
    assert!(!scope.is_empty());
    assert!(scope.is_stale(&plan, &flow("10.96.0.10:20000", "10.244.1.2:20000")));
    assert!(!scope.is_stale(&plan, &flow("192.0.2.1:20000", "10.244.1.2:20000")));
}

#[test]
fn flows_to_unready_endpoint_stay_by_annotation_until_it_is_gone() {
    for (value, stays) in [("true", true), ("false", false)] {
        let mut plan = plan();
        let mut service = service();
        let annotations = &mut service.metadata.annotations;
        annotations.insert(
            "service.portolan.dev/keep-unready-flows".to_owned(),
            value.to_owned(),
        );
        plan.apply_service(&service);
        plan.take_changes();
        let flow = flow("10.96.0.10:53", "10.244.1.2:5353");
        let mut slice = slice("10.244.1.2");
        let mut is_stale = |serving, terminating| {
            let conditions = &mut slice.endpoints[0].conditions;
            conditions.ready = Some(false);
            conditions.serving = Some(serving);
            conditions.terminating = Some(terminating);
            plan.apply_slice(&slice);
            let changes = plan.take_changes();
            CleanupScope::after(&plan, &changes).is_stale(&plan, &flow)
        };
        assert!(!is_stale(true, true), "a terminating endpoint serves");
        assert_eq!(is_stale(false, false), !stays, "unready, {value}");
        is_stale(true, false);
        assert!(is_stale(false, true), "the endpoint no longer serves");
    }
}

#[test]
fn scope_includes_only_protocols_and_families_of_changed_frontends() {
    let mut plan = plan();
    plan.take_changes();
    plan.apply_slice(&slice("10.244.1.3"));
    let changes = plan.take_changes();
    let included = |scope: &CleanupScope| {
        let mut included = Vec::new();
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
            for family in [Family::V4, Family::V6] {
                if scope.includes_flows_of(protocol, family) {
                    included.push((protocol, family));
                }
            }
        }
        included
    };
    let scope = CleanupScope::after(&plan, &changes);
    assert_eq!(included(&scope), [(Protocol::Udp, Family::V4)]);

    plan.remove_service(&ObjectKey::new("ns", "dns"));
    let changes = plan.take_changes();
    let scope = CleanupScope::after(&plan, &changes);
    assert_eq!(included(&scope), [(Protocol::Udp, Family::V4)]);

    let complete = CleanupScope {
        has_all_flows: true,
        ..CleanupScope::default()
    };
    assert_eq!(included(&complete).len(), 6);
    assert_eq!(included(&CleanupScope::default()), []);
}
