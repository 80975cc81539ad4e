//! Services, Pods and slices for tests, and a model of a server that stores slices.

use std::collections::{BTreeMap, BTreeSet};

use api::object::{EndpointSlice, Pod, Service};
use serde_json::{Value, json};

use crate::caches::PodFacts;
use crate::caches::interner::Interner;
use crate::endpoint_slice::{Inputs, SliceWrite, reconcile};

/// Nodes with a zone of the same name, and their CPUs in thousandths.
pub(crate) const ZONES: [(&str, u64); 3] = [("a", 4_000), ("b", 2_000), ("c", 2_000)];

pub(crate) fn service(spec: Value) -> Service {
    let metadata = json!({"name": "s", "namespace": "n", "uid": "service-uid", "labels": {"app": "x"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a Service")
}

pub(crate) fn service_with_selector() -> Service {
    service(
        json!({"selector": {"app": "x"}, "ipFamilies": ["IPv4"], "ports": [{"port": 80, "targetPort": "web"}]}),
    )
}

pub(crate) fn pod(number: u16, ready: bool, port: u16) -> Pod {
    let addresses = [
        json!({"ip": format!("10.0.{}.{}", number / 250, number % 250 + 1)}),
        json!({"ip": format!("fd00::{:x}", number + 1)}),
    ];
    serde_json::from_value(json!({
        "metadata": {"name": format!("p{number}"), "namespace": "n", "uid": format!("u{number}")},
        "spec": {"nodeName": "node", "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]},
        "status": {"phase": "Running", "podIPs": addresses,
                   "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}}))
    .expect("a Pod")
}

pub(crate) fn facts(pods: &[Pod]) -> Vec<PodFacts> {
    let mut interner = Interner::default();
    pods.iter().map(|pod| PodFacts::of(pod, &mut interner)).collect()
}

pub(crate) fn writes(
    service: &Service,
    pods: &[Pod],
    slices: &[EndpointSlice],
    max: usize,
) -> Vec<SliceWrite> {
    let pods = facts(pods);
    let pods: Vec<&PodFacts> = pods.iter().collect();
    let slices: Vec<&EndpointSlice> = slices.iter().collect();
    let known = |name: &str| match name {
        "node" => Some(Some("zone".to_owned())),
        name => ZONES
            .iter()
            .find(|(zone, _)| *zone == name)
            .map(|_| Some(name.to_owned())),
    };
    let cpus = ZONES.iter().map(|(zone, cpus)| ((*zone).to_owned(), *cpus));
    let inputs = Inputs {
        service,
        pods: &pods,
        node_zones: &known,
        zone_cpus: &Some(cpus.collect()),
        slices: &slices,
        endpoints_per_slice_max: max,
        trigger_time: None,
    };
    reconcile(&inputs).writes
}

/// Returns the slices on the server after the writes.
pub(crate) fn slices_after(
    slices: &[EndpointSlice],
    writes: Vec<SliceWrite>,
    round: usize,
) -> Vec<EndpointSlice> {
    let mut by_name: BTreeMap<String, EndpointSlice> = slices
        .iter()
        .map(|slice| (slice.metadata.name.clone(), slice.clone()))
        .collect();
    for (index, write) in writes.into_iter().enumerate() {
        match write {
            SliceWrite::Create(mut slice) => {
                slice.metadata.name = format!("s-{round}-{index}");
                by_name.insert(slice.metadata.name.clone(), slice);
            }
            SliceWrite::Update(slice) => {
                let before = by_name.insert(slice.metadata.name.clone(), slice.clone());
                assert_eq!(
                    before.map(|slice_before| slice_before.address_type),
                    Some(slice.address_type)
                );
            }
            SliceWrite::Delete(meta) => {
                assert!(by_name.remove(&meta.name).is_some(), "a deletion of nothing")
            }
        }
    }
    by_name.into_values().collect()
}

pub(crate) fn endpoints(slices: &[EndpointSlice]) -> BTreeSet<(String, Option<bool>, Option<u16>)> {
    let all = slices.iter().flat_map(|slice| {
        let port = slice.ports.first().and_then(|port| port.port);
        slice
            .endpoints
            .iter()
            .map(move |endpoint| (endpoint.addresses[0].to_string(), endpoint.conditions.ready, port))
    });
    all.collect()
}

pub(crate) fn desired(pods: &[Pod]) -> BTreeSet<(String, Option<bool>, Option<u16>)> {
    let of = |pod: &Pod| {
        let port = pod.spec.containers[0].ports[0].container_port;
        let ready = pod.is_ready() && !pod.is_terminating();
        (pod.status.pod_ips[0].ip.clone(), Some(ready), Some(port))
    };
    pods.iter().map(of).collect()
}
