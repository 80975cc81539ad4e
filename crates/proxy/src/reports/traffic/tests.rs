use std::net::UdpSocket;

use dataplane::Dataplane;
use dataplane::nftables::{NftablesDataplane, Options};
use netlink::route::{Connection, LinkChange, Route};
use plan::Settings;
use serde_json::json;

use super::*;

/// Adds a Service with a UDP port and one endpoint on loopback.
fn put(plan: &mut Plan, name: &str, ip: &str, endpoint: u16) {
    let service = json!({
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"clusterIP": ip, "ports": [{"port": 53, "protocol": "UDP"}]},
    });
    let slice = json!({
        "metadata": {"namespace": "ns", "name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"name": "", "port": endpoint, "protocol": "UDP"}],
        "endpoints": [{"addresses": ["192.0.2.1"]}],
    });
    plan.apply_service(&serde_json::from_value(service).unwrap());
    plan.apply_slice(&serde_json::from_value(slice).unwrap());
}

#[test]
fn traffic_counts_flows_by_service() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().unwrap();
        let loopback = connection.link_index(&"lo".parse().unwrap()).unwrap();
        connection.change_link(loopback, &LinkChange::up()).unwrap();
        connection
            .add_address(loopback, "192.0.2.1/32".parse().unwrap())
            .unwrap();
        connection
            .add_route(&Route::on_link("10.96.0.0/16".parse().unwrap(), loopback))
            .unwrap();
        let endpoint = UdpSocket::bind("192.0.2.1:0").unwrap();
        let port = endpoint.local_addr().unwrap().port();
        let mut plan = Plan::new(Settings::default());
        put(&mut plan, "quiet", "10.96.0.1", port);
        put(&mut plan, "busy", "10.96.0.2", port);
        put(&mut plan, "unused", "10.96.0.3", port);
        let changes = plan.take_changes();
        let mut dataplane = NftablesDataplane::open(Options::default()).unwrap();
        dataplane.apply(&plan, &changes).unwrap();
        for (service, clients) in [("10.96.0.1:53", 1), ("10.96.0.2:53", 3)] {
            for _ in 0..clients {
                let client = UdpSocket::bind("192.0.2.1:0").unwrap();
                client.send_to(b"?", service).unwrap();
                endpoint.recv_from(&mut [0]).unwrap();
            }
        }
        let mut conntrack = Conntrack::open().unwrap();
        let mut at_connect = HashMap::new();
        for (name, accepted) in [("busy", 2), ("unused", 0)] {
            let refused = 0;
            at_connect.insert(ObjectKey::new("ns", name), ConnectionCount { accepted, refused });
        }
        let found = busiest(&mut conntrack, &plan, &at_connect, 10).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|traffic| (&*traffic.service, traffic.connections, traffic.chosen_at_connect))
            .collect();
        assert_eq!(found, [("ns/busy", 3, 2), ("ns/quiet", 1, 0)]);
        assert_eq!(busiest(&mut conntrack, &plan, &at_connect, 1).unwrap().len(), 1);
    });
}
