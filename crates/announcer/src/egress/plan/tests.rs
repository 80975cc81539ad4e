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
    objects.apply_service(&service);
    let pods = pods.iter().map(|pod| (ip(pod), None));
    add_slice(objects, name, name, pods);
}

/// An EndpointSlice of a Service, with addresses of Pods and their nodes.
fn add_slice<'n>(
    objects: &mut EgressObjects,
    name: &str,
    service: &str,
    pods: impl Iterator<Item = (IpAddr, Option<&'n str>)>,
) {
    let target = json!({"kind": "Pod", "namespace": "d"});
    let endpoints: Vec<Value> = pods
        .map(|(pod, node)| json!({"addresses": [pod], "nodeName": node, "targetRef": target}))
        .collect();
    let slice = json!({
        "metadata": {
            "namespace": "d", "name": name, "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4", "endpoints": endpoints,
    });
    let slice: EndpointSlice = serde_json::from_value(slice).expect("an EndpointSlice");
    objects.apply_slice(&slice);
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
        objects.apply_node(&node);
    }
    objects
}

/// Plans on node `n1`; `owner` owns all addresses, node `n2` is reachable, and node `n3` has no announcer.
fn plan(objects: &EgressObjects, owner: Option<&str>) -> EgressPlan {
    let own = NodeName::from("n1");
    let view = EgressView {
        own: &own,
        owner: &|_: IpAddr| owner.map(NodeName::from),
        route: &|node: &NodeName, _: IpAddr| (&**node == "n2").then_some(via("192.0.2.2")),
        has_announcer: &|node: &NodeName| &**node != "n3",
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

/// The first addresses of a range of Pods of node `n4`.
fn numbered(first: usize, count: usize) -> impl Iterator<Item = IpAddr> {
    let base = Ipv4Addr::new(10, 128, 0, 0).to_bits();
    let numbers = (first..first + count).map(|number| u32::try_from(number).expect("a small number"));
    numbers.map(move |number| Ipv4Addr::from(base + number).into())
}

/// Objects with as many Pods of other nodes as the tables have room for, in Service `s`.
fn with_full_tables() -> EgressObjects {
    let mut objects = with_nodes();
    let node = json!({"metadata": {"name": "n4"}, "spec": {"podCIDRs": ["10.128.0.0/9"]}});
    let node: Node = serde_json::from_value(node).expect("a Node");
    objects.apply_node(&node);
    add(&mut objects, "s", &["192.0.2.100"], &[]);
    let pods = numbered(0, PODS_MAX).map(|pod| (pod, Some("n4")));
    add_slice(&mut objects, "s", "s", pods);
    objects
}

#[test]
fn node_drops_packets_of_its_pods_beyond_the_bound() {
    let mut objects = with_full_tables();
    let full = plan(&objects, Some("n1"));
    assert_eq!((full.pods.len(), fault(&full, "s")), (PODS_MAX, None));
    add(&mut objects, "t", &["192.0.2.101"], &["10.244.1.9"]);
    let further = [
        (ip("10.244.1.7"), Some("n1")),
        (ip("10.244.2.7"), Some("n2")),
        // In the network of its node.
        (ip("192.0.2.1"), Some("n1")),
    ];
    add_slice(&mut objects, "t-2", "t", further.into_iter());
    let plan = plan(&objects, Some("n1"));
    // Without a node, the Pod may be one of this node.
    for pod in ["10.244.1.7", "10.244.1.9"] {
        assert_eq!(plan.pods[&ip(pod)], PodEgress::Blocked, "{pod}");
    }
    assert_eq!(plan.pods.len(), PODS_MAX + 2);
    assert_eq!(plan.translated.len(), 1);
    assert_eq!(fault(&plan, "s"), None);
    assert_eq!(fault(&plan, "t"), Some(EgressFault::NoPodRange(ip("192.0.2.1"))));
}

#[test]
fn pods_beyond_both_bounds_are_reported_as_without_egress() {
    let mut objects = with_full_tables();
    add(&mut objects, "t", &["192.0.2.101"], &[]);
    let excess = |count: usize| numbered(PODS_MAX, count).map(|pod| (pod, Some("n1")));
    add_slice(&mut objects, "t", "t", excess(EXCESS_MAX));
    let bounded = plan(&objects, Some("n1"));
    assert_eq!(bounded.pods.len(), PODS_MAX + EXCESS_MAX);
    let found = fault(&bounded, "t").expect("a fault");
    assert_eq!((found.reason(), found.is_seen_by_all()), ("EgressBlocked", true));
    assert_eq!(found, EgressFault::TooManyPods);
    add_slice(&mut objects, "t", "t", excess(EXCESS_MAX + 1));
    let beyond = plan(&objects, Some("n1"));
    assert_eq!(beyond.pods, bounded.pods);
    let found = fault(&beyond, "t").expect("a fault");
    assert_eq!(
        (found.reason(), found.is_seen_by_all()),
        ("EgressNotApplied", false)
    );
    assert_eq!(found, EgressFault::TooManyPodsOfNode);
}

#[test]
fn service_has_a_fault_if_the_node_of_a_pod_has_no_announcer() {
    let mut objects = with_nodes();
    add(&mut objects, "s", &["192.0.2.100"], &[]);
    let pod = |node| [(ip("10.244.1.7"), Some(node))].into_iter();
    add_slice(&mut objects, "s", "s", pod("n2"));
    assert_eq!(fault(&plan(&objects, Some("n1")), "s"), None);
    add_slice(&mut objects, "s", "s", pod("n3"));
    let own = plan(&objects, Some("n1"));
    let found = fault(&own, "s").expect("a fault");
    assert_eq!(found, EgressFault::NoAnnouncer(NodeName::from("n3")));
    assert_eq!(
        (found.reason(), found.is_seen_by_all()),
        ("EgressNotApplied", true)
    );
    // An announcer that starts later sends the packets to the owner.
    let translated = PodEgress::Translated(ip("192.0.2.100"));
    assert_eq!(own.pods[&ip("10.244.1.7")], translated);
}

/// The node without an announcer drops no packets, also where other nodes would.
#[test]
fn node_without_an_announcer_precedes_faults_that_drop_packets() {
    let without_announcer = Some(EgressFault::NoAnnouncer(NodeName::from("n3")));
    let mut objects = with_nodes();
    add(&mut objects, "s", &["192.0.2.100"], &[]);
    let pod = || [(ip("10.244.1.7"), Some("n3"))].into_iter();
    add_slice(&mut objects, "s", "s", pod());
    let unowned = plan(&objects, None);
    assert_eq!(unowned.pods[&ip("10.244.1.7")], PodEgress::Blocked);
    assert_eq!(fault(&unowned, "s"), without_announcer);
    let mut objects = with_full_tables();
    add(&mut objects, "t", &["192.0.2.101"], &[]);
    add_slice(&mut objects, "t", "t", pod());
    assert_eq!(fault(&plan(&objects, Some("n1")), "t"), without_announcer);
}

#[test]
fn pods_of_this_node_have_an_announcer_before_it_is_a_member() {
    let mut objects = with_nodes();
    add(&mut objects, "s", &["192.0.2.100"], &[]);
    let pod = [(ip("10.244.1.7"), Some("n1"))].into_iter();
    add_slice(&mut objects, "s", "s", pod);
    let own = NodeName::from("n1");
    let view = EgressView {
        own: &own,
        owner: &|_: IpAddr| Some(NodeName::from("n2")),
        route: &|_: &NodeName, _: IpAddr| Some(via("192.0.2.2")),
        has_announcer: &|node: &NodeName| &**node == "n2",
    };
    let plan = EgressPlan::new(&objects, [ip("192.0.2.100")].into_iter(), &view);
    assert_eq!(fault(&plan, "s"), None);
}

#[test]
fn fault_with_which_packets_leave_precedes_one_that_drops_them() {
    let mut objects = with_nodes();
    add(
        &mut objects,
        "s",
        &["192.0.2.100"],
        &["10.244.1.7", "198.51.100.7"],
    );
    let unowned = plan(&objects, None);
    assert_eq!(
        fault(&unowned, "s"),
        Some(EgressFault::NoPodRange(ip("198.51.100.7")))
    );
}

#[test]
fn services_are_applied_with_the_addresses_of_this_node() {
    let mut objects = with_nodes();
    add(
        &mut objects,
        "s",
        &["192.0.2.100", "2001:db8::1"],
        &["10.244.1.7"],
    );
    add(&mut objects, "t", &["192.0.2.101"], &[]);
    add(&mut objects, "u", &[], &["10.244.1.8"]);
    let own = plan(&objects, Some("n1"));
    let key = |name: &str| ObjectKey::new("d", name);
    // Only families with Pods count.
    let expected = BTreeMap::from([
        (key("s"), ServiceEgress::Applied([ip("192.0.2.100")].into())),
        (key("t"), ServiceEgress::Applied(BTreeSet::new())),
        (key("u"), ServiceEgress::Fault(EgressFault::NoAddress("IPv4"))),
    ]);
    assert_eq!(own.services(&objects, None), expected);
    let other = plan(&objects, Some("n2")).services(&objects, None);
    assert_eq!(other[&key("s")], ServiceEgress::Applied(BTreeSet::new()));
    let refused = own.services(&objects, Some("no memory"));
    let expected = ServiceEgress::Fault(EgressFault::Kernel("no memory".to_owned()));
    assert_eq!(refused.len(), 3);
    assert!(refused.values().all(|service| *service == expected));
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
