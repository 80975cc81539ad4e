//! MetalLB's pools in the assigner (LBM-01, LBM-05, LBM-07, LBM-09).

use super::*;
use crate::metallb::objects::{IpAddressPool, L2Advertisement};

/// Pools and L2Advertisements, by name and spec.
fn configuration(pools: &[(&str, Value)], advertisements: &[(&str, Value)]) -> Arc<Configuration> {
    let pools = pools.iter().map(|(name, spec)| {
        let metadata = json!({"name": name, "namespace": "metallb-system"});
        let pool: IpAddressPool = read(json!({"metadata": metadata, "spec": spec}));
        ((*name).to_owned(), pool)
    });
    let advertisements = advertisements.iter().map(|(name, spec)| {
        let advertisement: L2Advertisement = read(json!({"metadata": {"name": name}, "spec": spec}));
        ((*name).to_owned(), advertisement)
    });
    Arc::new(Configuration {
        pools: pools.collect(),
        advertisements: advertisements.collect(),
    })
}

/// An initialized fixture with pools that one L2Advertisement announces.
fn fixture(pools: &[(&str, Value)]) -> Fixture {
    let mut fixture = Fixture::new();
    fixture
        .state
        .apply_metallb(configuration(pools, &[("all", json!({}))]));
    fixture.initialize();
    fixture
}

fn message<'s>(service: &'s Service, kind: &str) -> &'s str {
    condition_message(service, kind)
}

#[test]
fn assigns_from_an_ip_address_pool_and_names_it() {
    let mut fixture = fixture(&[(
        "public",
        json!({"addresses": ["192.0.2.1/24"], "avoidBuggyIPs": true}),
    )]);
    fixture.apply(load_balancer("a", json!({})));
    let service = fixture.service("a");
    assert_eq!(
        fixture.addresses("a"),
        ["192.0.2.1"],
        "host bits of the CIDR are ignored"
    );
    assert_eq!(service.metadata.annotations[POOL_ANNOTATION], "public");
    assert_eq!(fixture.reasons(), ASSIGNED);
    let update = fixture.state.pool_update("public").expect("change of the status");
    let PoolUpdate::MetalLb { status, .. } = update else {
        panic!("expected the status of an IPAddressPool, found {update:?}");
    };
    assert_eq!((status.assigned_ipv4, status.available_ipv4), (1, 253));
}

#[test]
fn keeps_the_addresses_that_metallb_assigned() {
    let mut fixture = Fixture::new();
    let mut younger = load_balancer("a-younger", json!({}));
    younger.metadata.creation_timestamp = Some("2026-02-01T00:00:00Z".to_owned());
    fixture.apply(younger);
    let mut service = load_balancer("b", json!({}));
    service.metadata.creation_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    service
        .metadata
        .annotations
        .insert(POOL_ANNOTATION_BEFORE.to_owned(), "public".to_owned());
    service.status.load_balancer.ingress = vec![LoadBalancerIngress {
        ip: "192.0.2.0".to_owned(),
        ..LoadBalancerIngress::default()
    }];
    fixture.apply(service);
    let pools = [("public", json!({"addresses": ["192.0.2.0/24"]}))];
    fixture
        .state
        .apply_metallb(configuration(&pools, &[("all", json!({}))]));
    fixture.initialize();
    assert_eq!(fixture.addresses("b"), ["192.0.2.0"]);
    assert_eq!(fixture.addresses("a-younger"), ["192.0.2.1"]);
    let annotations = fixture.service("b").metadata.annotations;
    assert_eq!(annotations.keys().collect::<Vec<_>>(), [POOL_ANNOTATION]);
    assert!(has_finalizer(&fixture.service("b")));
}

