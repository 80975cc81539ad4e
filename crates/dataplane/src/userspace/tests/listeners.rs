//! Permits and addresses of listeners.

use plan::NodePortAddresses;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::*;

/// Replaces the address of the node.
fn move_address(host: &mut TestHost) -> IpAddr {
    let mut connection = Connection::open().unwrap();
    let loopback = connection.link_index(&"lo".parse().unwrap()).unwrap();
    connection
        .add_address(loopback, "192.0.2.2/32".parse().unwrap())
        .unwrap();
    let moved: IpAddr = "192.0.2.2".parse().unwrap();
    host.plan.set_node_addresses(vec![moved], NodePortAddresses::All);
    moved
}

/// Otherwise, Services with thousands of ports take the ports of the connections of the host.
#[test]
fn listeners_of_a_namespace_are_bounded() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        host.dataplane.listener_shares = NamespaceShares::of(2);
        host.endpoints("TCP", &[unused_address()]);
        for (namespace, address) in [("ns", "10.96.0.2"), ("other", "10.96.0.3")] {
            let service = json!({
                "metadata": {"namespace": namespace, "name": "b"},
                "spec": {
                    "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address],
                    "ports": [{"name": "p", "port": 80, "protocol": "TCP"}],
                },
            });
            let slice = json!({
                "metadata": {
                    "namespace": namespace, "name": "b",
                    "labels": {"kubernetes.io/service-name": "b"},
                },
                "addressType": "IPv4",
                "ports": [{"name": "p", "port": 80, "protocol": "TCP"}],
                "endpoints": [{"addresses": ["127.0.0.1"]}],
            });
            host.plan.apply_service(&serde_json::from_value(service).unwrap());
            host.plan.apply_slice(&serde_json::from_value(slice).unwrap());
        }
        let changes = host.plan.take_changes();
        let applied = host.dataplane.apply(&host.plan, &changes).unwrap();
        let refused: Vec<_> = applied.skipped.iter().map(|skipped| &skipped.service).collect();
        assert_eq!(refused, [&ObjectKey::new("ns", "b")]);
        assert!(
            host.dataplane
                .listeners
                .contains_key(&ObjectKey::new("other", "b"))
        );
    });
}

/// Otherwise, the listeners of many Services lose their permits when the address of the node changes, because the former
/// ones hold theirs until the rules are written.
#[test]
fn listener_at_another_address_keeps_its_permit() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        host.dataplane.listener_shares = NamespaceShares::of(1);
        let endpoint = echo();
        host.endpoints("TCP", &[endpoint]);
        let moved = move_address(&mut host);
        host.apply();
        let service = ObjectKey::new("ns", "a");
        assert_eq!(host.dataplane.listeners[&service][0].address.ip(), moved);
        assert!(received_from(connect(), b"a").starts_with(b"a"));
        assert!(
            host.dataplane.listener_shares.take("other").is_none(),
            "one permit"
        );
        host.plan.remove_service(&service);
        host.apply();
        assert!(host.dataplane.listener_shares.take("other").is_some());
    });
}

#[test]
fn renamed_port_needs_no_further_permit() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        host.dataplane.listener_shares = NamespaceShares::of(1);
        let endpoint = echo();
        host.endpoints("TCP", &[endpoint]);
        let service = json!({
            "metadata": {"namespace": "ns", "name": "a"},
            "spec": {
                "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
                "ports": [{"name": "renamed", "port": 80, "protocol": "TCP"}],
            },
        });
        let slice = json!({
            "metadata": {
                "namespace": "ns", "name": "a-0",
                "labels": {"kubernetes.io/service-name": "a"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "renamed", "port": endpoint.port(), "protocol": "TCP"}],
            "endpoints": [{"addresses": [endpoint.ip()]}],
        });
        host.plan.apply_service(&serde_json::from_value(service).unwrap());
        host.plan.apply_slice(&serde_json::from_value(slice).unwrap());
        host.apply();
        assert!(received_from(connect(), b"a").starts_with(b"a"));
    });
}

/// Otherwise, rules that could not be written refer to closed listeners.
#[test]
fn listeners_move_after_a_failed_attempt() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        let endpoint = echo();
        host.endpoints("TCP", &[endpoint]);
        move_address(&mut host);
        let changes = host.plan.take_changes();
        let own = capabilities(None).unwrap();
        let without = CapabilitySets {
            effective: CapabilitySet::empty(),
            ..own
        };
        set_capabilities(None, without).unwrap();
        assert!(host.dataplane.apply(&host.plan, &changes).is_err());
        set_capabilities(None, own).unwrap();
        host.apply();
        assert!(received_from(connect(), b"a").starts_with(b"a"));
    });
}
