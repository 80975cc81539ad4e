//! Decisions about routes of a small cluster (LBM-11, LBM-12).

use std::collections::BTreeSet;
use std::time::Duration;

use api::object::{AddressPoolSpec, EndpointSlice, Node, ObjectKey, Service};
use bgp::community::Community;
use serde_json::{Value, json};

use super::{Cluster, Drain, NodeRoutes};
use crate::configuration::{Configuration, Group, Name, Object, Objects};

fn name(name: &str) -> Name {
    (Group::Portolan, name.to_owned())
}

fn object<S: serde::de::DeserializeOwned>(spec: Value) -> Object<S> {
    Object {
        spec: serde_json::from_value(spec).expect("a spec"),
        uid: String::new(),
        labels: [("tier".to_owned(), "outer".to_owned())].into(),
    }
}

fn node(name: &str, change: Value) -> Node {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {}, "status": {"addresses": [{"type": "InternalIP", "address": format!("10.0.0.{}", &name[1..])}]},
    });
    for (field, value) in change.as_object().expect("fields") {
        node[field] = value.clone();
    }
    serde_json::from_value(node).expect("a Node")
}

fn service(name: &str, address: &str, policy: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}},
        "spec": {"type": "LoadBalancer", "externalTrafficPolicy": policy},
        "status": {"conditions": [{"type": balancer::assigner::ASSIGNED_CONDITION, "status": "True"}],
                   "loadBalancer": {"ingress": [{"ip": address}]}},
    }))
    .expect("a Service")
}

fn slice(service: &str, endpoints: Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {"name": service, "namespace": "default", "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "endpoints": endpoints,
    }))
    .expect("an EndpointSlice")
}

/// A cluster of two nodes, a pool, and Services `a` (Cluster) and `b` (Local) with an endpoint on n1.
struct World {
    cluster: Cluster,
    objects: Objects,
}

impl World {
    fn new() -> Self {
        let mut objects = Objects::default();
        let pool: Object<AddressPoolSpec> =
            object(json!({"addresses": ["192.0.2.0/24", "fd00::/64", "10.0.0.0/24"]}));
        objects.pools.insert(name("p"), pool);
        for peer in ["r1", "r2"] {
            let spec =
                json!({"myASN": 64512, "peerASN": 64513, "peerAddress": format!("10.0.1.{}", &peer[1..])});
            objects.peers.insert(name(peer), object(spec));
        }
        objects.advertisements.insert(name("all"), object(json!({})));
        let mut cluster = Cluster::new(false);
        cluster.set_pools(&objects);
        for name in ["n1", "n2"] {
            cluster.node_applied(&node(name, json!({})));
        }
        cluster.service_applied(&service("a", "192.0.2.1", "Cluster"));
        cluster.service_applied(&service("b", "192.0.2.2", "Local"));
        for service in ["a", "b"] {
            cluster.slice_applied(&slice(
                service,
                json!([{"nodeName": "n1", "conditions": {"ready": true}}]),
            ));
        }
        Self { cluster, objects }
    }

    fn advertise(&mut self, spec: Value) {
        self.objects.advertisements.insert(name("all"), object(spec));
    }

    fn decide(&self, node: &str, drain: Drain) -> NodeRoutes {
        let configuration = Configuration::of(&self.objects, "");
        assert_eq!(configuration.invalid, []);
        NodeRoutes::decide(&self.cluster, &configuration, node, drain, &BTreeSet::new())
    }

    /// Prefixes that a node announces to a peer.
    fn prefixes(&self, node: &str, peer: &str) -> Vec<String> {
        let routes = self.decide(node, Drain::None);
        routes.peers[&name(peer)]
            .keys()
            .map(ToString::to_string)
            .collect()
    }
}

#[test]
fn local_services_are_announced_by_nodes_with_endpoints() {
    let mut world = World::new();
    assert_eq!(world.prefixes("n1", "r1"), ["192.0.2.1/32", "192.0.2.2/32"]);
    assert_eq!(world.prefixes("n2", "r2"), ["192.0.2.1/32"]);
    // Terminating endpoints count while they serve and none is ready.
    let terminating =
        json!([{"nodeName": "n2", "conditions": {"ready": false, "serving": true, "terminating": true}}]);
    world.cluster.slice_applied(&slice("b", terminating));
    assert_eq!(world.prefixes("n2", "r1"), ["192.0.2.1/32", "192.0.2.2/32"]);
    // Without endpoints no node announces.
    world.cluster.slice_applied(&slice("a", json!([])));
    world.cluster.slice_applied(&slice(
        "b",
        json!([{"nodeName": "n1", "conditions": {"ready": false}}]),
    ));
    assert!(world.prefixes("n1", "r1").is_empty());
}