#[test]
fn addresses_of_another_controller_stay_until_a_pool_has_them() {
    let mut fixture = Fixture::new();
    fixture.initialize();
    let mut service = load_balancer("a", json!({}));
    service.status.load_balancer.ingress = vec![LoadBalancerIngress {
        ip: "192.0.2.9".to_owned(),
        ..LoadBalancerIngress::default()
    }];
    fixture.apply(service);
    assert_eq!(fixture.addresses("a"), ["192.0.2.9"]);
    assert!(fixture.failure("a").starts_with("there is no AddressPool"));
    let pools = [("public", json!({"addresses": ["192.0.2.0/24"]}))];
    let work = fixture
        .state
        .apply_metallb(configuration(&pools, &[("all", json!({}))]));
    fixture.run(work);
    assert_eq!(fixture.addresses("a"), ["192.0.2.9"]);
    assert!(has_finalizer(&fixture.service("a")));
    assert_eq!(fixture.failure("a"), "");
}

#[test]
fn keeps_an_address_that_another_controller_writes_later() {
    let mut fixture = Fixture::new();
    fixture.initialize();
    let mut service = load_balancer("a", json!({}));
    service.status.load_balancer.ingress = vec![LoadBalancerIngress {
        ip: "192.0.2.9".to_owned(),
        ..LoadBalancerIngress::default()
    }];
    let pools = [("public", json!({"addresses": ["192.0.2.0/24"]}))];
    fixture
        .state
        .apply_metallb(configuration(&pools, &[("all", json!({}))]));
    fixture.apply(service);
    assert_eq!(fixture.addresses("a"), ["192.0.2.9"]);
}

#[test]
fn pools_of_some_services_come_first_by_priority() {
    let in_default = |priority: i64| json!({"priority": priority, "namespaces": ["default"]});
    let mut fixture = fixture(&[
        ("a-all", json!({"addresses": ["192.0.2.0/32"]})),
        (
            "b-last",
            json!({"addresses": ["192.0.2.1/32"], "serviceAllocation": in_default(0)}),
        ),
        (
            "c-second",
            json!({"addresses": ["192.0.2.2/32"], "serviceAllocation": in_default(20)}),
        ),
        (
            "d-first",
            json!({"addresses": ["192.0.2.3/32"], "serviceAllocation": in_default(10)}),
        ),
        (
            "e-other",
            json!({"addresses": ["192.0.2.4/32"], "serviceAllocation": {"namespaces": ["other"]}}),
        ),
        (
            "f-manual",
            json!({"addresses": ["192.0.2.5/32"], "autoAssign": false}),
        ),
    ]);
    for name in ["a", "b", "c", "d", "e"] {
        fixture.apply(load_balancer(name, json!({})));
    }
    let found: Vec<String> = ["a", "b", "c", "d"]
        .iter()
        .flat_map(|name| fixture.addresses(name))
        .collect();
    assert_eq!(found, ["192.0.2.3", "192.0.2.2", "192.0.2.1", "192.0.2.0"]);
    assert_eq!(fixture.addresses("e"), [""; 0]);
    let mut manual = load_balancer("f", json!({}));
    manual.metadata.annotations.insert(
        "metallb.universe.tf/address-pool".to_owned(),
        "f-manual".to_owned(),
    );
    fixture.apply(manual);
    assert_eq!(fixture.addresses("f"), ["192.0.2.5"]);
}

#[test]
fn namespace_matches_by_name_or_selector_and_service_by_any_selector() {
    let mut fixture = Fixture::new();
    fixture.state.apply_namespace(read(
        json!({"metadata": {"name": "team", "labels": {"team": "a"}}}),
    ));
    let allocation = json!({
        "namespaces": ["elsewhere"], "namespaceSelectors": [{"matchLabels": {"team": "a"}}],
        "serviceSelectors": [{"matchLabels": {"tier": "web"}}, {"matchLabels": {"tier": "api"}}],
    });
    let pools = [(
        "p",
        json!({"addresses": ["192.0.2.0/24"], "serviceAllocation": allocation}),
    )];
    fixture
        .state
        .apply_metallb(configuration(&pools, &[("all", json!({}))]));
    fixture.initialize();
    let place = |fixture: &mut Fixture, namespace: &str, tier: &str| {
        let name = format!("{namespace}-{tier}");
        let mut service = load_balancer(&name, json!({}));
        service.metadata.namespace = namespace.to_owned();
        service.metadata.labels.insert("tier".to_owned(), tier.to_owned());
        let key = service.metadata.key();
        fixture.apply(service);
        !addresses_of(fixture.state.service(&key).expect("cached Service")).is_empty()
    };
    assert!(place(&mut fixture, "elsewhere", "web"));
    assert!(place(&mut fixture, "team", "api"));
    assert!(!place(&mut fixture, "team", "database"));
    assert!(!place(&mut fixture, "default", "web"));
}

