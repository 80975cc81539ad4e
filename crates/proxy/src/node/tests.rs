use api::object::{NodeAddress, Taint};

use super::*;

fn node() -> Node {
    let mut node = Node::default();
    for (kind, address) in [
        ("Hostname", "node-a"),
        ("ExternalIP", "192.0.2.1"),
        ("InternalIP", "172.30.0.11"),
        ("InternalIP", "172.30.0.99"),
        ("ExternalIP", "2001:db8::1"),
    ] {
        node.status.addresses.push(NodeAddress {
            kind: kind.to_owned(),
            address: address.to_owned(),
        });
    }
    node
}

fn parsed(ips: &[&str]) -> Vec<IpAddr> {
    ips.iter().map(|ip| ip.parse().expect("IP")).collect()
}

#[test]
fn prefers_internal_ip_per_family() {
    let any = "0.0.0.0".parse().expect("IP");
    assert_eq!(ips(Some(&node()), any), parsed(&["172.30.0.11", "2001:db8::1"]));
    let bound = "172.30.0.7".parse().expect("IP");
    assert_eq!(ips(Some(&node()), bound), parsed(&["172.30.0.7", "2001:db8::1"]));
    assert_eq!(ips(None, any), parsed(&[]));
}

/// Port ranges at any of these addresses would take ports from the node.
#[test]
fn facts_contain_all_addresses_of_the_node() {
    let bound = "172.30.0.7".parse().expect("IP");
    let expected = [
        "172.30.0.7",
        "172.30.0.11",
        "172.30.0.99",
        "192.0.2.1",
        "2001:db8::1",
    ];
    assert_eq!(facts(Some(&node()), bound).addresses, parsed(&expected));
}

#[test]
fn node_under_deletion_is_not_eligible() {
    let mut node = node();
    assert!(is_eligible(&node));
    node.spec.taints.push(Taint {
        key: TO_BE_DELETED_TAINT.to_owned(),
        ..Taint::default()
    });
    assert!(!is_eligible(&node));
    node.spec.taints.clear();
    node.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    assert!(!is_eligible(&node));
}

#[test]
fn primary_selects_no_address_without_node_ip() {
    let closed = node_ports(&NodePortSelection::Primary, &[]);
    assert_eq!(closed, NodePortAddresses::Primary(Vec::new()));
    let settings = Settings {
        node_addresses: parsed(&["172.30.0.11", "2001:db8::1"]),
        node_port_addresses: closed,
        ..Settings::default()
    };
    assert_eq!(settings.node_port_ips(Family::V4), Some(Vec::new()));
    assert_eq!(settings.node_port_ips(Family::V6), Some(Vec::new()));
    let config = Config {
        node_port_addresses: NodePortSelection::Primary,
        ..Config::default()
    };
    assert_eq!(
        localhost_node_ports(&config, &settings),
        RelayDestination::Nothing
    );
    let ips = parsed(&["172.30.0.11"]);
    assert_eq!(
        node_ports(&NodePortSelection::Primary, &ips),
        NodePortAddresses::Primary(ips.clone())
    );
}

#[test]
fn loopback_range_selects_relay_to_cluster_ip() {
    let destination = |ranges: &str, is_enabled| {
        let config = Config {
            node_port_addresses: ranges.parse().expect("CIDRs"),
            localhost_node_ports: is_enabled,
            ..Config::default()
        };
        let settings = Settings {
            node_addresses: parsed(&["127.0.0.1", "172.30.0.11"]),
            node_port_addresses: node_ports(&config.node_port_addresses, &[]),
            ..Settings::default()
        };
        localhost_node_ports(&config, &settings)
    };
    assert_eq!(destination("127.0.0.0/8", true), RelayDestination::ClusterIp);
    assert_eq!(destination("127.0.0.0/8", false), RelayDestination::Nothing);
    let node = RelayDestination::NodePort("172.30.0.11".parse().expect("IP"));
    assert_eq!(destination("127.0.0.0/8,172.30.0.0/24", true), node);
    assert_eq!(destination("172.30.0.0/24", true), RelayDestination::Nothing);
}

#[test]
fn reports_pod_cidrs_of_other_family_only() {
    let ips: Vec<IpAddr> = vec!["fd00::1".parse().unwrap(), "10.0.0.1".parse().unwrap()];
    let pods = |range: &str| PodDetection::Ranges(vec![range.parse().unwrap()]);
    assert_eq!(ip_without_pod_cidrs(&ips, &pods("10.244.0.0/16")), Some(ips[0]));
    assert_eq!(ip_without_pod_cidrs(&ips, &pods("fd00:244::/32")), None);
    assert_eq!(ip_without_pod_cidrs(&ips, &PodDetection::default()), None);
}
