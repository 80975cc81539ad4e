//! Properties of the reconciliation: its result is a fixpoint that matches the Pods, with the fewest writes.

use std::collections::{BTreeMap, BTreeSet};

use api::object::{Pod, Service};
use proptest::prelude::*;
use serde_json::json;

use super::SliceWrite;
use crate::endpoint_slice::tests::fixtures::{
    ZONES, desired, endpoints, pod, service, service_with_selector, slices_after, writes,
};

#[test]
fn service_without_pods_keeps_one_empty_slice() {
    let service = service_with_selector();
    let slices = slices_after(&[], writes(&service, &[], &[], 100), 0);
    assert_eq!(slices.len(), 1);
    assert!(slices[0].endpoints.is_empty() && slices[0].ports.is_empty());
    assert_eq!(writes(&service, &[], &slices, 100), []);
    // The placeholder becomes the first slice, and the last slice becomes the placeholder.
    let pods = [pod(1, true, 80)];
    let filled = writes(&service, &pods, &slices, 100);
    assert!(matches!(filled.as_slice(), [SliceWrite::Update(_)]), "{filled:?}");
    let slices = slices_after(&slices, filled, 1);
    assert!(matches!(
        writes(&service, &[], &slices, 100).as_slice(),
        [SliceWrite::Update(_)]
    ));
}

#[test]
fn ports_that_each_pod_resolves_differently_are_bounded() {
    let ports = (1..=1_000).map(|port| json!({"name": format!("p{port}"), "port": port}));
    let named = json!({"name": "web", "port": 2_000, "targetPort": "web"});
    let ports: Vec<_> = ports.chain([named]).collect();
    let service = service(json!({"selector": {"app": "x"}, "ipFamilies": ["IPv4"], "ports": ports}));
    let different: Vec<Pod> = (0..300).map(|n| pod(n, true, 3_000 + n)).collect();
    // 199 lists of 1,001 ports are below the bound of 200,000.
    assert_eq!(writes(&service, &different, &[], 100).len(), 199);
    let equal: Vec<Pod> = (0..300).map(|n| pod(n, true, 3_000)).collect();
    assert_eq!(writes(&service, &equal, &[], 100).len(), 3);
}

/// EPS-08.
#[test]
fn pod_without_a_node_is_published_only_with_not_ready_addresses() {
    let mut without_node = pod(1, true, 80);
    without_node.spec.node_name.clear();
    let pods = [without_node, pod(2, true, 80)];
    let count = |service: &Service| {
        let slices = slices_after(&[], writes(service, &pods, &[], 100), 0);
        slices.iter().map(|slice| slice.endpoints.len()).sum::<usize>()
    };
    assert_eq!(count(&service_with_selector()), 1);
    let mut publishes = service_with_selector();
    publishes.spec.publish_not_ready_addresses = true;
    assert_eq!(count(&publishes), 2);
}

#[test]
fn readiness_is_written_in_place() {
    let service = service_with_selector();
    let pods: Vec<Pod> = (0..10).map(|number| pod(number, true, 80)).collect();
    let slices = slices_after(&[], writes(&service, &pods, &[], 4), 0);
    assert_eq!(slices.len(), 3);
    let mut flipped = pods;
    flipped[3] = pod(3, false, 80);
    let update = writes(&service, &flipped, &slices, 4);
    let [SliceWrite::Update(slice)] = update.as_slice() else {
        panic!("one update, not {update:?}")
    };
    assert!(
        slices
            .iter()
            .any(|existing| existing.metadata.name == slice.metadata.name)
    );
}

#[test]
fn unchanged_slice_is_filled_only_if_the_whole_remainder_fits() {
    let service = service_with_selector();
    let pods: Vec<Pod> = (0..6).map(|number| pod(number, true, 80)).collect();
    let slices = slices_after(&[], writes(&service, &pods, &[], 4), 0); // 4 + 2
    let more: Vec<Pod> = (0..8).map(|number| pod(number, true, 80)).collect();
    let two_more = writes(&service, &more, &slices, 4);
    assert!(
        matches!(two_more.as_slice(), [SliceWrite::Update(s)] if s.endpoints.len() == 4),
        "{two_more:?}"
    );
    let more: Vec<Pod> = (0..9).map(|number| pod(number, true, 80)).collect();
    let three_more = writes(&service, &more, &slices, 4);
    assert!(
        matches!(three_more.as_slice(), [SliceWrite::Create(s)] if s.endpoints.len() == 3),
        "{three_more:?}"
    );
}

