//! VXLAN packets that a Pod sends to another node, which would take them for packets of the Pod's node.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use http::Method;
use ipnet::IpNet;
use serde_json::json;

use super::NODE;
use crate::test_cluster::TestCluster;

const OTHER: &str = "node-2";
const NODES: &str = "/api/v1/nodes";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
/// Default of `--vxlan-port`.
const VXLAN_PORT: u16 = 4789;
/// Plain packets after which the Pod has sent a frame that could have arrived.
const PLAIN_PACKETS: usize = 2;

/// Sockets of a node without processes, so that a socket receives what its VXLAN link would receive.
struct OtherNode {
    encapsulated: UdpSocket,
    plain: UdpSocket,
}

impl OtherNode {
    fn new(cluster: &TestCluster) -> Self {
        let bind = |port: u16| {
            let host = cluster.network().member(OTHER).expect("a node");
            let socket = host.enter(|| UdpSocket::bind((cluster.address(OTHER), port)));
            let socket = socket.expect("a namespace").expect("a port");
            socket
                .set_nonblocking(true)
                .expect("a socket that does not block");
            socket
        };
        Self {
            encapsulated: bind(VXLAN_PORT),
            plain: bind(0),
        }
    }

    fn plain_address(&self) -> SocketAddr {
        self.plain.local_addr().expect("an address")
    }
}

/// Starts a node in a proxy mode, and waits until it filters packets to the other node.
fn start(cluster: &mut TestCluster, mode: &str) {
    if !cluster.has_vxlan() {
        testbed::skip_inside("this kernel has no VXLAN");
    }
    cluster.up(NODE, &["--network=vxlan", &format!("--proxy-mode={mode}")]);
    cluster.wait_for_node(NODE, NODE, "True");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": OTHER}});
    cluster.request(NODE, Method::POST, NODES, Some(&node));
    let path = format!("{NODES}/{OTHER}");
    let address = cluster.address(OTHER);
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
}

/// Creates a Service whose only endpoint is an address of the other node. Returns the addresses of its ports for
/// frames and for plain packets.
fn create_service(cluster: &TestCluster, other: &OtherNode) -> [SocketAddr; 2] {
    let ports = [
        ("frames", 9_001, VXLAN_PORT),
        ("plain", 9_002, other.plain_address().port()),
    ];
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "frames"},
        "spec": {"ports": ports.map(|(name, port, _)| json!({"name": name, "protocol": "UDP", "port": port}))}});
    let created = cluster.request(NODE, Method::POST, SERVICES, Some(&service));
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "frames", "labels": {"kubernetes.io/service-name": "frames"}},
        "endpoints": [{"addresses": [cluster.address(OTHER)]}],
        "ports": ports.map(|(name, _, to)| json!({"name": name, "protocol": "UDP", "port": to}))});
    cluster.request(NODE, Method::POST, SLICES, Some(&slice));
    let cluster_ip = created["spec"]["clusterIP"].as_str().expect("a cluster IP");
    let cluster_ip = cluster_ip.parse().expect("an address");
    ports.map(|(_, port, _)| SocketAddr::new(cluster_ip, port))
}

/// Runs a Pod that sends frames and plain packets. Asserts that the other node receives plain packets only.
fn assert_no_frames(cluster: &TestCluster, other: &OtherNode, [frames, plain]: [SocketAddr; 2]) {
    let target = |address: SocketAddr| format!("/dev/udp/{}/{}", address.ip(), address.port());
    let script = format!(
        "while :; do echo frame >{}; echo plain >{}; sleep 0.1; done",
        target(frames),
        target(plain)
    );
    cluster.run_pod(NODE, NODE, "sender", json!({"image": "bash", "args": [script]}));
    let mut buffer = [0; 64];
    for _ in 0..PLAIN_PACKETS {
        cluster.wait_until("a plain packet of the Pod", |_| {
            other.plain.recv_from(&mut buffer).is_ok().then_some(())
        });
    }
    let received = other.encapsulated.recv_from(&mut buffer);
    assert!(
        matches!(&received, Err(error) if error.kind() == ErrorKind::WouldBlock),
        "the other node receives a frame of the Pod: {received:?}"
    );
}

#[test]
fn pods_send_no_encapsulated_packets_to_other_nodes() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        start(&mut cluster, "nftables");
        let other = OtherNode::new(&cluster);
        let frames = SocketAddr::new(cluster.address(OTHER), VXLAN_PORT);
        assert_no_frames(&cluster, &other, [frames, other.plain_address()]);
    });
}

/// The proxy translates or relays the packets, in userspace mode from an address of its node.
fn assert_no_frames_by_a_service(mode: &str) {
    let mut cluster = TestCluster::new(2);
    start(&mut cluster, mode);
    let other = OtherNode::new(&cluster);
    let addresses = create_service(&cluster, &other);
    assert_no_frames(&cluster, &other, addresses);
}

#[test]
fn pods_send_no_encapsulated_packets_by_a_service_in_nftables_mode() {
    testbed::in_namespace(|| assert_no_frames_by_a_service("nftables"));
}

#[test]
fn pods_send_no_encapsulated_packets_by_a_service_in_ipvs_mode() {
    testbed::in_namespace(|| assert_no_frames_by_a_service("ipvs"));
}

#[test]
fn pods_send_no_encapsulated_packets_by_a_service_in_userspace_mode() {
    testbed::in_namespace(|| assert_no_frames_by_a_service("userspace"));
}
