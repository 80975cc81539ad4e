use serde_json::{Value, json};

use super::*;

fn node(name: &str, is_cordoned: bool, labels: Value) -> Node {
    let node = json!({"metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": is_cordoned}});
    serde_json::from_value(node).unwrap()
}

fn service(name: &str, policy: &str, ip: &str, is_assigned: bool) -> Service {
    let status = if is_assigned { "True" } else { "False" };
    let service = json!({
        "metadata": {"namespace": "d", "name": name, "uid": name},
        "spec": {"type": "LoadBalancer", "externalTrafficPolicy": policy},
        "status": {
            "loadBalancer": {"ingress": [{"ip": ip}]},
            "conditions": [{"type": ASSIGNED_CONDITION, "status": status}],
        },
    });
    serde_json::from_value(service).unwrap()
}

fn slice(name: &str, service: &str, endpoints: &[(&str, bool, bool)]) -> EndpointSlice {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(node, is_ready, is_serving)| {
            json!({"addresses": ["10.0.0.1"], "nodeName": node,
                   "conditions": {"ready": is_ready, "serving": is_serving}})
        })
        .collect();
    let slice = json!({
        "metadata": {"namespace": "d", "name": name, "labels": {SERVICE_NAME_LABEL: service}},
        "addressType": "IPv4", "endpoints": endpoints,
    });
    serde_json::from_value(slice).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn names(nodes: &BTreeSet<NodeName>) -> Vec<&str> {
    nodes.iter().map(|name| &**name).collect()
}

/// Three nodes, and a pool of all addresses of the tests.
fn three_nodes() -> DesiredAnnouncements {
    let mut desired = DesiredAnnouncements::default();
    let pool =
        json!({"metadata": {"name": "all"}, "spec": {"addresses": ["192.0.2.0/24", "198.51.100.0/24"]}});
    desired.apply_pool(&serde_json::from_value(pool).unwrap());
    for name in ["a", "b", "c"] {
        desired.apply_node(&node(name, false, json!({})));
    }
    desired
}

#[test]
fn request_of_two_tier_forwarding_concerns_the_addresses_of_the_service() {
    let mut desired = three_nodes();
    let mut forwarded = service("forwarded", "Cluster", "192.0.2.5", true);
    let annotations = &mut forwarded.metadata.annotations;
    annotations.insert(two_tier::TWO_TIER_ANNOTATION.to_owned(), "true".to_owned());
    desired.apply_service(&forwarded);
    let mut of_pool = service("of-pool", "Cluster", "192.0.2.8", true);
    let annotations = &mut of_pool.metadata.annotations;
    annotations.insert(two_tier::POOL_TWO_TIER_ANNOTATION.to_owned(), "true".to_owned());
    desired.apply_service(&of_pool);
    desired.apply_service(&service("other", "Cluster", "192.0.2.6", true));
    assert!(desired.requests_two_tier(ip("192.0.2.5")));
    assert!(!desired.requests_two_tier(ip("192.0.2.6")));
    assert!(!desired.requests_two_tier(ip("192.0.2.7")));
    assert!(desired.requests_two_tier(ip("192.0.2.8")));
}

#[test]
fn announces_only_assigned_addresses() {
    let mut desired = three_nodes();
    assert!(
        desired
            .apply_service(&service("s", "Cluster", "192.0.2.1", false))
            .is_empty()
    );
    assert_eq!(desired.candidates(ip("192.0.2.1")), None);
    let touched = desired.apply_service(&service("s", "Cluster", "192.0.2.1", true));
    assert_eq!(touched, BTreeSet::from([ip("192.0.2.1")]));
    assert!(
        desired
            .apply_service(&service("s", "Cluster", "192.0.2.1", true))
            .is_empty()
    );
    let moved = desired.apply_service(&service("s", "Cluster", "192.0.2.2", true));
    assert_eq!(moved.len(), 2);
    assert_eq!(desired.candidates(ip("192.0.2.1")), None);
    assert_eq!(desired.remove_service(&ObjectKey::new("d", "s")).len(), 1);
    assert_eq!(desired.candidates(ip("192.0.2.2")), None);
}

#[test]
fn cordoned_nodes_are_the_last_choice_and_excluded_ones_none() {
    let mut desired = three_nodes();
    desired.apply_service(&service("s", "Cluster", "192.0.2.1", true));
    let excluded = json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""});
    assert_eq!(desired.apply_node(&node("a", false, excluded)).len(), 1);
    assert_eq!(desired.apply_node(&node("b", true, json!({}))).len(), 1);
    assert!(desired.apply_node(&node("b", true, json!({"x": "y"}))).is_empty());
    let candidates = desired.candidates(ip("192.0.2.1")).unwrap();
    assert_eq!(names(&candidates.preferred), ["c"]);
    assert_eq!(names(&candidates.fallback), ["b"]);
    assert_eq!(desired.remove_node("c").len(), 1);
    assert!(desired.candidates(ip("192.0.2.1")).unwrap().preferred.is_empty());
}