/// EPS-14.
#[test]
fn slices_of_an_earlier_service_of_the_name_are_replaced() {
    let service = service_with_selector();
    let pods = [pod(1, true, 80)];
    let mut slices = slices_after(&[], writes(&service, &pods, &[], 100), 0);
    slices[0].metadata.owner_references[0].uid = "another".into();
    let after = slices_after(&slices, writes(&service, &pods, &slices, 100), 1);
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].metadata.owner_references[0].uid, "service-uid");
}

#[test]
fn endpoints_of_a_terminating_slice_move_to_another() {
    let service = service_with_selector();
    let pods = [pod(1, true, 80)];
    let mut slices = slices_after(&[], writes(&service, &pods, &[], 100), 0);
    slices[0].metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    let moved = writes(&service, &pods, &slices, 100);
    assert!(
        matches!(moved.as_slice(), [SliceWrite::Create(s)] if s.endpoints.len() == 1),
        "{moved:?}"
    );
}

#[test]
fn terminating_service_gets_no_new_slices_and_updates_existing_ones() {
    let mut service = service_with_selector();
    service.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    assert_eq!(writes(&service, &[pod(1, true, 80)], &[], 100), []);
    let slices = slices_after(
        &[],
        writes(&service_with_selector(), &[pod(1, true, 80)], &[], 100),
        0,
    );
    let followed = writes(&service, &[pod(1, true, 81)], &slices, 100);
    assert!(
        matches!(followed.as_slice(), [SliceWrite::Update(_)]),
        "{followed:?}"
    );
}

#[test]
fn pods_on_unknown_nodes_are_published_only_with_not_ready_addresses() {
    let mut lost = pod(1, true, 80);
    lost.spec.node_name = "elsewhere".into();
    assert_eq!(
        endpoints(&slices_after(
            &[],
            writes(&service_with_selector(), &[lost.clone()], &[], 100),
            0
        ))
        .len(),
        0
    );
    let mut publishes = service_with_selector();
    publishes.spec.publish_not_ready_addresses = true;
    assert_eq!(
        endpoints(&slices_after(&[], writes(&publishes, &[lost], &[], 100), 0)).len(),
        1
    );
}

#[test]
fn labels_follow_the_service_except_reserved_ones() {
    let mut service = service_with_selector();
    let pods = [pod(1, true, 80)];
    let slices = slices_after(&[], writes(&service, &pods, &[], 100), 0);
    service.metadata.labels.insert("team".into(), "a".into());
    service
        .metadata
        .labels
        .insert("kubernetes.io/service-name".into(), "forged".into());
    let slices = slices_after(&slices, writes(&service, &pods, &slices, 100), 1);
    assert_eq!(slices[0].metadata.labels["team"], "a");
    assert_eq!(slices[0].metadata.labels["kubernetes.io/service-name"], "s");
}

/// The varied properties of a Pod.
#[derive(Clone, Debug)]
struct Traits {
    ready: bool,
    other_port: bool,
    terminating: bool,
    zone: usize,
}

/// Pods by number.
type PodTraits = BTreeMap<u16, Traits>;

fn world() -> impl Strategy<Value = PodTraits> {
    let traits = (any::<bool>(), any::<bool>(), any::<bool>(), 0..ZONES.len());
    let traits = traits.prop_map(|(ready, other_port, terminating, zone)| Traits {
        ready,
        other_port,
        terminating,
        zone,
    });
    proptest::collection::btree_map(0u16..60, traits, 0..40)
}

fn pods_of(world: &PodTraits) -> Vec<Pod> {
    let of = |(number, traits): (&u16, &Traits)| {
        let mut pod = pod(*number, traits.ready, if traits.other_port { 81 } else { 80 });
        pod.spec.node_name = ZONES[traits.zone].0.to_owned();
        pod.metadata.deletion_timestamp = traits.terminating.then(|| "2026-01-01T00:00:00Z".to_owned());
        pod
    };
    world.iter().map(of).collect()
}

