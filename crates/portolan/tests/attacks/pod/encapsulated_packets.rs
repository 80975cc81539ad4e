//! VXLAN packets that a Pod sends to another node, which would take them for packets of the Pod's node.

use std::io::ErrorKind;
use std::net::UdpSocket;

use http::Method;
use ipnet::IpNet;
use serde_json::json;

use super::NODE;
use crate::test_cluster::TestCluster;

const OTHER: &str = "node-2";
const NODES: &str = "/api/v1/nodes";
/// Default of `--vxlan-port`.
const VXLAN_PORT: u16 = 4789;

#[test]
fn pods_send_no_encapsulated_packets_to_other_nodes() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        if !cluster.has_vxlan() {
            testbed::skip_inside("this kernel has no VXLAN");
        }
        cluster.up(NODE, &["--network=vxlan"]);
        cluster.wait_for_node(NODE, NODE, "True");
        // The other node has no processes, so that a socket receives what its VXLAN link would receive.
        let address = cluster.address(OTHER);
        let bind = |port: u16| {
            let host = cluster.network().member(OTHER).expect("a node");
            let socket = host.enter(|| UdpSocket::bind((address, port)));
            let socket = socket.expect("a namespace").expect("a port");
            socket
                .set_nonblocking(true)
                .expect("a socket that does not block");
            socket
        };
        let (encapsulated, plain) = (bind(VXLAN_PORT), bind(0));
        let plain_port = plain.local_addr().expect("an address").port();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": OTHER}});
        cluster.request(NODE, Method::POST, NODES, Some(&node));
        let path = format!("{NODES}/{OTHER}");
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        cluster.request(NODE, Method::PATCH, &format!("{path}/status"), Some(&status));
        // The node filters the packets before it adds the route.
        cluster.wait_until("the route to the other node", |cluster| {
            let range: IpNet = cluster.get(NODE, &path)["spec"]["podCIDR"]
                .as_str()?
                .parse()
                .ok()?;
            let routes = cluster.routes(NODE);
            let mut added = routes.iter().filter(|route| route.protocol == routes::PROTOCOL);
            added.any(|route| route.destination == range).then_some(())
        });
        let script = format!(
            "while :; do echo frame >/dev/udp/{address}/{VXLAN_PORT}; echo plain >/dev/udp/{address}/{plain_port}; \
             sleep 0.1; done"
        );
        cluster.run_pod(NODE, NODE, "sender", json!({"image": "bash", "args": [script]}));
        let mut buffer = [0; 64];
        cluster.wait_until("a plain packet of the Pod", |_| {
            plain.recv_from(&mut buffer).is_ok().then_some(())
        });
        // The Pod has sent a frame before.
        let received = encapsulated.recv_from(&mut buffer);
        assert!(
            matches!(&received, Err(error) if error.kind() == ErrorKind::WouldBlock),
            "the other node receives a frame of the Pod: {received:?}"
        );
    });
}
