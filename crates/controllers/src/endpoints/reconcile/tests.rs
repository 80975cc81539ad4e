//! Properties of the reconciliation: its result is a fixpoint that matches the Pods.

use std::collections::{BTreeMap, BTreeSet};

use api::object::{Endpoints, Pod, Service};
use proptest::prelude::*;
use serde_json::json;

use super::super::{MANAGED_BY, MANAGED_BY_LABEL, OVER_CAPACITY};
use super::{EndpointsWrite, Inputs, reconcile};
use crate::caches::PodFacts;
use crate::endpoint_slice::tests::fixtures::{facts, pod, service, service_with_selector};

fn write(service: &Service, pods: &[Pod], current: Option<&Endpoints>) -> Option<EndpointsWrite> {
    let pods = facts(pods);
    let pods: Vec<&PodFacts> = pods.iter().collect();
    reconcile(&Inputs {
        service,
        pods: &pods,
        current,
        trigger_time: None,
    })
}

/// Returns the Endpoints on the server after the write.
fn settled(service: &Service, pods: &[Pod], current: Option<&Endpoints>) -> Endpoints {
    match (write(service, pods, current), current) {
        (Some(EndpointsWrite::Create(endpoints)), None) => endpoints,
        (Some(EndpointsWrite::Update(endpoints)), Some(_)) => endpoints,
        (None, Some(current)) => current.clone(),
        (write, _) => panic!("{write:?} does not fit what is there"),
    }
}

fn addresses_in(endpoints: &Endpoints) -> BTreeSet<(String, bool, u16)> {
    let mut addresses_in = BTreeSet::new();
    for subset in &endpoints.subsets {
        for port in &subset.ports {
            let ready = subset
                .addresses
                .iter()
                .map(|address| (address.ip.to_string(), true, port.port));
            let unready = subset
                .not_ready_addresses
                .iter()
                .map(|address| (address.ip.to_string(), false, port.port));
            addresses_in.extend(ready.chain(unready));
        }
    }
    addresses_in
}

#[test]
fn ports_that_each_pod_resolves_differently_are_bounded() {
    let ports = (1..=1_000).map(|port| json!({"name": format!("p{port}"), "port": port}));
    let named = json!({"name": "web", "port": 2_000, "targetPort": "web"});
    let ports: Vec<_> = ports.chain([named]).collect();
    let service = service(json!({"selector": {"app": "x"}, "ipFamilies": ["IPv4"], "ports": ports}));
    let pods: Vec<Pod> = (0..300).map(|n| pod(n, true, 3_000 + n)).collect();
    let endpoints = settled(&service, &pods, None);
    let addresses = endpoints.subsets.iter().map(|subset| subset.addresses.len());
    assert_eq!(addresses.max(), Some(199));
}

#[test]
fn readiness_selects_the_list_unless_not_ready_addresses_are_published() {
    let pods = [pod(1, true, 80), pod(2, false, 80)];
    let endpoints = settled(&service_with_selector(), &pods, None);
    let desired = [
        ("10.0.0.2".to_owned(), true, 80),
        ("10.0.0.3".to_owned(), false, 80),
    ];
    assert_eq!(addresses_in(&endpoints), desired.into());
    assert_eq!(endpoints.metadata.labels[MANAGED_BY_LABEL], MANAGED_BY);
    let mut publishes = service_with_selector();
    publishes.spec.publish_not_ready_addresses = true;
    let endpoints = settled(&publishes, &pods, Some(&endpoints));
    assert!(addresses_in(&endpoints).iter().all(|(_, ready, _)| *ready));
}

#[test]
fn terminating_pods_are_published_only_with_not_ready_addresses() {
    let mut going = pod(1, true, 80);
    going.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    assert!(
        settled(&service_with_selector(), &[going.clone()], None)
            .subsets
            .is_empty()
    );
    let mut publishes = service_with_selector();
    publishes.spec.publish_not_ready_addresses = true;
    assert_eq!(addresses_in(&settled(&publishes, &[going], None)).len(), 1);
}

