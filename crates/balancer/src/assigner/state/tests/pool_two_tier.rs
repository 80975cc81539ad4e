//! Two-tier forwarding by the annotation of a pool.

use super::*;
use crate::metallb::objects::{IpAddressPool, L2Advertisement};
use crate::two_tier::POOL_TWO_TIER_ANNOTATION;

/// Applies the recorded request of an update to the annotations of the Service.
pub(super) fn record(annotations: &mut Labels, update: &ServiceUpdate) {
    match update.pool_two_tier {
        Some(true) => drop(annotations.insert(POOL_TWO_TIER_ANNOTATION.to_owned(), "true".to_owned())),
        Some(false) => drop(annotations.remove(POOL_TWO_TIER_ANNOTATION)),
        None => {}
    }
}

/// An AddressPool with the annotation.
fn pool(value: &str) -> AddressPool {
    read(json!({
        "metadata": {"name": "p", "annotations": {TWO_TIER_ANNOTATION: value}},
        "spec": {"addresses": ["192.0.2.0/24"]},
    }))
}

/// MetalLB's objects: an IPAddressPool with the annotation, announced on all links.
fn configuration(value: &str) -> Arc<Configuration> {
    let pool: IpAddressPool = read(json!({
        "metadata": {"name": "p", "annotations": {TWO_TIER_ANNOTATION: value}},
        "spec": {"addresses": ["192.0.2.0/24"]},
    }));
    let advertisement: L2Advertisement = read(json!({"metadata": {"name": "all"}, "spec": {}}));
    Arc::new(Configuration {
        pools: BTreeMap::from([("p".to_owned(), pool)]),
        advertisements: BTreeMap::from([("all".to_owned(), advertisement)]),
    })
}

fn fixture(value: &str) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.state.apply_pool(pool(value));
    fixture.initialize();
    fixture.apply(load_balancer("a", json!({})));
    fixture
}

fn is_recorded(fixture: &Fixture) -> bool {
    let annotations = fixture.service("a").metadata.annotations;
    annotations.contains_key(POOL_TWO_TIER_ANNOTATION)
}

#[test]
fn request_of_a_pool_is_recorded_at_its_services() {
    let mut fixture = fixture("true");
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
    assert!(is_recorded(&fixture));
    assert!(two_tier::requests(&fixture.service("a")));
    for (value, is_expected) in [("false", false), ("true", true), ("yes", false)] {
        let work = fixture.state.apply_pool(pool(value));
        fixture.run(work);
        assert_eq!(is_recorded(&fixture), is_expected, "{value}");
        assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
    }
}

#[test]
fn request_of_an_ip_address_pool_is_recorded_at_its_services() {
    let mut fixture = Fixture::new();
    fixture.state.apply_metallb(configuration("true"));
    fixture.initialize();
    fixture.apply(load_balancer("a", json!({})));
    assert!(is_recorded(&fixture));
    let work = fixture.state.apply_metallb(configuration("false"));
    fixture.run(work);
    assert!(!is_recorded(&fixture));
}

#[test]
fn service_declines_the_request_of_its_pool() {
    let mut fixture = fixture("true");
    let mut service = fixture.service("a");
    let annotations = &mut service.metadata.annotations;
    annotations.insert(TWO_TIER_ANNOTATION.to_owned(), "false".to_owned());
    fixture.apply(service);
    assert!(is_recorded(&fixture));
    assert!(!two_tier::requests(&fixture.service("a")));
}

#[test]
fn record_is_removed_with_the_load_balancer() {
    let mut fixture = fixture("true");
    let mut service = fixture.service("a");
    service.spec.kind = "ClusterIP".to_owned();
    fixture.apply(service);
    assert!(!is_recorded(&fixture));
    assert_eq!(fixture.addresses("a"), [""; 0]);
}
