//! Properties of the reconcile: its result is a fixpoint that says what the Pods say, with no more
//! writes than needed.

use std::collections::{BTreeMap, BTreeSet};

use api::object::{EndpointSlice, Pod, Service};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Inputs, SliceWrite, reconcile};

fn service(spec: Value) -> Service {
    let metadata = json!({"name": "s", "namespace": "n", "uid": "service-uid", "labels": {"app": "x"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a Service")
}

fn plain() -> Service {
    service(
        json!({"selector": {"app": "x"}, "ipFamilies": ["IPv4"], "ports": [{"port": 80, "targetPort": "web"}]}),
    )
}

fn pod(number: u16, ready: bool, port: u16) -> Pod {
    let address = format!("10.0.{}.{}", number / 250, number % 250 + 1);
    serde_json::from_value(json!({
        "metadata": {"name": format!("p{number}"), "namespace": "n", "uid": format!("u{number}")},
        "spec": {"nodeName": "node", "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": address}],
                   "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}}))
    .expect("a Pod")
}

fn writes(service: &Service, pods: &[Pod], slices: &[EndpointSlice], max: usize) -> Vec<SliceWrite> {
    let pods: Vec<&Pod> = pods.iter().collect();
    let slices: Vec<&EndpointSlice> = slices.iter().collect();
    let known = |name: &str| (name == "node").then_some(Some("zone".to_owned()));
    let inputs = Inputs {
        service,
        pods: &pods,
        node_zones: &known,
        zone_cpus: &None,
        slices: &slices,
        endpoints_per_slice_max: max,
        trigger_time: None,
    };
    reconcile(&inputs).writes
}

/// What a server would hold after the writes.
fn applied(slices: &[EndpointSlice], writes: Vec<SliceWrite>, round: usize) -> Vec<EndpointSlice> {
    let mut by_name: BTreeMap<String, EndpointSlice> = slices
        .iter()
        .map(|s| (s.metadata.name.clone(), s.clone()))
        .collect();
    for (index, write) in writes.into_iter().enumerate() {
        match write {
            SliceWrite::Create(mut slice) => {
                slice.metadata.name = format!("s-{round}-{index}");
                by_name.insert(slice.metadata.name.clone(), slice);
            }
            SliceWrite::Update(slice) => {
                assert!(
                    by_name.insert(slice.metadata.name.clone(), slice).is_some(),
                    "an update of nothing"
                );
            }
            SliceWrite::Delete(name) => assert!(by_name.remove(&name).is_some(), "a deletion of nothing"),
        }
    }
    by_name.into_values().collect()
}

fn endpoints(slices: &[EndpointSlice]) -> BTreeSet<(String, Option<bool>, Option<u16>)> {
    let all = slices.iter().flat_map(|slice| {
        let port = slice.ports.first().and_then(|p| p.port);
        slice
            .endpoints
            .iter()
            .map(move |e| (e.addresses[0].to_string(), e.conditions.ready, port))
    });
    all.collect()
}

fn wanted(pods: &[Pod]) -> BTreeSet<(String, Option<bool>, Option<u16>)> {
    let of = |pod: &Pod| {
        let port = pod.spec.containers[0].ports[0].container_port;
        (pod.status.pod_ips[0].ip.clone(), Some(pod.is_ready()), Some(port))
    };
    pods.iter().map(of).collect()
}

#[test]
fn a_service_without_pods_keeps_one_empty_slice() {
    let service = plain();
    let slices = applied(&[], writes(&service, &[], &[], 100), 0);
    assert_eq!(slices.len(), 1);
    assert!(slices[0].endpoints.is_empty() && slices[0].ports.is_empty());
    assert_eq!(writes(&service, &[], &slices, 100), []);
    // The placeholder becomes the first real slice, and the last real slice the placeholder.
    let pods = [pod(1, true, 80)];
    let filled = writes(&service, &pods, &slices, 100);
    assert!(matches!(filled.as_slice(), [SliceWrite::Update(_)]), "{filled:?}");
    let slices = applied(&slices, filled, 1);
    assert!(matches!(
        writes(&service, &[], &slices, 100).as_slice(),
        [SliceWrite::Update(_)]
    ));
}

#[test]
fn readiness_is_written_in_place() {
    let service = plain();
    let pods: Vec<Pod> = (0..10).map(|n| pod(n, true, 80)).collect();
    let slices = applied(&[], writes(&service, &pods, &[], 4), 0);
    assert_eq!(slices.len(), 3);
    let mut flipped = pods;
    flipped[3] = pod(3, false, 80);
    let update = writes(&service, &flipped, &slices, 4);
    let [SliceWrite::Update(slice)] = update.as_slice() else {
        panic!("one update, not {update:?}")
    };
    assert!(slices.iter().any(|s| s.metadata.name == slice.metadata.name));
}

#[test]
fn an_unchanged_slice_is_filled_only_if_all_that_is_left_fits() {
    let service = plain();
    let pods: Vec<Pod> = (0..6).map(|n| pod(n, true, 80)).collect();
    let slices = applied(&[], writes(&service, &pods, &[], 4), 0); // 4 + 2
    let more: Vec<Pod> = (0..8).map(|n| pod(n, true, 80)).collect();
    let two_more = writes(&service, &more, &slices, 4);
    assert!(
        matches!(two_more.as_slice(), [SliceWrite::Update(s)] if s.endpoints.len() == 4),
        "{two_more:?}"
    );
    let more: Vec<Pod> = (0..9).map(|n| pod(n, true, 80)).collect();
    let three_more = writes(&service, &more, &slices, 4);
    assert!(
        matches!(three_more.as_slice(), [SliceWrite::Create(s)] if s.endpoints.len() == 3),
        "{three_more:?}"
    );
}

#[test]
fn slices_of_a_service_that_had_this_name_before_are_replaced() {
    let service = plain();
    let pods = [pod(1, true, 80)];
    let mut slices = applied(&[], writes(&service, &pods, &[], 100), 0);
    slices[0].metadata.owner_references[0].uid = "another".into();
    let after = applied(&slices, writes(&service, &pods, &slices, 100), 1);
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].metadata.owner_references[0].uid, "service-uid");
}

#[test]
fn a_pod_on_an_unknown_node_is_left_out_unless_not_ready_ones_are_published() {
    let mut lost = pod(1, true, 80);
    lost.spec.node_name = "elsewhere".into();
    assert_eq!(
        endpoints(&applied(&[], writes(&plain(), &[lost.clone()], &[], 100), 0)).len(),
        0
    );
    let mut publishes = plain();
    publishes.spec.publish_not_ready_addresses = true;
    assert_eq!(
        endpoints(&applied(&[], writes(&publishes, &[lost], &[], 100), 0)).len(),
        1
    );
}

#[test]
fn labels_follow_the_service_and_reserved_ones_do_not() {
    let mut service = plain();
    let pods = [pod(1, true, 80)];
    let slices = applied(&[], writes(&service, &pods, &[], 100), 0);
    service.metadata.labels.insert("team".into(), "a".into());
    service
        .metadata
        .labels
        .insert("kubernetes.io/service-name".into(), "forged".into());
    let slices = applied(&slices, writes(&service, &pods, &slices, 100), 1);
    assert_eq!(slices[0].metadata.labels["team"], "a");
    assert_eq!(slices[0].metadata.labels["kubernetes.io/service-name"], "s");
}

/// A world of Pods as (number, ready, port).
fn world() -> impl Strategy<Value = BTreeMap<u16, (bool, bool)>> {
    proptest::collection::btree_map(0u16..60, (any::<bool>(), any::<bool>()), 0..40)
}

fn pods_of(world: &BTreeMap<u16, (bool, bool)>) -> Vec<Pod> {
    world
        .iter()
        .map(|(n, (ready, other))| pod(*n, *ready, if *other { 81 } else { 80 }))
        .collect()
}

proptest! {
    #[test]
    fn any_history_ends_in_what_the_pods_say(history in proptest::collection::vec(world(), 1..6), max in 1usize..12) {
        let service = plain();
        let mut slices = Vec::new();
        for (round, world) in history.iter().enumerate() {
            let pods = pods_of(world);
            slices = applied(&slices, writes(&service, &pods, &slices, max), round);
            prop_assert_eq!(endpoints(&slices), wanted(&pods));
            prop_assert!(slices.iter().all(|slice| slice.endpoints.len() <= max));
            prop_assert!(!slices.is_empty());
            prop_assert_eq!(writes(&service, &pods, &slices, max), vec![], "the result is a fixpoint");
        }
    }

    #[test]
    fn no_endpoint_is_missing_between_two_writes(before in world(), after in world()) {
        let service = plain();
        let slices = applied(&[], writes(&service, &pods_of(&before), &[], 5), 0);
        let kept = |slices: &[EndpointSlice]| {
            let names: BTreeSet<String> = slices.iter().flat_map(|s| &s.endpoints)
                .map(|e| e.addresses[0].to_string()).collect();
            before.iter().filter(|(n, (_, other))| after.get(n).is_some_and(|(_, now)| now == other))
                .all(|(n, _)| names.contains(&pod(*n, true, 80).status.pod_ips[0].ip))
        };
        let mut now = slices.clone();
        for (round, write) in writes(&service, &pods_of(&after), &slices, 5).into_iter().enumerate() {
            now = applied(&now, vec![write], round + 1);
            prop_assert!(kept(&now), "a Pod that stays lost its endpoint for a moment");
        }
    }
}
