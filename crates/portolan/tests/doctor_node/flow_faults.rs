//! Faults of connection tracking, with flows that the kernel has translated.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use client::{JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use testbed::{in_namespace, write_sysctl};

use crate::faults::expect;
use crate::support::wait_for;
use crate::world::{NODE, World};

/// Cluster IP, port and node port of a UDP Service.
const CLUSTER_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 78);
const PORT: u16 = 5_353;
const NODE_PORT: u16 = 30_090;
/// Port of its endpoints.
const TARGET_PORT: u16 = 9_053;
/// Pods of the two nodes.
const POD: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 10);
const OTHER_POD: Ipv4Addr = Ipv4Addr::new(10, 244, 2, 10);
/// Source ports of the client. Each one is a masqueraded flow, more than 90 % of the ports that exist.
const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 1_024..=60_500;
/// Size of the connection tracking table up to which the test fills it: that of hosts with 4 GiB of memory or more.
const TABLE_MAX: u64 = 262_144;
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn endpoints(pod: Ipv4Addr, node: &str) -> Value {
    json!([{"addresses": [pod.to_string()], "nodeName": node, "conditions": {"ready": true}}])
}

/// Creates a UDP Service without selector, whose endpoint is the Pod of the other node.
fn create_service(world: &World) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "datagrams"},
        "spec": {"type": "NodePort", "clusterIP": CLUSTER_IP.to_string(),
            "ports": [{"port": PORT, "protocol": "UDP", "targetPort": TARGET_PORT, "nodePort": NODE_PORT}]}});
    world.call(
        Method::POST,
        "/api/v1/namespaces/default/services",
        JSON,
        Some(service),
    );
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "datagrams-1", "labels": {"kubernetes.io/service-name": "datagrams"}},
        "ports": [{"port": TARGET_PORT, "protocol": "UDP"}], "endpoints": endpoints(OTHER_POD, "node-2")});
    world.call(Method::POST, SLICES, JSON, Some(slice));
}

/// Sends a datagram from a Pod to the cluster IP.
fn send_from_pod(world: &World) {
    let send = || {
        let socket = UdpSocket::bind("0.0.0.0:40000").expect("a socket");
        socket.send_to(b"query", (CLUSTER_IP, PORT)).expect("a datagram");
    };
    world.pods[0].enter(send).expect("a namespace");
}

/// Returns the endpoints of the flows to the cluster IP, as the doctor observes them.
fn endpoints_of_flows(world: &World) -> Vec<String> {
    let report = world.doctor(&["--probe=false"]);
    let flows = report.observation["conntrack"]["flows"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let to_service = flows
        .iter()
        .filter(|flow| flow["destination"] == CLUSTER_IP.to_string());
    to_service
        .filter_map(|flow| flow["replySource"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn faults_of_flows_are_found() {
    in_namespace(|| {
        let mut world = World::start();
        let is_kept = || write_sysctl("net.netfilter.nf_conntrack_udp_timeout", "600");
        world
            .node()
            .enter(is_kept)
            .expect("a namespace")
            .expect("a sysctl");
        create_service(&world);
        wait_for("a translated flow", || {
            send_from_pod(&world);
            endpoints_of_flows(&world).contains(&OTHER_POD.to_string())
        });
        // A stopped proxy deletes no flows of former endpoints.
        world.kill_proxy();
        let slice = format!("{SLICES}/datagrams-1");
        let moved = json!({"endpoints": endpoints(POD, NODE)});
        world.call(Method::PATCH, &slice, MERGE_PATCH, Some(moved));
        expect(&world.doctor(&[]), "PTL-0046");

        world.start_proxy();
        let back = json!({"endpoints": endpoints(OTHER_POD, "node-2")});
        world.call(Method::PATCH, &slice, MERGE_PATCH, Some(back));
        wait_for("the rules of the node port", || {
            send_from_outside(&world, 1_024..=1_024);
            masqueraded(&world) > 0
        });
        send_from_outside(&world, SOURCE_PORTS);
        expect(&world.doctor(&[]), "PTL-0052");
        fill_table(&world);
    });
}

/// Returns the largest number of masqueraded connections to one endpoint.
fn masqueraded(world: &World) -> u64 {
    let report = world.doctor(&["--probe=false"]);
    let first = &report.observation["conntrack"]["masqueraded"][0];
    first["connections"].as_u64().unwrap_or_default()
}

/// Sends a datagram from each of these ports of a host outside of the cluster to the node port.
fn send_from_outside(world: &World, ports: std::ops::RangeInclusive<u16>) {
    let outside = world.cluster.outside().expect("a host");
    let own: IpAddr = outside.plan.address.ipv4.into();
    let target = SocketAddr::from((world.node().plan.address.ipv4, NODE_PORT));
    let send = || {
        for port in ports {
            let socket = UdpSocket::bind((own, port)).expect("a socket");
            socket.send_to(b"query", target).expect("a datagram");
        }
    };
    outside.enter(send).expect("a namespace");
}

/// Fills the table, except for the entries that the doctor itself needs.
fn fill_table(world: &World) {
    let read = |name: &'static str| {
        let read = move || std::fs::read_to_string(format!("/proc/sys/net/netfilter/{name}"));
        let text = world.node().enter(read).expect("a namespace").expect("a sysctl");
        text.trim().parse::<u64>().expect("a number")
    };
    let maximum = read("nf_conntrack_max");
    if maximum > TABLE_MAX {
        println!("skipped: a full connection tracking table: it has {maximum} entries on this host");
        return;
    }
    let requested = maximum / 100 * 97;
    let fill = |missing: u64| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let ports = (1..=u16::MAX).take(usize::try_from(missing).unwrap_or(usize::MAX));
        for port in ports {
            // A full queue of the link loses the datagram, and the next round sends it again.
            if let Err(error) = socket.send_to(b"x", (OTHER_POD, port)) {
                assert_ne!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
            }
        }
    };
    wait_for("a full table", || {
        let missing = requested.saturating_sub(read("nf_conntrack_count"));
        world.node().enter(|| fill(missing)).expect("a namespace");
        missing == 0
    });
    expect(&world.doctor(&[]), "PTL-0045");
}