#[test]
fn policy_local_limits_candidates_to_nodes_with_endpoints() {
    let mut desired = three_nodes();
    desired.apply_service(&service("s", "Local", "192.0.2.1", true));
    let preferred = |desired: &DesiredAnnouncements| -> Vec<String> {
        let candidates = desired.candidates(ip("192.0.2.1")).unwrap();
        names(&candidates.preferred)
            .into_iter()
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(preferred(&desired), [""; 0]);
    let ready = slice("s-1", "s", &[("a", true, true), ("b", false, true)]);
    assert_eq!(desired.apply_slice(&ready).len(), 1);
    assert!(
        desired.apply_slice(&ready).is_empty(),
        "an unchanged slice affects no address"
    );
    assert_eq!(preferred(&desired), ["a"]);
    desired.apply_slice(&slice(
        "s-2",
        "s",
        &[("c", true, true), ("elsewhere", true, true)],
    ));
    assert_eq!(preferred(&desired), ["a", "c"]);
    desired.apply_slice(&slice("s-1", "s", &[("a", false, true)]));
    assert_eq!(desired.remove_slice(&ObjectKey::new("d", "s-2")).len(), 1);
    assert_eq!(preferred(&desired), ["a"], "a terminating endpoint still serves");
    desired.apply_slice(&slice("s-1", "s", &[("a", false, false)]));
    assert_eq!(preferred(&desired), [""; 0]);
}

#[test]
fn services_that_share_an_address_are_announced_together() {
    let mut desired = three_nodes();
    desired.apply_service(&service("s", "Cluster", "192.0.2.1", true));
    desired.apply_service(&service("t", "Cluster", "192.0.2.1", true));
    let uids: Vec<&str> = desired.services_of(ip("192.0.2.1")).map(|(_, uid)| uid).collect();
    assert_eq!(uids, ["s", "t"]);
    desired.remove_service(&ObjectKey::new("d", "s"));
    assert!(desired.candidates(ip("192.0.2.1")).is_some());
}

#[test]
fn annotations_select_nodes_by_labels() {
    let mut desired = three_nodes();
    let mut chosen = service("s", "Cluster", "192.0.2.1", true);
    for (name, value) in [
        (
            "service.beta.kubernetes.io/aws-load-balancer-target-node-labels",
            "role=edge",
        ),
        ("load-balancer.hetzner.cloud/node-selector", "zone in (x, y)"),
    ] {
        chosen
            .metadata
            .annotations
            .insert(name.to_owned(), value.to_owned());
    }
    desired.apply_service(&chosen);
    desired.apply_service(&service("t", "Cluster", "192.0.2.2", true));
    let preferred = |desired: &DesiredAnnouncements, address: &str| {
        let candidates = desired.candidates(ip(address)).unwrap();
        names(&candidates.preferred).join(" ")
    };
    assert_eq!(preferred(&desired, "192.0.2.1"), "");
    let touched = desired.apply_node(&node("b", false, json!({"role": "edge", "zone": "y"})));
    assert_eq!(touched, BTreeSet::from([ip("192.0.2.1")]));
    desired.apply_node(&node("c", false, json!({"role": "edge", "zone": "z"})));
    assert_eq!(preferred(&desired, "192.0.2.1"), "b");
    assert_eq!(preferred(&desired, "192.0.2.2"), "a b c");
}

#[test]
fn addresses_of_the_edge_are_known() {
    let mut desired = three_nodes();
    let mut proxied = service("s", "Cluster", "192.0.2.1", true);
    proxied.status.load_balancer.ingress[0].ip_mode = Some("Proxy".to_owned());
    desired.apply_service(&proxied);
    desired.apply_service(&service("t", "Cluster", "192.0.2.2", true));
    assert!(desired.needs_edge(ip("192.0.2.1")));
    assert!(!desired.needs_edge(ip("192.0.2.2")));
    let requirements = |address: &str| desired.candidates(ip(address)).unwrap().requirements;
    assert!(requirements("192.0.2.1").edge && requirements("192.0.2.2").is_empty());
}

fn pool(name: &str, spec: Value) -> AddressPool {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

#[test]
fn pools_select_nodes_by_labels() {
    let mut desired = three_nodes();
    for (service_name, address) in [("s", "192.0.2.1"), ("t", "198.51.100.1")] {
        desired.apply_service(&service(service_name, "Cluster", address, true));
    }
    let preferred = |desired: &DesiredAnnouncements, address: &str| {
        let candidates = desired.candidates(ip(address)).unwrap();
        names(&candidates.preferred).join(" ")
    };
    let selectors = json!([{"matchLabels": {"role": "edge"}}, {"matchLabels": {"zone": "x"}}]);
    let office = pool(
        "office",
        json!({"addresses": ["192.0.2.0/24"], "nodeSelectors": selectors}),
    );
    assert_eq!(
        desired.apply_pool(&office),
        Some(BTreeSet::from([ip("192.0.2.1")]))
    );
    let mut counted = office.clone();
    counted
        .status
        .usage
        .push(api::object::AddressPoolUsage::default());
    assert_eq!(
        desired.apply_pool(&counted),
        None,
        "an unchanged object affects no address"
    );
    assert_eq!(preferred(&desired, "192.0.2.1"), "");
    assert_eq!(preferred(&desired, "198.51.100.1"), "a b c");
    let touched = desired.apply_node(&node("b", false, json!({"role": "edge"})));
    assert_eq!(touched, BTreeSet::from([ip("192.0.2.1")]));
    assert!(
        desired
            .apply_node(&node("b", false, json!({"role": "edge"})))
            .is_empty()
    );
    desired.apply_node(&node("c", false, json!({"zone": "x"})));
    assert_eq!(preferred(&desired, "192.0.2.1"), "b c");

    // A second pool with the address restricts the candidates further, and so do endpoints.
    let inner = pool(
        "inner",
        json!({"addresses": ["192.0.2.1/32"], "nodeSelectors": [{"matchLabels": {"zone": "x"}}]}),
    );
    assert_eq!(desired.apply_pool(&inner).map(|touched| touched.len()), Some(1));
    assert_eq!(preferred(&desired, "192.0.2.1"), "c");
    desired.apply_service(&service("s", "Local", "192.0.2.1", true));
    assert_eq!(preferred(&desired, "192.0.2.1"), "");
    desired.apply_slice(&slice("s-1", "s", &[("b", true, true), ("c", true, true)]));
    assert_eq!(preferred(&desired, "192.0.2.1"), "c");
    assert_eq!(desired.remove_pool("inner").map(|touched| touched.len()), Some(1));
    assert_eq!(desired.remove_pool("inner"), None);
    assert_eq!(preferred(&desired, "192.0.2.1"), "b c");
    // An unreadable one has no effect any more.
    let unreadable = pool(
        "office",
        json!({"addresses": ["192.0.2.0/24"], "nodeSelectors": [{"matchLabels": {"-": "x"}}]}),
    );
    assert_eq!(
        desired.apply_pool(&unreadable).map(|touched| touched.len()),
        Some(1)
    );
}

#[test]
fn pools_select_links() {
    let mut desired = three_nodes();
    desired.apply_service(&service("s", "Cluster", "192.0.2.1", true));
    let requirements =
        |desired: &DesiredAnnouncements| desired.candidates(ip("192.0.2.1")).unwrap().requirements;
    assert!(requirements(&desired).is_empty() && desired.required_links().is_empty());
    let office = pool(
        "office",
        json!({"addresses": ["192.0.2.0/24"], "interfaces": ["eth1"]}),
    );
    let far = pool(
        "far",
        json!({"addresses": ["198.51.100.0/24"], "interfaces": ["eth2"]}),
    );
    assert_eq!(desired.apply_pool(&far), Some(BTreeSet::new()));
    desired.apply_pool(&office);
    let id = desired.links(ip("192.0.2.1")).id();
    assert!(id.is_some() && requirements(&desired).links == id);
    assert_eq!(
        desired.required_links().into_keys().next(),
        id,
        "of addresses that there are"
    );
    assert_eq!(
        (desired.required_links().len(), desired.pool_links().len()),
        (1, 2)
    );
    assert_eq!(desired.links(ip("192.0.3.1")), AddressLinks::default());
}

#[test]
fn withholds_addresses_outside_of_pools() {
    let mut desired = three_nodes();
    desired.apply_service(&service("s", "Cluster", "203.0.113.7", true));
    assert_eq!(desired.candidates(ip("203.0.113.7")), None);
    assert_eq!(desired.withheld(ip("203.0.113.7")), Some(Withheld::NoPool));
    let pool = json!({"metadata": {"name": "more"}, "spec": {"addresses": ["203.0.113.0/24"]}});
    let pool = serde_json::from_value(pool).unwrap();
    assert_eq!(desired.apply_pool(&pool).unwrap().len(), 1);
    assert_eq!(
        desired.apply_pool(&pool),
        None,
        "an unchanged object affects no address"
    );
    assert!(desired.candidates(ip("203.0.113.7")).is_some());
    assert_eq!(desired.remove_pool("more").unwrap().len(), 1);
    assert_eq!(desired.candidates(ip("203.0.113.7")), None);
}

#[test]
fn withholds_addresses_of_nodes_of_this_host_and_of_its_gateway() {
    let mut desired = three_nodes();
    let address = ip("192.0.2.1");
    desired.apply_service(&service("s", "Cluster", "192.0.2.1", true));
    let mut claiming = node(
        "b",
        false,
        json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""}),
    );
    claiming.status.addresses = vec![api::object::NodeAddress {
        kind: "ExternalIP".to_owned(),
        address: "192.0.2.1".to_owned(),
    }];
    assert!(desired.apply_node(&claiming).contains(&address));
    assert_eq!(desired.withheld(address), Some(Withheld::NodeAddress("b".into())));
    assert_eq!(desired.candidates(address), None);
    assert!(desired.remove_node("b").contains(&address));
    assert!(desired.candidates(address).is_some());

    let (none, some) = (BTreeSet::new(), BTreeSet::from([address]));
    assert_eq!(desired.set_host_addresses(some.clone(), none.clone()), some);
    let withheld = desired.withheld(address);
    assert_eq!(withheld, Some(Withheld::HostAddress));
    assert_eq!(withheld.map(|reason| reason.label()), Some("this-host"));
    assert_eq!(desired.set_host_addresses(none.clone(), some.clone()), some);
    assert_eq!(desired.withheld(address), Some(Withheld::GatewayAddress));
    assert_eq!(
        desired.set_host_addresses(none.clone(), some.clone()),
        none,
        "an unchanged object affects no address"
    );
    assert_eq!(desired.set_host_addresses(none.clone(), none), some);
    assert!(desired.candidates(address).is_some());
}

