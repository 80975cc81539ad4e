//! Endpoints of a Service: counts, and rows with traffic.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::object::{Endpoint, EndpointPort, EndpointSlice, ObjectKey};
use serde::Serialize;

use super::objects::Objects;
use super::traffic::Traffic;

/// Maximum number of bytes of the ports of an endpoint.
const PORTS_BYTES_MAX: usize = 1_024;

/// Numbers of endpoints. An endpoint with several addresses, such as one of each family, counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounts {
    /// Ready endpoints.
    pub ready: u32,
    /// Endpoints that serve.
    pub serving: u32,
    /// Endpoints that terminate.
    pub terminating: u32,
    /// All endpoints.
    pub total: u32,
    /// Names of nodes, each with the number of its ready endpoints and the number of all its endpoints.
    pub nodes: Vec<(Arc<str>, u32, u32)>,
}

/// An address of an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndpointRow {
    /// Address.
    pub address: String,
    /// Ports, such as `8080/TCP http`, with commas between them.
    pub ports: String,
    /// Namespace and name of the Pod, or "".
    pub pod: String,
    /// Node, or "".
    pub node: String,
    /// Zone, or "".
    pub zone: String,
    /// True if the endpoint is ready.
    pub ready: bool,
    /// True if the endpoint serves.
    pub serving: bool,
    /// True if the endpoint terminates.
    pub terminating: bool,
    /// Traffic; absent if no node reports flows.
    pub traffic: Option<Traffic>,
}

/// State of an endpoint. Absent conditions have their defaults.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    ready: bool,
    serving: bool,
    terminating: bool,
}

impl State {
    fn of(endpoint: &Endpoint) -> Self {
        let conditions = &endpoint.conditions;
        let ready = conditions.ready.unwrap_or(true);
        Self {
            ready,
            serving: conditions.serving.unwrap_or(ready),
            terminating: conditions.terminating.unwrap_or(false),
        }
    }
}

/// Counts the endpoints of a Service.
pub fn counts(objects: &Objects, service: &ObjectKey) -> EndpointCounts {
    let mut backends: BTreeMap<&str, (State, Option<&Arc<str>>)> = BTreeMap::new();
    for slice in objects.slices_of(service) {
        for endpoint in &slice.endpoints {
            let Some(identity) = identity(endpoint) else {
                continue;
            };
            let state = State::of(endpoint);
            let (known, node) = backends
                .entry(identity)
                .or_insert((state, endpoint.node_name.as_ref()));
            // One address of two may be ready earlier.
            known.ready |= state.ready;
            known.serving |= state.serving;
            known.terminating |= state.terminating;
            *node = node.or(endpoint.node_name.as_ref());
        }
    }
    let mut counts = EndpointCounts::default();
    let mut nodes: BTreeMap<&str, (Option<&Arc<str>>, u32, u32)> = BTreeMap::new();
    for (state, node) in backends.into_values() {
        counts.total += 1;
        counts.ready += u32::from(state.ready);
        counts.serving += u32::from(state.serving);
        counts.terminating += u32::from(state.terminating);
        let name = node.map_or("", |name| name);
        let node_counts = nodes.entry(name).or_insert((node, 0, 0));
        node_counts.1 += u32::from(state.ready);
        node_counts.2 += 1;
    }
    let named = nodes.into_iter().map(|(name, (shared, ready, total))| {
        let shared = shared.cloned().unwrap_or_else(|| name.into());
        (shared, ready, total)
    });
    counts.nodes = named.collect();
    counts
}

/// Returns the Pod or the address that an endpoint stands for. `None` without an address.
fn identity(endpoint: &Endpoint) -> Option<&str> {
    let address = endpoint.addresses.first()?;
    let target = endpoint.target_ref.as_ref();
    let pod = target.filter(|target| &*target.kind == "Pod" && !target.name.is_empty());
    Some(pod.map_or(address, |target| &*target.name))
}

/// Returns at most `limit` addresses of endpoints, ordered by address, and the number of the others.
pub fn rows(
    objects: &Objects,
    service: &ObjectKey,
    traffic: Option<&BTreeMap<String, Traffic>>,
    limit: usize,
) -> (Vec<EndpointRow>, usize) {
    let mut found: BTreeMap<&str, (&Endpoint, Vec<&EndpointSlice>)> = BTreeMap::new();
    for slice in objects.slices_of(service) {
        for endpoint in &slice.endpoints {
            if let Some(address) = endpoint.addresses.first() {
                let (_, slices) = found.entry(address).or_insert((endpoint, Vec::new()));
                slices.push(slice);
            }
        }
    }
    let omitted = found.len().saturating_sub(limit);
    let row = |(address, (endpoint, slices)): (&str, (&Endpoint, Vec<&EndpointSlice>))| {
        let state = State::of(endpoint);
        let node = endpoint.node_name.as_deref().unwrap_or_default();
        let own_zone = endpoint.zone.as_deref().filter(|zone| !zone.is_empty());
        EndpointRow {
            address: address.to_owned(),
            ports: ports_text(&slices),
            pod: pod(service, endpoint),
            node: node.to_owned(),
            zone: own_zone.unwrap_or_else(|| objects.zone(node)).to_owned(),
            ready: state.ready,
            serving: state.serving,
            terminating: state.terminating,
            traffic: traffic.map(|traffic| traffic.get(address).copied().unwrap_or_default()),
        }
    };
    (found.into_iter().take(limit).map(row).collect(), omitted)
}

fn pod(service: &ObjectKey, endpoint: &Endpoint) -> String {
    match &endpoint.target_ref {
        Some(target) if &*target.kind == "Pod" => format!("{}/{}", service.namespace, target.name),
        _ => String::new(),
    }
}

fn ports_text(slices: &[&EndpointSlice]) -> String {
    let text = |port: &EndpointPort| {
        let number = port.port.map_or_else(|| "*".to_owned(), |port| port.to_string());
        let protocol = port.protocol.unwrap_or_default().as_str();
        let name = port.name.as_deref().filter(|name| !name.is_empty());
        match name {
            Some(name) => format!("{number}/{protocol} {name}"),
            None => format!("{number}/{protocol}"),
        }
    };
    let mut texts: Vec<String> = slices.iter().flat_map(|slice| &slice.ports).map(text).collect();
    texts.sort_unstable();
    texts.dedup();
    super::truncate(&texts.join(", "), PORTS_BYTES_MAX).to_owned()
}
