//! Faults of links, routes, addresses and neighbours.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use client::{JSON, MERGE_PATCH};
use http::Method;
use ipnet::IpNet;
use netlink::route::{Connection, LinkChange, LinkName, Route};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use serde_json::json;
use testbed::{in_namespace, write_sysctl};

use crate::faults::{OF_SERVICE, entry, expect, expect_none};
use crate::world::{NODE, Report, TARGET_PORT, World, objects, record_of};

/// Load balancer IP in the subnet of the nodes.
const LOAD_BALANCER_IP: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 200);
/// Range of the Pods of the other node, and its address.
const OTHER_PODS: &str = "10.244.2.0/24";
const OTHER_NODE: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 12);
/// Size of packets that a link of the underlay drops without an answer.
const SMALL_MTU: u32 = 1_400;

fn name(text: &str) -> LinkName {
    text.parse().expect("a name")
}

fn network(text: &str) -> IpNet {
    text.parse().expect("a network")
}

fn links_of(world: &World, member: &str) -> Connection {
    let member = world.cluster.member(member).expect("a member");
    Connection::open_in(&member.namespace).expect("a socket")
}

#[test]
fn faults_of_links_and_routes_are_found() {
    in_namespace(|| {
        let world = World::start();
        let mut links = links_of(&world, NODE);
        route_is_missing(&world, &mut links);
        large_packets_are_lost(&world);
        ipvs_link_is_left(&world, &mut links);
        bridged_packets_pass_no_chains(&world);
        local_ports_contain_node_ports(&world);
        address_has_changed(&world, &mut links);
    });
}

fn route_is_missing(world: &World, links: &mut Connection) {
    let route = Route::via(network(OTHER_PODS), OTHER_NODE.into());
    links.delete_route(&route).expect("no route");
    let report = world.doctor(&OF_SERVICE);
    expect(&report, "PTL-0051");
    links.add_route(&route).expect("a route");
}

/// A bridge between the nodes drops frames that are larger than the MTU of its port.
fn large_packets_are_lost(world: &World) {
    let underlay = &world.cluster.underlay().namespace;
    let mut at_underlay = Connection::open_in(underlay).expect("a socket");
    let address = world.cluster.member("node-2").expect("a node").plan.address;
    let port = port_of(world, &mut at_underlay, "node-2");
    let mtu = |bytes| LinkChange {
        mtu_bytes: Some(bytes),
        ..LinkChange::default()
    };
    at_underlay.change_link(port, &mtu(SMALL_MTU)).expect("an MTU");
    let report = world.doctor(&OF_SERVICE);
    expect(&report, "PTL-0050");
    assert_eq!(address.ipv4, OTHER_NODE);
    at_underlay.change_link(port, &mtu(1_500)).expect("an MTU");
}

/// Returns the port of the underlay that leads to a member: the peer of its link.
fn port_of(world: &World, at_underlay: &mut Connection, member: &str) -> netlink::route::LinkIndex {
    let link = links_of(world, member)
        .link(&name("eth0"))
        .expect("links")
        .expect("eth0");
    let ports = at_underlay.links().expect("links");
    let lower = link.lower.expect("a peer");
    let port = ports.iter().find(|port| port.index == lower);
    port.expect("the port of a member").index
}

fn ipvs_link_is_left(world: &World, links: &mut Connection) {
    let left = name("kube-ipvs0");
    links.add_bridge(&left).expect("a link");
    let index = links.link_index(&left).expect("a link");
    links
        .add_address(index, network("10.96.0.99/32"))
        .expect("an address");
    expect(&world.doctor(&[]), "PTL-0054");
    links.delete_link(&left).expect("no link");
}

fn bridged_packets_pass_no_chains(world: &World) {
    let set = |value: &'static str| {
        let write = move || write_sysctl("net.bridge.bridge-nf-call-iptables", value);
        world.node().enter(write).expect("a namespace")
    };
    set("0").expect("a sysctl");
    expect(&world.doctor(&[]), "PTL-0043");
    set("1").expect("a sysctl");
}

fn local_ports_contain_node_ports(world: &World) {
    let set = |value: &'static str| {
        let write = move || write_sysctl("net.ipv4.ip_local_port_range", value);
        world.node().enter(write).expect("a namespace").expect("a sysctl");
    };
    set("20000 60999");
    expect(&world.doctor(&[]), "PTL-0049");
    set("32768 60999");
}

/// The node receives another address, and the Node has the former one.
fn address_has_changed(world: &World, links: &mut Connection) {
    let uplink = links.link_index(&name("eth0")).expect("a link");
    // The kernel deletes the routes of an address with it.
    let before = links.routes().expect("routes");
    links
        .add_address(uplink, network("172.30.0.57/25"))
        .expect("an address");
    links
        .delete_address(uplink, network("172.30.0.11/24"))
        .expect("no address");
    let after = links.routes().expect("routes");
    for route in before.iter().filter(|route| !after.contains(route)) {
        if route.destination != network("172.30.0.0/24") {
            links.add_route(route).expect("a route");
        }
    }
    let report = world.doctor(&[]);
    expect(&report, "PTL-0053");
    let uplink = entry(&report.observation, "links", "name", "eth0");
    let addresses = uplink["addresses"].as_array().expect("addresses");
    assert!(addresses.contains(&"172.30.0.57/25".into()), "{uplink:#}");
}

