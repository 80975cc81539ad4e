//! Endpoints of a Service port: the chosen endpoints of the plan, and the reasons why it chose no others.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use api::object::{AddressType, Endpoint, EndpointSlice};
use plan::{Choice, EndpointSet, Family, FrontendKind, PortKey};

use super::node_settings::PlanNode;
use super::objects::{Objects, read_address};
use super::report::{ChosenEndpoint, EndpointState, ExcludedEndpoint};
use crate::finding::ObjectName;
use crate::kind::Kind;
use crate::views::{self, Pod, Service, text};
use crate::world::World;

/// An endpoint of a slice, with the port that its slice has for the Service port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'o> {
    slice: &'o EndpointSlice,
    /// Position in the slice.
    index: usize,
    endpoint: &'o Endpoint,
    port: Option<u16>,
}

/// Returns the endpoints of a Service port in the family of its key. Endpoints of a port range get `range_port`.
pub(super) fn candidates<'o>(
    objects: &'o Objects<'_>,
    key: &'o PortKey,
    range_port: Option<u16>,
) -> Vec<Candidate<'o>> {
    let family = match key.family {
        Family::V4 => AddressType::IPv4,
        Family::V6 => AddressType::IPv6,
    };
    let slices = objects
        .slices_of(&key.service)
        .filter(|slice| slice.address_type == family);
    let mut found = Vec::new();
    for slice in slices {
        let mut ports = slice.ports.iter().filter(|port| {
            port.name.as_deref() == Some(&*key.port) && port.protocol.unwrap_or_default() == key.protocol
        });
        let port = range_port.or_else(|| ports.find_map(|port| port.port.filter(|number| *number != 0)));
        let endpoints = slice.endpoints.iter().enumerate();
        found.extend(endpoints.map(|(index, endpoint)| Candidate {
            slice,
            index,
            endpoint,
            port,
        }));
    }
    found
}

impl Candidate<'_> {
    fn address(&self) -> Option<IpAddr> {
        let address = read_address(self.endpoint.addresses.first()?)?;
        let is_v4 = self.slice.address_type == AddressType::IPv4;
        (address.is_ipv4() == is_v4).then_some(address)
    }

    fn socket(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.address()?, self.port?))
    }

    /// Returns true if the endpoint is ready; an absent condition means ready (KPR-14).
    pub(super) fn is_ready(&self) -> bool {
        self.endpoint.conditions.ready.unwrap_or(true)
    }

    fn is_serving_while_terminating(&self) -> bool {
        let conditions = &self.endpoint.conditions;
        conditions.serving.unwrap_or(true) && conditions.terminating.unwrap_or(false)
    }

    /// Returns the zones of the hints.
    pub(super) fn zone_hints(&self) -> impl Iterator<Item = &str> {
        let hints = self.endpoint.hints.iter();
        hints.flat_map(|hints| hints.for_zones.iter().map(|hint| hint.name.as_str()))
    }

    /// Returns the Nodes of the hints.
    pub(super) fn node_hints(&self) -> impl Iterator<Item = &str> {
        let hints = self.endpoint.hints.iter();
        hints.flat_map(|hints| hints.for_nodes.iter().map(|hint| hint.name.as_str()))
    }

    fn node(&self) -> &str {
        self.endpoint.node_name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace and name of the Pod.
    fn pod(&self) -> Option<(&str, &str)> {
        let target = self.endpoint.target_ref.as_ref()?;
        let namespace = match &*target.namespace {
            "" => self.slice.metadata.namespace.as_str(),
            namespace => namespace,
        };
        (&*target.kind == "Pod" && !target.name.is_empty()).then_some((namespace, &*target.name))
    }

    fn state(&self) -> EndpointState {
        let conditions = &self.endpoint.conditions;
        EndpointState {
            pod: self
                .pod()
                .map_or_else(String::new, |(namespace, name)| format!("{namespace}/{name}")),
            node: self.node().to_owned(),
            zone: self.endpoint.zone.as_deref().unwrap_or_default().to_owned(),
            ready: self.is_ready(),
            serving: conditions.serving.unwrap_or(true),
            terminating: conditions.terminating.unwrap_or(false),
        }
    }

    /// Returns the name of the slice.
    pub(super) fn slice_name(&self) -> ObjectName {
        ObjectName {
            kind: Kind::EndpointSlice.name().to_owned(),
            namespace: self.slice.metadata.namespace.clone(),
            name: self.slice.metadata.name.clone(),
        }
    }

    fn field(&self, field: &str) -> String {
        format!("endpoints[{}].{field}", self.index)
    }
}

