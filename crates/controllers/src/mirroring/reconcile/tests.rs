//! Properties of mirroring: its result is a fixpoint that matches the Endpoints.

use std::collections::{BTreeMap, BTreeSet};

use api::object::{AddressType, EndpointSlice, Endpoints, Service};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Inputs, SliceChanges, reconcile};
use crate::endpoint_slice::SliceWrite;
use crate::endpoint_slice::tests::fixtures::slices_after;

fn service(selector: Value) -> Service {
    serde_json::from_value(
        json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"selector": selector}}),
    )
    .expect("a Service")
}

fn endpoints(metadata: Value, subsets: Value) -> Endpoints {
    let mut endpoints: Endpoints =
        serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).expect("Endpoints");
    endpoints.metadata.name = "s".into();
    endpoints.metadata.namespace = "n".into();
    endpoints.metadata.uid = "endpoints-uid".into();
    endpoints
}

#[test]
fn slice_with_other_ports_keeps_its_name_and_generate_name() {
    let first = mirrored(&endpoints(json!({}), one_address()), &[], 0);
    let other = json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 81}]}]);
    let second = mirrored(&endpoints(json!({}), other), &first, 1);
    assert_eq!(second[0].metadata.name, first[0].metadata.name);
    assert_eq!(second[0].metadata.generate_name, "s-");
    assert_eq!(second[0].ports[0].port, Some(81));
}

fn one_address() -> Value {
    json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}])
}

fn changes(endpoints: &Endpoints, slices: &[EndpointSlice], max: usize) -> SliceChanges {
    let slices: Vec<&EndpointSlice> = slices.iter().collect();
    reconcile(&Inputs {
        endpoints: Some(endpoints),
        service: Some(&service(json!({}))),
        slices: &slices,
        endpoints_per_subset_max: max,
    })
}

fn mirrored(endpoints: &Endpoints, slices: &[EndpointSlice], round: usize) -> Vec<EndpointSlice> {
    slices_after(slices, changes(endpoints, slices, 1_000).writes, round)
}

fn endpoints_in(slices: &[EndpointSlice]) -> BTreeSet<(String, Option<bool>, Option<u16>)> {
    let mut endpoints_in = BTreeSet::new();
    for slice in slices {
        for endpoint in &slice.endpoints {
            let ports = slice.ports.iter().map(|port| port.port);
            endpoints_in.extend(
                ports.map(|port| (endpoint.addresses[0].to_string(), endpoint.conditions.ready, port)),
            );
        }
    }
    endpoints_in
}

#[test]
fn labels_and_annotations_are_mirrored_except_reserved_ones() {
    let slices = mirrored(
        &endpoints(
            json!({"labels": {"team": "a", "endpointslice.kubernetes.io/managed-by": "forged"},
                   "annotations": {"note": "b", "endpoints.kubernetes.io/last-change-trigger-time": "t",
                                   "kubectl.kubernetes.io/last-applied-configuration": "{}"}}),
            one_address(),
        ),
        &[],
        0,
    );
    let metadata = &slices[0].metadata;
    assert_eq!(metadata.labels["team"], "a");
    assert_eq!(
        metadata.labels["endpointslice.kubernetes.io/managed-by"],
        super::MANAGED_BY
    );
    assert_eq!(metadata.labels["kubernetes.io/service-name"], "s");
    assert_eq!(metadata.annotations.keys().collect::<Vec<_>>(), ["note"]);
    assert_eq!(
        metadata
            .controller()
            .map(|owner| (owner.kind.as_str(), owner.uid.as_str())),
        Some(("Endpoints", "endpoints-uid"))
    );
}