#[test]
fn faults_of_load_balancer_addresses_are_found() {
    in_namespace(|| {
        let mut world = World::start();
        let second = world.spawn(
            "node-2",
            &[
                "proxy",
                &format!("--kubeconfig={}", world.kubeconfig()),
                "--hostname-override=node-2",
                "--cluster-cidr=10.244.0.0/16",
            ],
        );
        world.others.push(second.into());
        assign_load_balancer_ip(&world);
        no_announcer_answers(&world);
        two_hosts_answer(&world);
        session_is_not_established(&world);
    });
}

fn assign_load_balancer_ip(world: &World) {
    let service = "/api/v1/namespaces/default/services/web";
    let change = json!({"spec": {"type": "LoadBalancer"}});
    world.call(Method::PATCH, service, MERGE_PATCH, Some(change));
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": LOAD_BALANCER_IP.to_string(), "ipMode": "VIP"}]}}});
    let path = format!("{service}/status");
    world.call(Method::PATCH, &path, MERGE_PATCH, Some(status));
}

/// Two nodes of the subnet send requests, so one of them would receive an answer from the announcer.
fn no_announcer_answers(world: &World) {
    let flags = ["service", "default/web"];
    crate::support::wait_for("the rules of the second proxy", || {
        let report = world.doctor_on("node-2", &["--probe=false"]);
        report.codes.is_empty()
    });
    for node in [NODE, "node-2"] {
        world.doctor_on(node, &flags);
    }
    let mut list = objects();
    let service = list
        .iter_mut()
        .find(|object| object["kind"] == "Service")
        .expect("a Service");
    service["spec"]["type"] = "LoadBalancer".into();
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": LOAD_BALANCER_IP.to_string()}]}});
    let path = record_of("objects");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": list});
    std::fs::write(&path, list.to_string()).expect("a file");
    let (first, second) = (record_of(NODE), record_of("node-2"));
    let files = [
        "--from-file",
        &path,
        "--from-file",
        &first,
        "--from-file",
        &second,
    ];
    let output = world.run(&[&flags[..], &files, &["-o", "json"]].concat());
    expect(&Report::read(&output, std::path::Path::new(&first)), "PTL-0055");
}

fn two_hosts_answer(world: &World) {
    let network = IpNet::new(LOAD_BALANCER_IP.into(), 32).expect("a network");
    for member in ["control-plane", "outside"] {
        let mut links = links_of(world, member);
        let uplink = links.link_index(&name("eth0")).expect("a link");
        links.add_address(uplink, network).expect("an address");
    }
    let report = world.doctor(&OF_SERVICE);
    expect(&report, "PTL-0055");
    let probes = report.observation["probes"].as_array().expect("probes");
    let arp = probes.iter().find(|probe| probe["kind"] == "arp");
    let answers = arp.and_then(|probe| probe["answers"].as_array()).map(Vec::len);
    assert_eq!(answers, Some(2));
    let mut links = links_of(world, "outside");
    let uplink = links.link_index(&name("eth0")).expect("a link");
    links.delete_address(uplink, network).expect("no address");
}

/// A router does not answer: it has no route back to the node.
fn session_is_not_established(world: &World) {
    let node = world.node().plan.address.ipv4;
    let router = world.cluster.outside().expect("a host").plan.address.ipv4;
    let back = IpNet::new(node.into(), 32).expect("a network");
    let mut at_router = links_of(world, "outside");
    let blackhole = Route::new(back, netlink::route::Action::Blackhole);
    at_router.add_route(&blackhole).expect("a route");
    let open = || {
        let kind = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, kind, None).expect("a socket");
        let target = SocketAddr::V4(SocketAddrV4::new(router, 179));
        let begun = connect(&socket, &target);
        assert_eq!(begun, Err(rustix::io::Errno::INPROGRESS));
        socket
    };
    let _session = world.node().enter(open).expect("a namespace");
    let report = world.doctor(&[]);
    expect(&report, "PTL-0056");
    let sessions = report.observation["bgpSessions"].as_array().expect("sessions");
    assert_eq!(sessions[0]["state"], "syn-sent", "{sessions:#?}");
    at_router.delete_route(&blackhole).expect("no route");
}

/// Checks that the load balancer of this module has no fault of its own.
#[test]
fn service_with_answered_address_has_no_findings() {
    in_namespace(|| {
        let world = World::start();
        assign_load_balancer_ip(&world);
        let mut links = links_of(&world, "outside");
        let uplink = links.link_index(&name("eth0")).expect("a link");
        let network = IpNet::new(LOAD_BALANCER_IP.into(), 32).expect("a network");
        links.add_address(uplink, network).expect("an address");
        expect_none(&world.doctor(&OF_SERVICE));
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"},
            "spec": {"containers": [{"name": "other", "image": "other", "ports": [{"containerPort": TARGET_PORT}]}]}});
        world.call(Method::POST, "/api/v1/namespaces/default/pods", JSON, Some(pod));
        expect_none(&world.doctor(&[]));
    });
}
