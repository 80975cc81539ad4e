//! Pools of the nodes' own addresses (LBK-12, LBK-14, LBK-15).

use super::*;

fn node(name: &str, address: &str, is_ready: bool) -> Node {
    let status = if is_ready { "True" } else { "False" };
    read(json!({
        "metadata": {"name": name, "labels": {"name": name}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": status}],
        },
    }))
}

/// A fixture with two nodes and the pool "nodes" of their addresses.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.state.remove_node("node-1");
    initialize_with_nodes(&mut fixture);
    fixture
}

/// Starts an assigner with two nodes and the pool "nodes" of their addresses.
fn initialize_with_nodes(fixture: &mut Fixture) {
    add_nodes(fixture);
    let pool = json!({"metadata": {"name": "nodes"}, "spec": {"nodeAddresses": {"type": "InternalIP"}}});
    fixture.state.apply_pool(read(pool));
    fixture.initialize();
}

fn add_nodes(fixture: &mut Fixture) {
    for number in [1, 2] {
        let (name, address) = (format!("node-{number}"), format!("10.0.0.{number}"));
        fixture.state.apply_node(&node(&name, &address, true));
    }
}

fn on_port(name: &str, port: u16, more: Value) -> Service {
    let mut spec = more;
    spec["ports"] = json!([{"port": port, "protocol": "TCP"}]);
    load_balancer(name, spec)
}