#[test]
fn families_have_slices_of_their_own() {
    let both = json!([{"addresses": [{"ip": "192.0.2.1"}], "notReadyAddresses": [{"ip": "2001:db8::1"}], "ports": [{"port": 80}]}]);
    let slices = mirrored(&endpoints(json!({}), both), &[], 0);
    let of = |family: AddressType| {
        slices
            .iter()
            .find(|slice| slice.address_type == family)
            .expect("a slice")
    };
    assert_eq!(of(AddressType::IPv4).endpoints[0].conditions.ready, Some(true));
    assert_eq!(of(AddressType::IPv6).endpoints[0].conditions.ready, Some(false));
    assert_eq!(of(AddressType::IPv4).endpoints[0].conditions.serving, None);
}

#[test]
fn slices_are_deleted_without_endpoints_to_mirror() {
    let slices = mirrored(&endpoints(json!({}), one_address()), &[], 0);
    let refs: Vec<&EndpointSlice> = slices.iter().collect();
    let left = |endpoints: Option<&Endpoints>, service: Option<&Service>| {
        let changes = reconcile(&Inputs {
            endpoints,
            service,
            slices: &refs,
            endpoints_per_subset_max: 1_000,
        });
        slices_after(&slices, changes.writes, 1).len()
    };
    let plain = endpoints(json!({}), one_address());
    let without = service(json!({}));
    assert_eq!(left(Some(&plain), Some(&without)), 1);
    assert_eq!(left(None, Some(&without)), 0);
    assert_eq!(left(Some(&plain), None), 0);
    assert_eq!(left(Some(&plain), Some(&service(json!({"app": "x"})))), 0);
    let skipped = endpoints(
        json!({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}),
        one_address(),
    );
    assert_eq!(left(Some(&skipped), Some(&without)), 0);
    let leader = endpoints(
        json!({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}),
        one_address(),
    );
    assert_eq!(left(Some(&leader), Some(&without)), 0);
}

#[test]
fn terminating_endpoints_get_no_new_slices() {
    let metadata = json!({"deletionTimestamp": "2030-01-01T00:00:00Z"});
    let deleted = endpoints(metadata, one_address());
    assert_eq!(changes(&deleted, &[], 10).writes, []);
    let alive = endpoints(json!({}), one_address());
    assert_eq!(changes(&alive, &[], 10).writes.len(), 1);
}

#[test]
fn skipped_addresses_are_reported() {
    let three = json!([{"addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}, {"ip": "nonsense"}],
                        "notReadyAddresses": [{"ip": "192.0.2.3"}, {"ip": "rubbish"}], "ports": [{"port": 80}]}]);
    let changes = changes(&endpoints(json!({}), three), &[], 2);
    let reasons: Vec<&str> = changes.events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["InvalidIPAddress", "TooManyAddressesToMirror"]);
    assert!(
        changes.events[0].message.contains("2 in all"),
        "one Event for all"
    );
    assert!(
        changes.events[1].message.contains("1 were skipped"),
        "{:?}",
        changes.events
    );
    assert_eq!(endpoints_in(&slices_after(&[], changes.writes, 0)).len(), 2);
}

#[test]
fn endpoints_of_a_terminating_slice_move_to_another() {
    let mut slices = mirrored(&endpoints(json!({}), one_address()), &[], 0);
    slices[0].metadata.deletion_timestamp = Some("2030-01-01T00:00:00Z".into());
    let writes = changes(&endpoints(json!({}), one_address()), &slices, 10).writes;
    assert!(matches!(writes.as_slice(), [SliceWrite::Create(_)]), "{writes:?}");
}

#[test]
fn changed_ports_update_the_existing_slice() {
    let slices = mirrored(&endpoints(json!({}), one_address()), &[], 0);
    let moved = endpoints(
        json!({}),
        json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 81}]}]),
    );
    let after = mirrored(&moved, &slices, 1);
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].metadata.name, slices[0].metadata.name);
    assert_eq!(after[0].ports[0].port, Some(81));
}

/// Generates Endpoints as a map from address to (ready, IPv6, other port).
fn world() -> impl Strategy<Value = BTreeMap<u8, (bool, bool, bool)>> {
    proptest::collection::btree_map(any::<u8>(), (any::<bool>(), any::<bool>(), any::<bool>()), 0..30)
}

