//! Failover from a stopped owner of an edge address, and its return.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use http::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::arp_client::{ArpClient, EthernetAddress, ethernet_address_of};

use super::echo_server::{self, ADDRESS, EchoConnection, POOL};
use super::test_cluster::TestCluster;

/// Control-plane node; excluded from load balancing.
const SERVER: &str = "node-1";
const OTHERS: [&str; 2] = ["node-2", "node-3"];
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-announcer";
/// Timeout of a client. Its packets may reach the stopped node, whose kernel accepts connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of ARP requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(5);
/// Time for which the owner is stopped: a multiple of the failure detection time.
const STOPPED: Duration = Duration::from_secs(4);

/// Sends ARP requests for a while and records each change of the responder.
fn record_responders(arp_client: &ArpClient, seen: &mut Vec<EthernetAddress>, duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        arp_client.send_request(ADDRESS).expect("an ARP request");
        thread::sleep(REQUEST_INTERVAL);
        for hardware in arp_client.claimants_of(ADDRESS).expect("ARP replies") {
            if seen.last() != Some(&hardware) {
                seen.push(hardware);
            }
        }
    }
}

#[test]
fn address_of_a_stopped_node_fails_over_and_returns_after_hand_back() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(3);
        cluster.up(SERVER, &[POOL]);
        // The server announces no addresses, so that the API server never stops.
        let labels =
            json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}});
        let path = format!("/api/v1/nodes/{SERVER}");
        cluster.request(SERVER, Method::PATCH, &path, Some(&labels));
        let (server, token) = (cluster.server(SERVER), cluster.token(SERVER, &[]));
        for node in OTHERS {
            cluster.join(node, &["--server", &server, "--token", &token]);
        }
        for node in OTHERS {
            cluster.wait_for_node(SERVER, node, "True");
        }
        cluster.wait_for("three voting members", || {
            let lease = cluster.try_request(SERVER, Method::GET, LEASE, None)?;
            let record = lease["metadata"]["annotations"]["portolan.dev/announcers"].as_str();
            let record: Value = serde_json::from_str(record.unwrap_or("null")).expect("a record in JSON");
            Ok(record["members"]
                .as_object()
                .is_some_and(|members| members.len() == 3))
        });
        echo_server::serve(&cluster, SERVER);
        let members = OTHERS.map(|node| {
            let member = cluster.network().member(node).expect("a node");
            let hardware = ethernet_address_of(member).expect("an Ethernet address");
            (node, cluster.address(node), hardware)
        });
        let exchange_through =
            |cluster: &TestCluster, ip: IpAddr| match EchoConnection::connect(cluster, CONNECT_TIMEOUT) {
                Ok(mut connection) if connection.node == ip => connection.exchange().ok(),
                _ => None,
            };
        cluster.wait_until("a connection", |cluster| {
            EchoConnection::connect(cluster, CONNECT_TIMEOUT).ok()
        });
        let arp_client = ArpClient::new(cluster.network().outside().expect("the outside")).expect("a socket");
        // The address may move until the members agree.
        let mut seen = Vec::new();
        cluster.wait_until("a stable owner", |_| {
            seen.clear();
            record_responders(&arp_client, &mut seen, Duration::from_secs(3));
            (seen.len() == 1).then_some(())
        });
        let is_owner = |(_, _, hardware): &(&str, IpAddr, EthernetAddress)| *hardware == seen[0];
        let owner = members
            .into_iter()
            .find(is_owner)
            .expect("an owner among the nodes");
        let other = members
            .into_iter()
            .find(|member| !is_owner(member))
            .expect("another node");
        cluster.wait_until("connections through the owner", |cluster| {
            exchange_through(cluster, owner.1)
        });

        cluster.signal(owner.0, Signal::STOP);
        cluster.wait_until("connections through the other node", |cluster| {
            exchange_through(cluster, other.1)
        });
        record_responders(&arp_client, &mut seen, STOPPED);
        assert_eq!(
            seen,
            [owner.2, other.2],
            "only the new owner responds while the previous one is stopped"
        );
        exchange_through(&cluster, other.1).expect("a connection");

        // The resumed node has unread ARP requests in its socket, and must not act on its old state.
        cluster.signal(owner.0, Signal::CONT);
        cluster.wait_until("the owner again", |cluster| {
            record_responders(&arp_client, &mut seen, Duration::from_millis(200));
            exchange_through(cluster, owner.1).filter(|()| seen.last() == Some(&owner.2))
        });
        record_responders(&arp_client, &mut seen, Duration::from_secs(1));
        // Two responders at the same time would alternate with each request. On a busy host the address may
        // move once more than the test causes.
        assert!(seen.len() <= 5, "{seen:?}");
        exchange_through(&cluster, owner.1).expect("a connection");
    });
}
