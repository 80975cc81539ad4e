use super::*;

#[test]
fn server_without_ip_mode_gets_no_edge_addresses() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.drops_ip_mode = true;
    fixture.state.options.has_edges = true;
    fixture.apply(load_balancer("a", json!({})));
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"], "of the node proxies");
    let edge = json!({"loadBalancerClass": EDGE_CLASS});
    for name in ["b", "c"] {
        fixture.apply(load_balancer(name, edge.clone()));
        assert_eq!(fixture.addresses(name), [""; 0]);
        let reason = condition_message(&fixture.service(name), ASSIGNED_CONDITION).to_owned();
        assert!(reason.contains("does not store ipMode"), "{reason}");
    }
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
}
