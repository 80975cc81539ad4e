use std::net::IpAddr;

use api::object::{EndpointSlice, Service};
use serde_json::json;

use crate::plan::Plan;
use crate::settings::{NodeFacts, NodePortAddresses, PodDetection, Settings};
use crate::types::Family;

const POD: &str = "10.244.2.9";
const OUTSIDE: &str = "198.51.100.7";

fn plan(answers_ping: bool) -> Plan {
    let mut plan = Plan::new(Settings {
        node_name: "node-a".to_owned(),
        pods: PodDetection::Ranges(vec!["10.244.0.0/16".parse().expect("CIDR")]),
        service_cidrs: vec!["10.96.0.0/16".parse().expect("CIDR")],
        node_addresses: vec![
            "127.0.0.1".parse().expect("IP"),
            "172.30.0.11".parse().expect("IP"),
        ],
        answers_ping,
        ..Settings::default()
    });
    plan.set_node(NodeFacts {
        ips: vec!["172.30.0.11".parse().expect("IP")],
        ..NodeFacts::default()
    });
    plan
}

fn service(name: &str, created: &str, cluster_ip: &str, policy: &str) -> Service {
    let service = json!({
        "metadata": {"namespace": "ns", "name": name, "creationTimestamp": created},
        "spec": {"type": "LoadBalancer", "clusterIP": cluster_ip, "externalTrafficPolicy": policy,
            "loadBalancerSourceRanges": ["198.51.100.0/24", "10.244.0.0/16"],
            "ports": [{"name": "web", "port": 80}, {"name": "admin", "port": 81}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.5"}]}},
    });
    serde_json::from_value(service).expect("a Service")
}

fn slice(service: &str, port: &str, node: &str) -> EndpointSlice {
    let slice = json!({
        "metadata": {"namespace": "ns", "name": format!("{service}-{port}"),
            "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": port, "port": 8080}],
        "endpoints": [{"addresses": ["10.244.1.2"], "nodeName": node}],
    });
    serde_json::from_value(slice).expect("a slice")
}

fn shown(plan: &Plan, source: &str, destination: &str) -> String {
    let parse = |text: &str| text.parse::<IpAddr>().expect("IP");
    plan.decide_ping(parse(source), parse(destination), None)
        .verdict
        .to_string()
}

#[test]
fn answers_if_one_port_has_an_endpoint() {
    let mut plan = plan(true);
    plan.apply_service(&service("web", "2026-01-01T00:00:00Z", "10.96.0.5", "Cluster"));
    plan.take_changes();
    assert_eq!(
        shown(&plan, POD, "10.96.0.5"),
        "rejected, the Service has no usable endpoint"
    );
    plan.apply_slice(&slice("web", "admin", "node-b"));
    assert_eq!(plan.take_changes().services.len(), 1);
    assert_eq!(shown(&plan, POD, "10.96.0.5"), "answered by this node");
    assert_eq!(shown(&plan, OUTSIDE, "203.0.113.5"), "answered by this node");
    assert_eq!(
        shown(&plan, POD, "10.96.0.6"),
        "dropped, no Service has this cluster IP"
    );
    assert_eq!(shown(&plan, POD, "8.8.8.8"), "not a Service");
}

#[test]
fn source_ranges_restrict_echo_requests() {
    let mut plan = plan(true);
    plan.apply_service(&service("web", "2026-01-01T00:00:00Z", "10.96.0.5", "Cluster"));
    plan.apply_slice(&slice("web", "web", "node-b"));
    plan.take_changes();
    assert_eq!(
        shown(&plan, "192.0.2.1", "203.0.113.5"),
        "dropped, the source is in no load balancer source range"
    );
    assert_eq!(shown(&plan, "192.0.2.1", "10.96.0.5"), "answered by this node");
}

#[test]
fn policy_local_answers_at_nodes_with_endpoints() {
    let mut plan = plan(true);
    plan.apply_service(&service("web", "2026-01-01T00:00:00Z", "10.96.0.5", "Local"));
    plan.apply_slice(&slice("web", "web", "node-b"));
    plan.take_changes();
    assert_eq!(
        shown(&plan, OUTSIDE, "203.0.113.5"),
        "dropped, the policy is Local and no usable endpoint is on this node"
    );
    assert_eq!(shown(&plan, POD, "203.0.113.5"), "answered by this node");
    plan.apply_slice(&slice("web", "admin", "node-a"));
    plan.take_changes();
    assert_eq!(shown(&plan, OUTSIDE, "203.0.113.5"), "answered by this node");
}

#[test]
fn oldest_service_of_an_address_decides() {
    let mut plan = plan(true);
    plan.apply_service(&service("old", "2026-01-01T00:00:00Z", "10.96.0.5", "Cluster"));
    plan.apply_service(&service("new", "2026-01-02T00:00:00Z", "10.96.0.6", "Cluster"));
    plan.apply_slice(&slice("new", "web", "node-b"));
    plan.take_changes();
    let deciding = plan.decide_ping(
        OUTSIDE.parse().expect("IP"),
        "203.0.113.5".parse().expect("IP"),
        None,
    );
    assert_eq!(
        deciding.service.map(ToString::to_string).as_deref(),
        Some("ns/old")
    );
    assert_eq!(deciding.verdict, crate::Verdict::NoEndpoints);
}

#[test]
fn pings_are_not_answered_without_the_setting() {
    let mut plan = plan(false);
    plan.apply_service(&service("web", "2026-01-01T00:00:00Z", "10.96.0.5", "Cluster"));
    plan.apply_slice(&slice("web", "web", "node-b"));
    plan.take_changes();
    assert_eq!(
        shown(&plan, POD, "10.96.0.5"),
        "rejected, the cluster IP does not have this port"
    );
    assert_eq!(shown(&plan, OUTSIDE, "203.0.113.5"), "not a Service");
}

#[test]
fn node_without_an_address_of_the_family_does_not_answer() {
    let mut plan = plan(true);
    plan.apply_service(&service("web", "2026-01-01T00:00:00Z", "10.96.0.5", "Cluster"));
    plan.apply_slice(&slice("web", "web", "node-b"));
    plan.take_changes();
    plan.set_node_addresses(
        vec!["127.0.0.1".parse().expect("IP"), "fe80::1".parse().expect("IP")],
        crate::NodePortAddresses::All,
    );
    assert!(plan.take_changes().needs_full_write);
    assert_eq!(shown(&plan, OUTSIDE, "203.0.113.5"), "not a Service");
}

/// An older Service of another namespace may have any external IP.
#[test]
fn external_ips_neither_answer_nor_decide() {
    let mut plan = plan(true);
    let mut other = service("other", "2026-01-01T00:00:00Z", "10.96.0.6", "Cluster");
    other.status.load_balancer.ingress.clear();
    // The frontends of the other Service remain.
    other.spec.ports.truncate(1);
    other.spec.ports[0].port = 8443;
    other.spec.external_ips = vec!["203.0.113.5".to_owned(), "172.30.0.12".to_owned()];
    plan.apply_service(&other);
    plan.apply_slice(&slice("other", "web", "node-b"));
    plan.take_changes();
    for address in ["203.0.113.5", "172.30.0.12"] {
        assert_eq!(shown(&plan, OUTSIDE, address), "not a Service");
    }
    plan.apply_service(&service("web", "2026-01-02T00:00:00Z", "10.96.0.5", "Cluster"));
    plan.apply_slice(&slice("web", "admin", "node-b"));
    plan.take_changes();
    assert_eq!(shown(&plan, OUTSIDE, "203.0.113.5"), "answered by this node");
}

/// Addresses of Pods' links come and go; a change of the address rewrites the rules of all Services.
#[test]
fn ip_of_the_node_on_one_of_its_links_answers() {
    let address = |text: &str| text.parse::<IpAddr>().expect("IP");
    let mut plan = plan(true);
    plan.set_node(NodeFacts::default());
    let own = vec![address("172.30.0.11"), address("10.244.1.1")];
    plan.set_node_addresses(own, NodePortAddresses::All);
    assert_eq!(plan.ping_address(Family::V4), None);
    plan.take_changes();
    plan.set_node(NodeFacts {
        ips: vec![address("198.51.100.1")],
        addresses: vec![address("198.51.100.1"), address("172.30.0.11")],
        ..NodeFacts::default()
    });
    assert_eq!(plan.ping_address(Family::V4), Some(address("172.30.0.11")));
    assert!(plan.take_changes().needs_full_write);
    plan.set_node_addresses(
        vec![address("172.30.0.11"), address("10.1.0.1")],
        NodePortAddresses::All,
    );
    assert_eq!(plan.ping_address(Family::V4), Some(address("172.30.0.11")));
    assert!(!plan.take_changes().needs_full_write);
}