/// Returns the endpoints that count for the plan: of duplicates, the last one that does not terminate, or else the first
/// (KPR-15). Endpoints that it cannot use are absent.
pub(super) fn counted_endpoints<'c, 'o>(
    found: &'c [Candidate<'o>],
) -> BTreeMap<SocketAddr, &'c Candidate<'o>> {
    let mut by_socket = BTreeMap::new();
    for candidate in found {
        let Some(socket) = candidate.socket() else {
            continue;
        };
        let is_terminating = candidate.endpoint.conditions.terminating.unwrap_or(false);
        if !is_terminating || !by_socket.contains_key(&socket) {
            by_socket.insert(socket, candidate);
        }
    }
    by_socket
}

/// Returns the endpoints of a verdict, with equal chances.
pub(super) fn chosen_endpoints(
    objects: &Objects<'_>,
    key: &PortKey,
    found: &[Candidate<'_>],
    choices: &[Choice],
) -> Vec<ChosenEndpoint> {
    let by_socket = counted_endpoints(found);
    let chance = 1.0 / choices.len().max(1) as f64;
    let endpoint = |choice: &Choice| {
        let candidate = by_socket.get(&choice.address);
        let pod = candidate.and_then(|candidate| candidate.pod());
        let protocol = key.protocol.as_str();
        ChosenEndpoint {
            address: choice.address.ip(),
            port: choice.address.port(),
            chance,
            masquerade: choice.masquerade,
            state: candidate.map(|candidate| candidate.state()).unwrap_or_default(),
            declared_by: pod.and_then(|(namespace, name)| {
                let pod = objects.world().object(Kind::Pod, namespace, name).map(Pod)?;
                Some(declared_by(pod, choice.address.port(), protocol).to_owned())
            }),
        }
    };
    choices.iter().map(endpoint).collect()
}

/// Returns the name of the container that declares a port, or "".
pub(super) fn declared_by<'w>(pod: Pod<'w>, number: u16, protocol: &str) -> &'w str {
    let declares = |container: &&serde_json::Value| {
        let mut ports = views::list(container, "ports").iter();
        ports.any(|port| {
            let of = match text(port, "protocol") {
                "" => "TCP",
                of => of,
            };
            port["containerPort"] == number && of == protocol
        })
    };
    let mut containers = pod.containers();
    containers
        .find(declares)
        .map_or("", |container| text(container, "name"))
}

/// Restriction of the endpoints that a frontend uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restriction<'a> {
    /// Node that decides.
    pub node: &'a PlanNode,
    /// Endpoint set.
    pub set: EndpointSet,
    /// Kind of the frontend.
    pub kind: FrontendKind,
    /// Service.
    pub service: Service<'a>,
}

impl Restriction<'_> {
    /// Returns the name of the traffic policy of the frontend, in the spec of the Service.
    pub(super) fn policy(&self) -> &'static str {
        match self.kind {
            FrontendKind::ClusterIp => "internalTrafficPolicy",
            FrontendKind::ExternalIp | FrontendKind::LoadBalancerIp | FrontendKind::NodePort => {
                "externalTrafficPolicy"
            }
        }
    }
}

