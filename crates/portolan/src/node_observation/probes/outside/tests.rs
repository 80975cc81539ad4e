use api::object::ObjectKey;
use explain::{World, WorldBuilder};
use serde_json::json;

use super::*;

const OWN: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 7))];

/// A Service with all kinds of addresses, one ready endpoint on node-a, and two Nodes.
fn builder(changes: &serde_json::Value) -> WorldBuilder {
    let mut spec = json!({"type": "LoadBalancer", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
        "externalIPs": ["192.0.2.80", "2001:db8::80", "127.0.0.1"],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080},
            {"name": "none", "port": 81, "protocol": "TCP", "nodePort": 30081}]});
    for (name, value) in changes.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    let node = |name: &str, address: &str| {
        json!({"kind": "Node", "metadata": {"name": name},
            "status": {"addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]}})
    };
    let mut builder = World::builder();
    builder.add(
        json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec,
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.10"}]}}}),
    );
    builder.add(json!({"kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.244.1.2"], "nodeName": "node-a"}]}));
    builder.add(node("node-a", "192.0.2.1"));
    builder.add(node("node-b", "192.0.2.2"));
    builder
}

/// Targets of a command that names the Service.
fn targets_with(changes: &serde_json::Value) -> Vec<String> {
    targets_of(changes, Some(&ObjectKey::new("shop", "web")))
}

fn targets_of(changes: &serde_json::Value, named: Option<&ObjectKey>) -> Vec<String> {
    let cluster = Cluster::read(&builder(changes), named);
    let jobs = jobs(&cluster, &OWN);
    assert!(jobs.iter().all(|job| job.probe.from == ProbeSource::Outside));
    jobs.into_iter().map(|job| job.probe.target).collect()
}

#[test]
fn addresses_for_clients_outside_of_the_cluster_are_selected() {
    let expected = [
        "192.0.2.80:80",
        "203.0.113.10:80",
        "192.0.2.1:30080",
        "192.0.2.2:30080",
    ];
    assert_eq!(targets_with(&json!({})), expected);
}

#[test]
fn external_ips_of_unnamed_services_are_addresses_of_nodes() {
    let addresses = json!({"externalIPs": ["192.0.2.80", "192.0.2.2"]});
    let expected = [
        "192.0.2.2:80",
        "203.0.113.10:80",
        "192.0.2.1:30080",
        "192.0.2.2:30080",
    ];
    assert_eq!(targets_of(&addresses, None), expected);
}

#[test]
fn own_addresses_and_servers_of_clouds_get_no_probes() {
    let addresses = json!({"externalIPs": ["198.51.100.7", "169.254.169.254", "100.100.100.200", "::ffff:168.63.129.16"]});
    let targets = targets_with(&addresses);
    assert_eq!(targets.first().map(String::as_str), Some("203.0.113.10:80"));
}

#[test]
fn local_policy_selects_nodes_with_endpoints() {
    let targets = targets_with(&json!({"externalTrafficPolicy": "Local"}));
    assert!(targets.contains(&"192.0.2.1:30080".to_owned()), "{targets:?}");
    assert!(!targets.contains(&"192.0.2.2:30080".to_owned()), "{targets:?}");
}

#[test]
fn source_ranges_without_this_host_leave_the_load_balancer_out() {
    let is_selected = |range: &str| {
        let targets = targets_with(&json!({"loadBalancerSourceRanges": [range]}));
        targets.contains(&"203.0.113.10:80".to_owned())
    };
    assert!(is_selected("198.51.100.0/24"));
    assert!(!is_selected("203.0.113.0/24"));
}

#[test]
fn number_of_probes_is_bounded() {
    let addresses: Vec<String> = (0..=255).map(|last| format!("203.0.113.{last}")).collect();
    assert_eq!(targets_with(&json!({"externalIPs": addresses})).len(), JOBS_MAX);
}
