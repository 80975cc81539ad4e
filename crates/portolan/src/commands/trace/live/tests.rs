use explain::trace::{Request, trace};
use explain::{World, WorldBuilder};
use serde_json::json;

use super::*;

fn objects() -> WorldBuilder {
    let mut world = World::builder();
    world.add(json!([
        {"kind": "Service", "metadata": {"namespace": "shop", "name": "web"},
         "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80}]}},
        {"kind": "Node", "metadata": {"name": "node-a"},
         "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]}},
        {"kind": "Pod", "metadata": {"namespace": "shop", "name": "cart"}, "spec": {"nodeName": "node-a"},
         "status": {"podIP": "10.244.1.9"}}]));
    world
}

fn traced(destination: &str, from: &str) -> Trace {
    let request = Request::new(
        destination.parse().expect("a destination"),
        from.parse().expect("a client"),
    );
    trace(&objects().build(), &request).expect("a trace")
}

fn reason(destination: &str, from: &str) -> String {
    target(&traced(destination, from))
        .expect_err("an error")
        .to_string()
}

#[test]
fn packet_has_the_addresses_of_the_trace() {
    let trace = traced("http://web/", "pod/shop/cart");
    let (_, source, destination) = target(&trace).expect("a target");
    assert_eq!(
        (source.to_string(), destination.to_string()),
        ("10.244.1.9".into(), "10.96.0.5:80".into())
    );
}

#[test]
fn connection_without_packets_is_rejected() {
    assert!(reason("http://web/", "203.0.113.9").contains("outside of the cluster"));
    assert!(reason("sctp://web:80", "pod/shop/cart").contains("not SCTP"));
    assert!(reason("http://none/", "pod/shop/cart").starts_with("no packet is sent"));
}

#[test]
fn client_of_another_host_is_rejected() {
    let trace = traced("http://web/", "node/node-a");
    let error = LocalClient::of(&trace.client, &Cluster::default())
        .map(drop)
        .expect_err("an error");
    assert!(error.to_string().contains("Node node-a is not here"), "{error}");
}

#[test]
fn pod_of_another_node_is_rejected() {
    let trace = traced("http://web/", "pod/shop/cart");
    let error = LocalClient::of(&trace.client, &Cluster::read(&objects(), None))
        .map(drop)
        .expect_err("an error");
    assert!(
        error.to_string().ends_with("is not here, its node is node-a"),
        "{error}"
    );
}

#[test]
fn kernel_chooses_endpoints_of_port_ranges_in_userspace_mode() {
    let mut world = objects();
    world.add(json!([
        {"kind": "Service", "metadata": {"namespace": "shop", "name": "calls",
            "annotations": {"service.portolan.dev/port-ranges": "5060-5160/UDP"}},
         "spec": {"clusterIP": "10.96.0.6", "ports": [{"port": 80}]}},
        {"kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "calls-1",
            "labels": {"kubernetes.io/service-name": "calls"}}, "addressType": "IPv4",
         "ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": ["10.244.1.2"]}]}]));
    let world = world.build();
    for (destination, expected) in [("tcp://calls:80", true), ("udp://calls:5100", false)] {
        let request = Request::new(
            destination.parse().expect("a destination"),
            "pod/shop/cart".parse().expect("a client"),
        );
        let trace = trace(&world, &request).expect("a trace");
        let (path, ..) = target(&trace).expect("a target");
        assert_eq!(path.verdict, explain::trace::Verdict::Reaches, "{destination}");
        assert_eq!(is_relayed(Some("userspace"), path), expected, "{destination}");
        assert!(!is_relayed(Some("nftables"), path), "{destination}");
    }
}