fn slice(service: &str, nodes: &[&str]) -> EndpointSlice {
    let endpoints = nodes
        .iter()
        .map(|node| json!({"addresses": ["10.1.0.1"], "nodeName": node, "conditions": {"ready": true}}));
    read(json!({
        "metadata": {
            "namespace": "default", "name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4", "endpoints": endpoints.collect::<Vec<_>>(),
    }))
}

#[test]
fn assigns_the_addresses_of_all_ready_nodes() {
    let mut fixture = fixture();
    fixture.apply(on_port("a", 80, json!({})));
    assert_eq!(fixture.addresses("a"), ["10.0.0.1", "10.0.0.2"]);
    let service = fixture.service("a");
    assert_eq!(service.metadata.annotations[POOL_ANNOTATION], "nodes");
    assert_eq!(
        service.status.load_balancer.ingress[0].ip_mode.as_deref(),
        Some("VIP")
    );
    let reasons = [
        "EnsuringLoadBalancer",
        "EnsuredLoadBalancer",
        "UpdatedLoadBalancer",
    ];
    assert_eq!(fixture.reasons(), reasons);
    let work = fixture.state.apply_node(&node("node-2", "10.0.0.2", false));
    fixture.run(work);
    assert_eq!(fixture.addresses("a"), ["10.0.0.1"]);
    let work = fixture.state.apply_node(&node("node-3", "10.0.0.3", true));
    fixture.run(work);
    assert_eq!(fixture.addresses("a"), ["10.0.0.1", "10.0.0.3"]);
    let usage = fixture.state.pool_usage("nodes").expect("valid pool");
    assert_eq!((usage[0].total, usage[0].assigned), (2, 2));
}

#[test]
fn second_service_with_a_port_waits_for_it() {
    let mut fixture = fixture();
    fixture.apply(on_port("a", 80, json!({})));
    fixture.apply(on_port("b", 80, json!({})));
    fixture.apply(on_port("c", 443, json!({})));
    assert_eq!(fixture.addresses("b"), [""; 0]);
    assert_eq!(
        fixture.failure("b"),
        "port 80/TCP of the nodes is used by Service default/a: choose another port, or wait"
    );
    assert_eq!(fixture.addresses("c"), ["10.0.0.1", "10.0.0.2"]);
    let work = fixture.state.remove_service(&ObjectKey::new("default", "a"));
    fixture.run(work);
    assert_eq!(fixture.addresses("b"), ["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn restart_keeps_ports_of_nodes() {
    let mut before = fixture();
    before.apply(on_port("b", 80, json!({})));
    before.apply(on_port("a", 80, json!({})));
    let mut after = Fixture::new();
    for name in ["a", "b"] {
        after.apply(before.service(name));
    }
    initialize_with_nodes(&mut after);
    assert_eq!(after.addresses("b"), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(after.addresses("a"), [""; 0]);
    assert_eq!(after.reasons(), [""; 0]);
}

#[test]
fn services_get_no_ports_of_components() {
    let mut fixture = fixture();
    fixture.state.options.api_server_port = Some(8_443);
    let ports = [
        ("a", "TCP", 6_443),
        ("b", "TCP", 10_250),
        ("c", "UDP", 10_053),
        ("d", "TCP", 8_443),
    ];
    for (name, protocol, port) in ports {
        let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": port, "protocol": protocol}]);
        fixture.apply(load_balancer(name, json!({"ports": ports})));
        assert_eq!(fixture.addresses(name), [""; 0], "{port}");
        assert_eq!(
            fixture.failure(name),
            format!(
                "port {port}/{protocol} of the nodes belongs to a component of the cluster: choose another port, or a pool \
                 with addresses of its own"
            )
        );
    }
    fixture.apply(on_port("e", 8_080, json!({})));
    assert_eq!(fixture.addresses("e"), ["10.0.0.1", "10.0.0.2"]);
}

/// The waiting Service is the first one by name, and its user writes the annotation of the assigner.
#[test]
fn restart_gives_ports_of_nodes_to_no_service_that_waits() {
    let mut before = fixture();
    before.apply(on_port("b", 80, json!({})));
    before.apply(on_port("a", 80, json!({})));
    let mut after = Fixture::new();
    after.apply(annotated(before.service("a"), &[(POOL_ANNOTATION, "nodes")]));
    after.apply(before.service("b"));
    initialize_with_nodes(&mut after);
    assert_eq!(after.addresses("b"), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(after.addresses("a"), [""; 0]);
}

/// The pools overlap. The Service in the smaller one has changed last.
#[test]
fn restart_keeps_ports_of_two_pools_at_their_nodes() {
    let pools = |fixture: &mut Fixture| {
        add_nodes(fixture);
        let all = json!({"nodeAddresses": {"type": "InternalIP"}});
        let mut one = all.clone();
        one["nodeSelectors"] = json!([{"matchLabels": {"name": "node-1"}}]);
        for (name, spec) in [("all", all), ("one", one)] {
            let pool = json!({"metadata": {"name": name}, "spec": spec});
            fixture.state.apply_pool(read(pool));
        }
        fixture.initialize();
    };
    let in_pool = |name: &str, pool: &str| {
        let service = on_port(name, 80, json!({}));
        annotated(service, &[("portolan.dev/address-pool", pool)])
    };
    let mut before = Fixture::new();
    before.state.remove_node("node-1");
    pools(&mut before);
    before.apply(in_pool("b", "one"));
    before.apply(in_pool("a", "all"));
    assert_eq!(before.addresses("b"), ["10.0.0.1"]);
    assert_eq!(before.addresses("a"), ["10.0.0.2"]);
    let mut after = Fixture::new();
    after.state.remove_node("node-1");
    after.version = 1_000;
    after.apply(before.service("a"));
    after.apply(before.service("b"));
    pools(&mut after);
    assert_eq!(after.addresses("b"), ["10.0.0.1"]);
    assert_eq!(after.addresses("a"), ["10.0.0.2"]);
    assert_eq!(after.reasons(), [""; 0]);
}

#[test]
fn policy_local_lists_only_nodes_with_endpoints() {
    let mut fixture = fixture();
    fixture.state.slices_synced();
    fixture.state.apply_slice(&slice("a", &["node-2"]));
    fixture.apply(on_port("a", 80, json!({"externalTrafficPolicy": "Local"})));
    assert_eq!(fixture.addresses("a"), ["10.0.0.2"]);
    let work = fixture.state.apply_slice(&slice("a", &["node-1", "node-2"]));
    fixture.run(work);
    assert_eq!(fixture.addresses("a"), ["10.0.0.1", "10.0.0.2"]);
    let work = fixture.state.apply_slice(&slice("a", &[]));
    fixture.run(work);
    assert_eq!(fixture.addresses("a"), [""; 0]);
    assert!(
        fixture.failure("a").contains("has a ready endpoint"),
        "{}",
        fixture.failure("a")
    );
    // The Service keeps the port.
    fixture.apply(on_port("b", 80, json!({})));
    assert_eq!(fixture.addresses("b"), [""; 0]);
    let work = fixture.state.apply_slice(&slice("a", &["node-1"]));
    fixture.run(work);
    assert_eq!(fixture.addresses("a"), ["10.0.0.1"]);
}

#[test]
fn pool_with_ranges_comes_first_by_priority() {
    let mut fixture = fixture();
    fixture.pool("ranges", &["192.0.2.1/32"], json!({"priority": 10}));
    fixture.apply(on_port("a", 80, json!({})));
    fixture.apply(on_port("b", 80, json!({})));
    assert_eq!(fixture.addresses("a"), ["192.0.2.1"]);
    assert_eq!(
        fixture.addresses("b"),
        ["10.0.0.1", "10.0.0.2"],
        "the range is exhausted"
    );
    let work = fixture.state.remove_service(&ObjectKey::new("default", "a"));
    fixture.run(work);
    assert_eq!(
        fixture.addresses("b"),
        ["10.0.0.1", "10.0.0.2"],
        "the Service keeps its addresses"
    );
}

#[test]
fn services_of_the_edge_get_no_addresses_of_nodes() {
    let mut fixture = fixture();
    fixture.state.options.has_edges = true;
    fixture.apply(on_port("a", 80, json!({"loadBalancerClass": EDGE_CLASS})));
    assert_eq!(fixture.addresses("a"), [""; 0]);
    assert!(
        fixture.failure("a").contains("the edge"),
        "{}",
        fixture.failure("a")
    );
}

#[test]
fn rejects_a_pool_with_ranges_and_addresses_of_nodes() {
    let mut fixture = fixture();
    let spec = json!({"nodeAddresses": {"type": "InternalIP"}});
    fixture.pool("both", &["192.0.2.0/24"], spec);
    let update = fixture.state.pool_update("both").expect("change of the status");
    let PoolUpdate::AddressPool { status, .. } = update else {
        panic!("expected the status of an AddressPool, found {update:?}");
    };
    assert!(
        status.conditions[0].message.contains("found both"),
        "{:?}",
        status.conditions
    );
}