#[test]
fn ineligible_nodes_announce_no_route() {
    let changes = [
        json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        json!({"status": {"conditions": [{"type": "NetworkUnavailable", "status": "True"}]}}),
        json!({"metadata": {"name": "n1", "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}}),
    ];
    for change in changes {
        let mut world = World::new();
        world.cluster.node_applied(&node("n1", change.clone()));
        assert!(world.prefixes("n1", "r1").is_empty(), "{change}");
    }
}

#[test]
fn advertisements_select_pools_peers_nodes_and_services() {
    let mut world = World::new();
    let cases = [
        (json!({"ipAddressPools": ["p"]}), 2),
        (json!({"ipAddressPools": ["q"]}), 0),
        (
            json!({"ipAddressPoolSelectors": [{"matchLabels": {"tier": "outer"}}]}),
            2,
        ),
        (
            json!({"ipAddressPoolSelectors": [{"matchLabels": {"tier": "inner"}}]}),
            0,
        ),
        (json!({"peers": ["r1"]}), 2),
        (json!({"peers": ["r2"]}), 0),
        (
            json!({"nodeSelectors": [{"matchLabels": {"kubernetes.io/hostname": "n2"}}]}),
            0,
        ),
        (json!({"serviceSelectors": [{"matchLabels": {"app": "b"}}]}), 1),
        (json!({"aggregationLength": 24}), 1),
    ];
    for (spec, count) in cases {
        world.advertise(spec.clone());
        assert_eq!(world.prefixes("n1", "r1").len(), count, "{spec}");
    }
    world.objects.advertisements.clear();
    assert!(world.prefixes("n1", "r1").is_empty());
}

#[test]
fn services_have_the_peers_of_their_routes() {
    let mut world = World::new();
    world.advertise(json!({"peers": ["r1"], "serviceSelectors": [{"matchLabels": {"app": "a"}}]}));
    let routes = world.decide("n1", Drain::None);
    let peers: Vec<_> = routes.service_peers.into_iter().collect();
    let expected = (ObjectKey::new("default", "a"), BTreeSet::from(["r1".to_owned()]));
    assert_eq!(peers, [expected]);
}

#[test]
fn attributes_of_advertisements_join() {
    let mut world = World::new();
    world.advertise(json!({"communities": ["1:1"], "localPref": 50}));
    world.objects.advertisements.insert(
        name("more"),
        object(json!({"communities": ["1:2"], "localPref": 70})),
    );
    let routes = world.decide("n1", Drain::None);
    let route = routes.peers[&name("r1")].values().next().expect("a route");
    assert_eq!(route.local_preference, Some(70));
    assert_eq!(
        route.communities().collect::<Vec<_>>(),
        [Community(0x1_0001), Community(0x1_0002)]
    );
}

#[test]
fn peers_select_nodes_and_addresses_of_nodes_stay_theirs() {
    let mut world = World::new();
    let mut peer = world.objects.peers[&name("r1")].clone();
    peer.spec.node_selectors = vec![json!({"matchLabels": {"kubernetes.io/hostname": "n2"}})];
    world.objects.peers.insert(name("r1"), peer);
    let routes = world.decide("n1", Drain::None);
    assert_eq!(routes.peers.keys().collect::<Vec<_>>(), [&name("r2")]);
    world
        .cluster
        .service_applied(&service("a", "10.0.0.2", "Cluster"));
    assert_eq!(world.prefixes("n1", "r2"), ["192.0.2.2/32"]);
}

#[test]
fn cordoned_node_gives_way_to_others_only() {
    let mut world = World::new();
    world
        .cluster
        .node_applied(&node("n1", json!({"spec": {"unschedulable": true}})));
    let communities = |routes: &NodeRoutes| -> Vec<usize> {
        let routes = routes.peers[&name("r1")].values();
        routes
            .map(|route| {
                route
                    .communities()
                    .filter(|community| *community == Community::GRACEFUL_SHUTDOWN)
                    .count()
            })
            .collect()
    };
    let routes = world.decide("n1", Drain::Yielding);
    assert_eq!(communities(&routes), [1, 1]);
    // The endpoint of b is on n1 only.
    let routes = world.decide("n1", Drain::Withdrawn);
    let prefixes: Vec<String> = routes.peers[&name("r1")]
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(prefixes, ["192.0.2.2/32"]);
    let both = json!([{"nodeName": "n1", "conditions": {}}, {"nodeName": "n2", "conditions": {}}]);
    world.cluster.slice_applied(&slice("b", both));
    assert!(world.decide("n1", Drain::Withdrawn).peers[&name("r1")].is_empty());
    world
        .cluster
        .node_applied(&node("n2", json!({"spec": {"unschedulable": true}})));
    assert_eq!(world.decide("n1", Drain::Withdrawn).peers[&name("r1")].len(), 2);
}

#[test]
fn draining_node_yields_before_it_withdraws() {
    let at = |seconds: u64| Drain::at(Some(Duration::from_secs(5)), Duration::from_secs(seconds));
    assert_eq!(Drain::at(None, Duration::from_secs(5)), Drain::None);
    assert_eq!(
        [at(5), at(9), at(10)],
        [Drain::Yielding, Drain::Yielding, Drain::Withdrawn]
    );
}