/// MetalLB's objects: an IPAddressPool "public" of 203.0.113.0/24, and L2Advertisements.
fn metallb(advertisements: &[(&str, Value)]) -> Arc<Configuration> {
    let pool = json!({"metadata": {"name": "public"}, "spec": {"addresses": ["203.0.113.0/24"]}});
    let advertisements = advertisements.iter().map(|(name, spec)| {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        ((*name).to_owned(), serde_json::from_value(object).unwrap())
    });
    Arc::new(Configuration {
        pools: BTreeMap::from([("public".to_owned(), serde_json::from_value(pool).unwrap())]),
        advertisements: advertisements.collect(),
    })
}

/// LBM-09: nodes and links are those of the L2Advertisements.
#[test]
fn announces_metallb_pools_as_their_advertisements_select() {
    let mut desired = three_nodes();
    let address = ip("203.0.113.7");
    desired.apply_node(&node("b", false, json!({"role": "edge"})));
    desired.apply_service(&service("s", "Cluster", "203.0.113.7", true));
    assert_eq!(desired.withheld(address), Some(Withheld::NoPool));
    assert_eq!(
        desired.apply_metallb(metallb(&[])),
        Some(BTreeSet::from([address]))
    );
    assert_eq!(desired.withheld(address), Some(Withheld::NoAdvertisement));
    assert_eq!(desired.candidates(address), None);
    let on_edge = json!({
        "ipAddressPools": ["public"], "nodeSelectors": [{"matchLabels": {"role": "edge"}}], "interfaces": ["eth1"],
    });
    let advertised = metallb(&[("a", on_edge)]);
    let affected = desired.apply_metallb(Arc::clone(&advertised));
    assert_eq!(affected, Some(BTreeSet::from([address])));
    assert_eq!(
        desired.apply_metallb(advertised),
        None,
        "an unchanged object affects no address"
    );
    assert_eq!(names(&desired.candidates(address).unwrap().preferred), ["b"]);
    assert_eq!(desired.pool_links().len(), 1);
}

#[test]
fn address_pool_replaces_the_metallb_pool_of_the_same_name() {
    let mut desired = three_nodes();
    desired.apply_service(&service("s", "Cluster", "203.0.113.7", true));
    desired.apply_metallb(metallb(&[]));
    let pool = json!({"metadata": {"name": "public"}, "spec": {"addresses": ["203.0.113.0/25"]}});
    desired.apply_pool(&serde_json::from_value(pool).unwrap());
    assert!(desired.candidates(ip("203.0.113.7")).is_some());
    desired.remove_pool("public");
    assert_eq!(
        desired.withheld(ip("203.0.113.7")),
        Some(Withheld::NoAdvertisement)
    );
}

/// LBM-18: the flag admits nodes with the label.
#[test]
fn ignores_the_exclude_label_on_request() {
    let excluded = json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""});
    for (ignores, expected) in [(false, 0), (true, 1)] {
        let mut desired = DesiredAnnouncements::new(ignores);
        desired.apply_node(&node("a", false, excluded.clone()));
        assert_eq!(desired.uncordoned().len(), expected);
    }
}