#[test]
fn addresses_are_of_the_first_family_and_in_canonical_form() {
    let mut v6 = service_with_selector();
    v6.spec.ip_families = vec!["IPv6".into(), "IPv4".into()];
    let mut pod = pod(1, true, 80);
    pod.status.pod_ips[1].ip = "fd00:0::1".into();
    let endpoints = settled(&v6, &[pod], None);
    assert_eq!(&*endpoints.subsets[0].addresses[0].ip, "fd00::1");
}

#[test]
fn headless_service_without_ports_has_addresses_without_ports() {
    let headless = service(json!({"selector": {"app": "x"}, "clusterIP": "None", "ipFamilies": ["IPv4"]}));
    let endpoints = settled(&headless, &[pod(1, true, 80)], None);
    assert!(endpoints.subsets[0].ports.is_empty() && endpoints.subsets[0].addresses.len() == 1);
    assert!(
        endpoints
            .metadata
            .labels
            .contains_key("service.kubernetes.io/headless")
    );
    let back = settled(&service_with_selector(), &[], Some(&endpoints));
    assert!(
        !back
            .metadata
            .labels
            .contains_key("service.kubernetes.io/headless")
    );
}

#[test]
fn excess_addresses_are_truncated_in_proportion_and_annotated() {
    let of = |ready: u16, unready: u16| -> Vec<Pod> {
        let all = 0..ready + unready;
        all.map(|number| pod(number, number < ready, 80 + number % 2))
            .collect()
    };
    let count = |endpoints: &Endpoints, ready: bool| {
        let found = addresses_in(endpoints);
        found.iter().filter(|(_, r, _)| *r == ready).count()
    };
    let cut = settled(&service_with_selector(), &of(900, 300), None);
    assert_eq!((count(&cut, true), count(&cut, false)), (900, 100));
    assert_eq!(cut.metadata.annotations[OVER_CAPACITY], "truncated");
    assert_eq!(
        write(&service_with_selector(), &of(900, 300), Some(&cut)),
        None,
        "cut ones are a fixpoint too"
    );
    let more = settled(&service_with_selector(), &of(1_200, 50), Some(&cut));
    assert_eq!((count(&more, true), count(&more, false)), (1_000, 0));
    assert_eq!(more.subsets[0].addresses.len(), 500);
    let fits = settled(&service_with_selector(), &of(1_000, 0), Some(&more));
    assert!(!fits.metadata.annotations.contains_key(OVER_CAPACITY));
}

#[test]
fn trigger_time_alone_causes_no_write() {
    let service = service_with_selector();
    let pods = facts(&[pod(1, true, 80)]);
    let pods: Vec<&PodFacts> = pods.iter().collect();
    let inputs = |current| Inputs {
        service: &service,
        pods: &pods,
        current,
        trigger_time: Some("2026-01-01T00:00:00Z"),
    };
    let Some(EndpointsWrite::Create(created)) = reconcile(&inputs(None)) else {
        panic!("Endpoints are created");
    };
    let annotation = "endpoints.kubernetes.io/last-change-trigger-time";
    assert_eq!(created.metadata.annotations[annotation], "2026-01-01T00:00:00Z");
    let mut before = created;
    before.metadata.annotations.clear();
    assert_eq!(reconcile(&inputs(Some(&before))), None);
}

/// Generates Pods as a map from number to (ready, other port).
fn world() -> impl Strategy<Value = BTreeMap<u16, (bool, bool)>> {
    proptest::collection::btree_map(0u16..60, (any::<bool>(), any::<bool>()), 0..40)
}

proptest! {
    #[test]
    fn endpoints_converge_to_the_pods_after_any_history(history in proptest::collection::vec(world(), 1..6)) {
        let service = service_with_selector();
        let mut current: Option<Endpoints> = None;
        for world in &history {
            let port = |other: bool| if other { 81 } else { 80 };
            let pods: Vec<Pod> = world.iter().map(|(n, (ready, other))| pod(*n, *ready, port(*other))).collect();
            let now = settled(&service, &pods, current.as_ref());
            let desired = world.iter().map(|(n, (ready, other))| (format!("10.0.0.{}", n + 1), *ready, port(*other)));
            prop_assert_eq!(addresses_in(&now), desired.collect::<BTreeSet<_>>());
            prop_assert_eq!(write(&service, &pods, Some(&now)), None, "the result is a fixpoint");
            current = Some(now);
        }
    }
}
