use api::object::{EndpointSlice, Node, Service};
use netlink::route::LinkIndex;
use serde_json::{Value, json};

use super::*;

const LINK: LinkIndex = LinkIndex(7);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a range")
}

/// A Service with egress, load balancer IPs and Pods.
fn add(objects: &mut EgressObjects, name: &str, addresses: &[&str], pods: &[&str]) {
    let ingress: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
    let service = json!({
        "metadata": {
            "namespace": "d", "name": name, "uid": name,
            "annotations": {"service.portolan.dev/egress": "true"},
        },
        "spec": {"type": "LoadBalancer"},
        "status": {
            "loadBalancer": {"ingress": ingress},
            "conditions": [{"type": balancer::assigner::ASSIGNED_CONDITION, "status": "True"}],
        },
    });
    let service: Service = serde_json::from_value(service).expect("a Service");
    objects.service_applied(&service);
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|pod| json!({"addresses": [pod], "targetRef": {"kind": "Pod", "namespace": "d"}}))
        .collect();
    let slice = json!({
        "metadata": {
            "namespace": "d", "name": name, "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4", "endpoints": endpoints,
    });
    let slice: EndpointSlice = serde_json::from_value(slice).expect("an EndpointSlice");
    objects.slice_applied(&slice);
}

fn with_nodes() -> EgressObjects {
    let mut objects = EgressObjects::default();
    for number in [1, 2] {
        let node = json!({
            "metadata": {"name": format!("n{number}")},
            "spec": {"podCIDRs": [format!("10.244.{number}.0/24"), format!("fd00:244:{number}::/64")]},
            "status": {"addresses": [
                {"type": "InternalIP", "address": format!("192.0.2.{number}")},
                {"type": "ExternalIP", "address": format!("10.244.{number}.200")},
            ]},
        });
        let node: Node = serde_json::from_value(node).expect("a Node");
        objects.node_applied(&node);
    }
    objects
}

/// Plans on node `n1`; `owner` owns all addresses, and node `n2` is reachable.
fn plan(objects: &EgressObjects, owner: Option<&str>) -> EgressPlan {
    let own = NodeName::from("n1");
    let view = EgressView {
        own: &own,
        owner: &|_: IpAddr| owner.map(NodeName::from),
        route: &|node: &NodeName, _: IpAddr| (&**node == "n2").then_some(via("192.0.2.2")),
    };
    EgressPlan::new(objects, [ip("192.0.2.100"), ip("192.0.2.101")].into_iter(), &view)
}

fn via(gateway: &str) -> Action {
    Action::ViaOnLink {
        gateway: ip(gateway),
        link: LINK,
    }
}

fn fault(plan: &EgressPlan, service: &str) -> Option<EgressFault> {
    plan.faults.get(&ObjectKey::new("d", service)).cloned()
}

/// LBK-05.
#[test]
fn owner_translates_and_other_nodes_send_to_it() {
    let mut objects = with_nodes();
    add(&mut objects, "s", &["192.0.2.100"], &["10.244.1.7", "10.244.2.7"]);
    let own = plan(&objects, Some("n1"));
    let translated = PodEgress::Translated(ip("192.0.2.100"));
    assert_eq!(own.pods.len(), 2);
    assert!(own.pods.values().all(|pod| *pod == translated));
    let other = plan(&objects, Some("n2"));
    let routed = PodEgress::Routed {
        node: NodeName::from("n2"),
        route: via("192.0.2.2"),
    };
    assert!(other.pods.values().all(|pod| *pod == routed));
    let owner = (NodeName::from("n2"), via("192.0.2.2"));
    assert_eq!(other.replies, BTreeMap::from([(ip("192.0.2.100"), owner)]));
    assert!(own.replies.is_empty());
    assert!(own.faults.is_empty() && other.faults.is_empty());
}

#[test]
fn service_has_a_fault_if_the_kernel_refuses_the_route_to_its_owner() {
    let mut objects = with_nodes();
    add(&mut objects, "s", &["192.0.2.100"], &["10.244.1.7"]);
    let mut other = plan(&objects, Some("n2"));
    other.add_unroutable(&objects, &BTreeSet::from([NodeName::from("n3")]));
    assert_eq!(fault(&other, "s"), None);
    let owner = NodeName::from("n2");
    other.add_unroutable(&objects, &BTreeSet::from([NodeName::clone(&owner)]));
    assert_eq!(fault(&other, "s"), Some(EgressFault::NoRoute(owner)));
}

