use super::*;

const RANGES: (&str, &str) = ("service.portolan.dev/port-ranges", "all");

/// A Service that shares its address, with a port of its own.
fn sharing(name: &str, port: u16, more: Value, annotations: &[(&str, &str)]) -> Service {
    let mut spec = more;
    spec["ports"] = json!([{"port": port, "protocol": "TCP"}]);
    let annotations = [annotations, &[("portolan.dev/allow-shared-ip", "k")]].concat();
    annotated(load_balancer(name, spec), &annotations)
}

#[test]
fn ranges_get_no_address_of_the_edge() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/31"]);
    fixture.state.options.has_edges = true;
    fixture.apply(sharing("a", 443, json!({"loadBalancerClass": EDGE_CLASS}), &[]));
    fixture.apply(sharing("b", 80, json!({}), &[RANGES]));
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
    assert_eq!(fixture.addresses("b"), ["192.0.2.1"]);
    let named = json!({"loadBalancerIP": "192.0.2.0"});
    fixture.apply(sharing("c", 81, named.clone(), &[RANGES]));
    assert_eq!(fixture.addresses("c"), [""; 0]);
    assert!(
        fixture.failure("c").contains("port ranges"),
        "{}",
        fixture.failure("c")
    );
    fixture.apply(sharing("c", 81, named, &[]));
    assert_eq!(fixture.addresses("c"), ["192.0.2.0"]);
    // The address is withdrawn when the ranges follow later.
    let changed = annotated(
        fixture.service("c"),
        &[RANGES, ("portolan.dev/allow-shared-ip", "k")],
    );
    fixture.apply(changed);
    assert_eq!(fixture.addresses("c"), [""; 0]);
}
