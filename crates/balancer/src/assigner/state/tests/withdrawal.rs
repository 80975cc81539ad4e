//! Withdrawal of addresses: no other Service gets an address that a status still names.

use super::*;

/// Nodes serve the addresses in the status of a Service until the Service is gone.
#[test]
fn deleted_service_that_a_finalizer_keeps_loses_its_address() {
    let mut fixture = Fixture::with_pool(&["192.0.2.1/32"]);
    let mut kept = load_balancer("a", json!({}));
    kept.metadata.finalizers.push("example.com/kept".to_owned());
    fixture.apply(kept);
    assert_eq!(fixture.addresses("a"), ["192.0.2.1"]);
    fixture.apply(load_balancer("b", json!({})));
    let mut going = fixture.service("a");
    going.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    fixture.apply(going);
    assert_eq!(fixture.service("a").metadata.finalizers, ["example.com/kept"]);
    assert_eq!(fixture.addresses("a"), [""; 0]);
    assert_eq!(fixture.addresses("b"), ["192.0.2.1"]);
}

/// Only the assigner before the restart serves the edge.
#[test]
fn service_of_a_class_that_is_no_longer_served_loses_its_address() {
    let mut before = Fixture::with_pool(&["192.0.2.1/32"]);
    before.state.options.has_edges = true;
    before.apply(load_balancer("a", json!({"loadBalancerClass": EDGE_CLASS})));
    assert_eq!(before.addresses("a"), ["192.0.2.1"]);
    let mut after = Fixture::new();
    after.version = 1_000;
    after.apply(before.service("a"));
    after.apply(load_balancer("b", json!({})));
    after.pool("p", &["192.0.2.1/32"], json!({}));
    after.initialize();
    assert_eq!(after.addresses("a"), [""; 0]);
    assert_eq!(after.addresses("b"), ["192.0.2.1"]);
}

/// Nodes serve an address that cannot be removed from the status.
#[test]
fn address_stays_allocated_until_the_status_lacks_it() {
    let mut fixture = Fixture::with_pool(&["192.0.2.1/32"]);
    fixture.apply(load_balancer("a", json!({})));
    let requests = "portolan.dev/load-balancer-ips";
    let value = "x".repeat(100_000);
    let mut invalid = annotated(fixture.service("a"), &[(requests, value.as_str())]);
    invalid.metadata.resource_version = "1000".to_owned();
    let key = invalid.metadata.key();
    fixture.state.apply_service(invalid);
    let (update, _) = fixture.state.reconcile(&key);
    assert!(update.is_some(), "the write of this update fails");
    fixture.apply(load_balancer("b", json!({})));
    assert_eq!(fixture.addresses("b"), [""; 0]);
    fixture.version = 1_000;
    fixture.run(vec![WorkItem::Service(key)]);
    assert_eq!(fixture.addresses("a"), [""; 0]);
    assert!(fixture.failure("a").len() < 5_000, "the reason is bounded");
    assert_eq!(fixture.addresses("b"), ["192.0.2.1"]);
}

#[test]
fn former_address_stays_allocated_until_the_status_lacks_it() {
    let mut fixture = Fixture::with_pool(&["192.0.2.1/32", "192.0.2.2/32"]);
    let requests = "portolan.dev/load-balancer-ips";
    fixture.apply(load_balancer("a", json!({})));
    assert_eq!(fixture.addresses("a"), ["192.0.2.1"]);
    let mut moved = annotated(fixture.service("a"), &[(requests, "192.0.2.2")]);
    moved.metadata.resource_version = "1000".to_owned();
    let key = moved.metadata.key();
    fixture.state.apply_service(moved);
    let (update, _) = fixture.state.reconcile(&key);
    assert!(update.is_some(), "the write of this update fails");
    fixture.apply(annotated(
        load_balancer("b", json!({})),
        &[(requests, "192.0.2.1")],
    ));
    assert_eq!(fixture.addresses("b"), [""; 0]);
    fixture.version = 1_000;
    fixture.run(vec![WorkItem::Service(key)]);
    assert_eq!(fixture.addresses("a"), ["192.0.2.2"]);
    assert_eq!(fixture.addresses("b"), ["192.0.2.1"]);
}

#[test]
fn withdraws_the_address_when_a_restriction_becomes_invalid() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.state.options.has_edges = true;
    let ranges = "service.beta.kubernetes.io/azure-allowed-ip-ranges";
    fixture.apply(annotated(
        load_balancer("a", json!({})),
        &[(ranges, "198.51.100.0/24")],
    ));
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
    let invalid = annotated(fixture.service("a"), &[(ranges, "198.51.100.0/240")]);
    fixture.apply(invalid);
    assert_eq!(fixture.addresses("a"), [""; 0]);
    assert!(fixture.failure("a").contains(ranges), "{}", fixture.failure("a"));
    let corrected = annotated(fixture.service("a"), &[(ranges, "198.51.100.0/24")]);
    fixture.apply(corrected);
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
}

const SHARING_KEY: &str = "portolan.dev/allow-shared-ip";

/// A Service that shares its address under a key.
fn shared(name: &str, port: u16) -> Service {
    let ports = json!({"ports": [{"port": port, "protocol": "TCP"}]});
    annotated(load_balancer(name, ports), &[(SHARING_KEY, "k")])
}

/// The changed Service is the first one by name.
#[test]
fn restart_withdraws_an_address_from_the_service_that_stops_sharing_it() {
    let mut before = Fixture::with_pool(&["192.0.2.0/24"]);
    before.apply(shared("a", 80));
    before.apply(shared("b", 443));
    assert_eq!(before.addresses("b"), before.addresses("a"));
    let mut changed = before.service("a");
    changed.metadata.annotations.remove(SHARING_KEY);
    changed.metadata.resource_version = "1000".to_owned();
    let mut after = Fixture::new();
    after.version = 1_000;
    after.state.apply_service(changed);
    after.state.apply_service(before.service("b"));
    after.pool("p", &["192.0.2.0/24"], json!({}));
    after.initialize();
    assert_eq!(after.addresses("b"), ["192.0.2.0"]);
    assert_eq!(after.addresses("a"), ["192.0.2.1"]);
}

#[test]
fn waiting_service_shares_an_address_whose_holder_changes_its_port() {
    let mut fixture = Fixture::with_pool(&["192.0.2.1/32"]);
    fixture.apply(shared("a", 80));
    fixture.apply(shared("b", 80));
    assert_eq!(fixture.addresses("b"), [""; 0]);
    let mut changed = fixture.service("a");
    changed.spec.ports[0].port = 443;
    fixture.apply(changed);
    assert_eq!(fixture.addresses("a"), ["192.0.2.1"]);
    assert_eq!(fixture.addresses("b"), ["192.0.2.1"]);
}

#[test]
fn services_share_an_address_after_both_change_to_policy_local() {
    let mut fixture = Fixture::with_pool(&["192.0.2.1/32"]);
    fixture.apply(shared("a", 80));
    fixture.apply(shared("b", 443));
    for name in ["a", "b"] {
        let mut changed = fixture.service(name);
        changed.spec.external_traffic_policy = "Local".to_owned();
        fixture.apply(changed);
    }
    assert_eq!(fixture.addresses("a"), ["192.0.2.1"]);
    assert_eq!(fixture.addresses("b"), ["192.0.2.1"]);
}