/// Generates Services with different settings for their Pods.
fn services() -> impl Strategy<Value = Service> {
    let distributions = [None, Some("PreferSameZone"), Some("PreferSameNode")];
    let families = [json!(["IPv4"]), json!(["IPv6"]), json!(["IPv4", "IPv6"])];
    (
        any::<bool>(),
        any::<bool>(),
        prop::sample::select(distributions.to_vec()),
        prop::sample::select(families.to_vec()),
    )
        .prop_map(|(publishes, auto, distribution, families)| {
            let mut service = service(json!({
                "selector": {"app": "x"}, "ipFamilies": families, "trafficDistribution": distribution,
                "publishNotReadyAddresses": publishes, "ports": [{"port": 80, "targetPort": "web"}]}));
            if auto {
                let mode = (
                    "service.kubernetes.io/topology-mode".to_owned(),
                    "Auto".to_owned(),
                );
                service.metadata.annotations.extend([mode]);
            }
            service
        })
}

/// Returns the writes in an order determined by the seed.
fn shuffled(mut writes: Vec<SliceWrite>, seed: u64) -> Vec<SliceWrite> {
    let mut state = seed | 1;
    for place in (1..writes.len()).rev() {
        // One step of xorshift64.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        writes.swap(place, usize::try_from(state % (place as u64 + 1)).expect("small"));
    }
    writes
}

fn slice_name(write: &SliceWrite) -> Option<&str> {
    match write {
        SliceWrite::Create(_) => None,
        SliceWrite::Update(slice) => Some(&slice.metadata.name),
        SliceWrite::Delete(meta) => Some(&meta.name),
    }
}

proptest! {
    #[test]
    fn slices_converge_to_the_pods_after_any_history(history in proptest::collection::vec(world(), 1..6), max in 1usize..12) {
        let service = service_with_selector();
        let mut slices = Vec::new();
        for (round, world) in history.iter().enumerate() {
            let pods = pods_of(world);
            slices = slices_after(&slices, writes(&service, &pods, &slices, max), round);
            prop_assert_eq!(endpoints(&slices), desired(&pods));
            prop_assert!(slices.iter().all(|slice| slice.endpoints.len() <= max));
            prop_assert!(!slices.is_empty());
        }
    }

    #[test]
    fn result_is_a_fixpoint_for_every_kind_of_service(
        service in services(), before in world(), after in world(), max in 1usize..12,
    ) {
        let slices = slices_after(&[], writes(&service, &pods_of(&before), &[], max), 0);
        let slices = slices_after(&slices, writes(&service, &pods_of(&after), &slices, max), 1);
        prop_assert_eq!(writes(&service, &pods_of(&after), &slices, max), vec![]);
    }

    #[test]
    fn writes_converge_in_any_order_and_after_any_prefix(
        service in services(), before in world(), after in world(), max in 1usize..12, seed: u64, done in 0usize..12,
    ) {
        let pods = pods_of(&after);
        let slices = slices_after(&[], writes(&service, &pods_of(&before), &[], max), 0);
        let all = shuffled(writes(&service, &pods, &slices, max), seed);
        let mut names: Vec<&str> = all.iter().filter_map(slice_name).collect();
        let writes_of_slices = names.len();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), writes_of_slices, "a slice is written once");
        let done = done.min(all.len());
        let half_way = slices_after(&slices, all[..done].to_vec(), 1);
        let rest = shuffled(writes(&service, &pods, &half_way, max), seed);
        let end = slices_after(&half_way, rest, 2);
        prop_assert_eq!(writes(&service, &pods, &end, max), vec![]);
        let whole = slices_after(&slices, all, 1);
        prop_assert_eq!(endpoints(&end), endpoints(&whole));
        prop_assert_eq!(writes(&service, &pods, &whole, max), vec![]);
    }

    #[test]
    fn endpoints_are_complete_between_two_writes(before in world(), after in world()) {
        let service = service_with_selector();
        let slices = slices_after(&[], writes(&service, &pods_of(&before), &[], 5), 0);
        let stays = |(number, traits): &(&u16, &Traits)| {
            after.get(*number).is_some_and(|now| now.other_port == traits.other_port)
        };
        let staying: Vec<String> = before.iter().filter(stays)
            .map(|(number, _)| pod(*number, true, 80).status.pod_ips[0].ip.clone()).collect();
        let mut now = slices.clone();
        for (round, write) in writes(&service, &pods_of(&after), &slices, 5).into_iter().enumerate() {
            now = slices_after(&now, vec![write], round + 1);
            let there: BTreeSet<String> = now.iter().flat_map(|slice| &slice.endpoints)
                .map(|endpoint| endpoint.addresses[0].to_string()).collect();
            prop_assert!(staying.iter().all(|address| there.contains(address)),
                "a Pod that stays lost its endpoint for a moment");
        }
    }
}