fn address(number: u8, v6: bool) -> String {
    if v6 {
        format!("2001:db8::{number:x}")
    } else {
        format!("192.0.2.{number}")
    }
}

/// Returns the Endpoints of the map.
fn endpoints_of(world: &BTreeMap<u8, (bool, bool, bool)>) -> Endpoints {
    let subset = |(number, (ready, v6, other)): (&u8, &(bool, bool, bool))| {
        let list = if *ready { "addresses" } else { "notReadyAddresses" };
        let port = if *other { 81 } else { 80 };
        json!({list: [{"ip": address(*number, *v6)}], "ports": [{"port": port}]})
    };
    let subsets: Vec<Value> = world.iter().map(subset).collect();
    endpoints(json!({}), json!(subsets))
}

/// Returns the contents of each port set and family, by a model without slices.
fn sets_of(world: &BTreeMap<u8, (bool, bool, bool)>) -> BTreeMap<(bool, bool), BTreeSet<(u8, bool)>> {
    let mut sets: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (number, (ready, v6, other)) in world {
        sets.entry((*v6, *other)).or_default().insert((*number, *ready));
    }
    sets
}

proptest! {
    #[test]
    fn slices_converge_to_the_endpoints_after_any_history(history in proptest::collection::vec(world(), 1..6)) {
        let mut slices = Vec::new();
        for (round, world) in history.iter().enumerate() {
            let subsets: Vec<Value> = world.iter().map(|(n, (ready, v6, other))| {
                let list = if *ready { "addresses" } else { "notReadyAddresses" };
                json!({list: [{"ip": address(*n, *v6)}], "ports": [{"port": if *other { 81 } else { 80 }}]})
            }).collect();
            let endpoints = endpoints(json!({}), json!(subsets));
            slices = mirrored(&endpoints, &slices, round);
            let desired = world.iter().map(|(n, (ready, v6, other))|
                (address(*n, *v6), Some(*ready), Some(if *other { 81 } else { 80 })));
            prop_assert_eq!(endpoints_in(&slices), desired.collect::<BTreeSet<_>>());
            let sets: BTreeSet<_> = slices.iter().map(|slice| (slice.address_type, slice.ports[0].port)).collect();
            prop_assert_eq!(sets.len(), slices.len(), "one slice for each port set and family");
            prop_assert_eq!(changes(&endpoints, &slices, 1_000).writes, vec![], "the result is a fixpoint");
        }
    }

    #[test]
    fn writes_are_bounded_by_changed_sets(before in world(), after in world()) {
        let slices = mirrored(&endpoints_of(&before), &[], 0);
        let writes = changes(&endpoints_of(&after), &slices, 1_000).writes;
        let (before, after) = (sets_of(&before), sets_of(&after));
        let changed = after.iter().filter(|(set, members)| before.get(set).is_some_and(|earlier| earlier != *members)).count();
        // A slice of a removed set is reused for a new one of the same family.
        let mut moved = 0;
        for v6 in [false, true] {
            let gone = before.keys().filter(|set| set.0 == v6 && !after.contains_key(set)).count();
            let came = after.keys().filter(|set| set.0 == v6 && !before.contains_key(set)).count();
            moved += gone.max(came);
        }
        prop_assert_eq!(writes.len(), changed + moved);
    }

    #[test]
    fn writes_converge_in_any_order_and_after_any_prefix(
        before in world(), after in world(), backwards: bool, done in 0usize..6,
    ) {
        let endpoints = endpoints_of(&after);
        let slices = mirrored(&endpoints_of(&before), &[], 0);
        let mut writes = changes(&endpoints, &slices, 1_000).writes;
        if backwards {
            writes.reverse();
        }
        writes.truncate(done);
        let half_way = slices_after(&slices, writes, 1);
        let end = mirrored(&endpoints, &half_way, 2);
        prop_assert_eq!(endpoints_in(&end), endpoints_in(&mirrored(&endpoints, &[], 0)));
        prop_assert_eq!(changes(&endpoints, &end, 1_000).writes, vec![]);
    }
}