#[test]
fn pool_without_advertisement_is_assigned_and_reported_as_unannounced() {
    let mut fixture = Fixture::new();
    let pools = [("p", json!({"addresses": ["192.0.2.0/24"]}))];
    fixture.state.apply_metallb(configuration(&pools, &[]));
    fixture.initialize();
    fixture.apply(load_balancer("a", json!({})));
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
    let failure = "192.0.2.0 is announced by no node: no L2Advertisement selects IPAddressPool \"p\"";
    assert_eq!(message(&fixture.service("a"), ANNOUNCED_CONDITION), failure);
    let work = fixture
        .state
        .apply_metallb(configuration(&pools, &[("all", json!({}))]));
    fixture.run(work);
    assert_eq!(message(&fixture.service("a"), ANNOUNCED_CONDITION), "");
}

#[test]
fn address_pool_takes_the_place_of_an_ip_address_pool() {
    let mut fixture = fixture(&[("p", json!({"addresses": ["192.0.2.0/24"]}))]);
    fixture.pool("p", &["198.51.100.0/24"], json!({}));
    fixture.apply(load_balancer("a", json!({})));
    assert_eq!(fixture.addresses("a"), ["198.51.100.0"]);
    let work = fixture.state.remove_pool("p");
    fixture.run(work);
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
}

#[test]
fn missing_family_is_assigned_when_an_address_is_released() {
    let pools = [("p", json!({"addresses": ["192.0.2.0/24", "2001:db8::1/128"]}))];
    let mut fixture = fixture(&pools);
    let dual = json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"});
    fixture.apply(load_balancer("a", dual.clone()));
    assert_eq!(fixture.addresses("a"), ["192.0.2.0", "2001:db8::1"]);
    fixture.reasons();
    fixture.apply(load_balancer("b", dual));
    assert_eq!(fixture.addresses("b"), ["192.0.2.1"]);
    let reasons = fixture.reasons();
    assert!(reasons.contains(&"AdditionalAssignFailed"), "{reasons:?}");
    let work = fixture.state.remove_service(&ObjectKey::new("default", "a"));
    fixture.run(work);
    assert_eq!(fixture.addresses("b"), ["192.0.2.1", "2001:db8::1"]);
}

/// LBM-06.
#[test]
fn serves_configured_classes_instead_of_the_default() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.state.options.serves_default_class = false;
    fixture.state.options.classes = BTreeSet::from(["metallb".to_owned()]);
    fixture.apply(load_balancer("a", json!({"loadBalancerClass": "metallb"})));
    fixture.apply(load_balancer("b", json!({})));
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
    assert_eq!(fixture.addresses("b"), [""; 0]);
}

#[test]
fn reports_an_invalid_pool_in_its_status() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/33"]);
    let update = fixture.state.pool_update("p").expect("change of the status");
    let PoolUpdate::AddressPool { status, .. } = update else {
        panic!("expected the status of an AddressPool, found {update:?}");
    };
    let condition = &status.conditions[0];
    assert_eq!(
        (condition.kind.as_str(), condition.status.as_str()),
        ("Ready", "False")
    );
    assert!(
        condition.message.contains("192.0.2.0/33"),
        "{}",
        condition.message
    );
    fixture.apply(load_balancer("a", json!({})));
    assert_eq!(fixture.addresses("a"), [""; 0]);
}