#[test]
fn packets_are_dropped_without_owner_route_or_address() {
    let mut objects = with_nodes();
    add(
        &mut objects,
        "s",
        &["192.0.2.100"],
        &["10.244.1.7", "fd00:244:1::7"],
    );
    let unowned = plan(&objects, None);
    assert!(unowned.pods.values().all(|pod| *pod == PodEgress::Blocked));
    assert_eq!(
        fault(&unowned, "s"),
        Some(EgressFault::NoOwner(ip("192.0.2.100")))
    );
    let unreachable = plan(&objects, Some("n3"));
    assert!(unreachable.pods.values().all(|pod| *pod == PodEgress::Blocked));
    assert_eq!(
        fault(&unreachable, "s"),
        Some(EgressFault::NoRoute(NodeName::from("n3")))
    );
    let own = plan(&objects, Some("n1"));
    assert_eq!(own.pods[&ip("fd00:244:1::7")], PodEgress::Blocked);
    assert_eq!(fault(&own, "s"), Some(EgressFault::NoAddress("IPv6")));
    assert_ne!(own.pods[&ip("10.244.1.7")], PodEgress::Blocked);
}

#[test]
fn addresses_of_nodes_and_outside_of_pod_ranges_have_no_egress() {
    let mut objects = with_nodes();
    let pods = ["192.0.2.1", "10.244.1.200", "198.51.100.7", "10.244.1.7"];
    add(&mut objects, "s", &["192.0.2.100"], &pods);
    let plan = plan(&objects, Some("n1"));
    assert_eq!(plan.pods.keys().collect::<Vec<_>>(), [&ip("10.244.1.7")]);
    let found = fault(&plan, "s").expect("a fault");
    assert_eq!(found, EgressFault::NoPodRange(ip("192.0.2.1")));
    assert_eq!(found.reason(), "EgressNotApplied");
}

#[test]
fn first_service_and_lowest_address_decide() {
    let mut objects = with_nodes();
    add(&mut objects, "t", &["192.0.2.100"], &["10.244.1.7", "10.244.1.8"]);
    add(
        &mut objects,
        "s",
        &["192.0.2.102", "192.0.2.101"],
        &["10.244.1.7"],
    );
    let plan = plan(&objects, Some("n1"));
    assert_eq!(
        plan.pods[&ip("10.244.1.7")],
        PodEgress::Translated(ip("192.0.2.101"))
    );
    assert_eq!(
        plan.pods[&ip("10.244.1.8")],
        PodEgress::Translated(ip("192.0.2.100"))
    );
}

#[test]
fn pods_nodes_and_load_balancer_ips_are_inside() {
    let mut objects = with_nodes();
    assert!(plan(&objects, None).inside.is_empty());
    add(&mut objects, "s", &["192.0.2.100"], &[]);
    let inside = plan(&objects, Some("n1")).inside;
    for address in [
        "10.244.2.9",
        "fd00:244:2::9",
        "192.0.2.2",
        "192.0.2.101",
        "169.254.20.10",
        "fe80::1",
        "ff02::1",
        "127.0.0.1",
    ] {
        assert!(
            inside.iter().any(|range| range.contains(&ip(address))),
            "{address}"
        );
    }
    for address in ["192.0.2.3", "198.51.100.1", "2001:db8::1", "10.96.0.1"] {
        assert!(
            !inside.iter().any(|range| range.contains(&ip(address))),
            "{address}"
        );
    }
}

#[test]
fn route_to_pods_is_the_most_specific_one_through_a_gateway() {
    let objects = with_nodes();
    let node = &objects.nodes()["n2"];
    let route = |destination: &str, action: Action| Route::new(net(destination), action);
    let wide = route("10.244.0.0/16", via("192.0.2.9"));
    let through = |gateway: &str| Action::Via {
        gateway: ip(gateway),
        link: Some(LINK),
    };
    let exact = route("10.244.2.0/24", through("192.0.2.2"));
    let default = route("0.0.0.0/0", through("192.0.2.254"));
    let found = |routes: &[Route]| route_to_pods(routes, node, true);
    assert_eq!(found(&[default, wide, exact]), Some(via("192.0.2.2")));
    assert_eq!(found(&[default, wide]), Some(via("192.0.2.9")));
    assert_eq!(found(&[default]), None);
    assert_eq!(found(&[wide, route("10.244.2.0/24", Action::Blackhole)]), None);
    assert_eq!(route_to_pods(&[exact], node, false), None);
}