/// Returns the endpoints that the plan did not choose, with the reasons.
pub(super) fn excluded_endpoints(
    found: &[Candidate<'_>],
    chosen: &[ChosenEndpoint],
    restriction: &Restriction<'_>,
) -> Vec<ExcludedEndpoint> {
    let is_chosen = |candidate: &&Candidate<'_>| {
        let Some(socket) = candidate.socket() else {
            return false;
        };
        chosen
            .iter()
            .any(|endpoint| SocketAddr::new(endpoint.address, endpoint.port) == socket)
    };
    let by_socket = counted_endpoints(found);
    let others = found.iter().filter(|candidate| !is_chosen(candidate));
    others
        .map(|candidate| {
            let counts = candidate
                .socket()
                .and_then(|socket| by_socket.get(&socket))
                .is_none_or(|counting| std::ptr::eq(*counting, candidate));
            let (reason, object, field) = if counts {
                exclusion(candidate, restriction)
            } else {
                let reason = "another entry with the same address counts".to_owned();
                (reason, candidate.slice_name(), candidate.field("addresses[0]"))
            };
            let address = candidate.endpoint.addresses.first();
            ExcludedEndpoint {
                address: address.map_or_else(String::new, ToString::to_string),
                port: candidate.port,
                state: candidate.state(),
                reason,
                object,
                field,
            }
        })
        .collect()
}

/// Returns the reason why the plan did not choose an endpoint, with object and field.
fn exclusion(candidate: &Candidate<'_>, restriction: &Restriction<'_>) -> (String, ObjectName, String) {
    let in_slice = |reason: String, field: String| (reason, candidate.slice_name(), field);
    if candidate.port.is_none() {
        return in_slice("its slice does not have the port".to_owned(), "ports".to_owned());
    }
    if candidate.address().is_none() {
        let reason = "the address is invalid in its slice".to_owned();
        return in_slice(reason, candidate.field("addresses[0]"));
    }
    let is_ready = candidate.is_ready();
    if !is_ready && !candidate.is_serving_while_terminating() {
        let reason = if candidate.endpoint.conditions.terminating.unwrap_or(false) {
            "terminating and not serving"
        } else {
            "not ready"
        };
        return in_slice(reason.to_owned(), candidate.field("conditions"));
    }
    let node = candidate.node();
    if restriction.set == EndpointSet::Local && node != restriction.node.name {
        let policy = restriction.policy();
        let reason = match node {
            "" => format!("its slice names no node, and {policy} is Local"),
            node => format!("on node {node}, and {policy} is Local"),
        };
        let field = format!("spec.{policy}");
        return (reason, restriction.service.object_name(), field);
    }
    if !is_ready {
        let reason = "terminating, and other endpoints are ready".to_owned();
        return in_slice(reason, candidate.field("conditions"));
    }
    let nodes: Vec<&str> = candidate.node_hints().collect();
    let zones: Vec<&str> = candidate.zone_hints().collect();
    if !nodes.is_empty() && !nodes.contains(&restriction.node.name.as_str()) {
        let reason = format!("its hint is for node {}", nodes.join(", "));
        return in_slice(reason, candidate.field("hints.forNodes"));
    }
    if !zones.is_empty() {
        let reason = format!("its hint is for zone {}", zones.join(", "));
        return in_slice(reason, candidate.field("hints.forZones"));
    }
    in_slice(
        "the plan did not choose it".to_owned(),
        candidate.field("addresses"),
    )
}

/// Returns the endpoints of a headless Service in a family that DNS does not publish.
pub(super) fn unpublished_endpoints(
    world: &World,
    service: Service<'_>,
    family: Family,
) -> Vec<ExcludedEndpoint> {
    let mut found = Vec::new();
    if service.publishes_not_ready() {
        return found;
    }
    for slice in world.slices_of(service) {
        for (index, endpoint) in slice.endpoints().enumerate() {
            let Some(address) = endpoint.ip() else { continue };
            if endpoint.is_ready() || Family::of(address) != family {
                continue;
            }
            let pod = endpoint.pod().unwrap_or_default();
            found.push(ExcludedEndpoint {
                address: address.to_string(),
                port: None,
                state: EndpointState {
                    pod: if pod.is_empty() {
                        String::new()
                    } else {
                        format!("{}/{pod}", service.namespace)
                    },
                    node: endpoint.node().to_owned(),
                    zone: endpoint.zone().to_owned(),
                    ready: false,
                    serving: endpoint.is_serving(),
                    terminating: endpoint.is_terminating(),
                },
                reason: "not ready, so DNS does not publish it".to_owned(),
                object: slice.object_name(),
                field: format!("endpoints[{index}].conditions"),
            });
        }
    }
    found
}
