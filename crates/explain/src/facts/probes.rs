//! Probes of observations, as the rules read them.

use std::net::IpAddr;

use crate::facts::observed_node::ObservedNode;
use crate::observation::{NodeObservation, Outcome, Probe, ProbeKind, ProbeSource};
use crate::subject::Subject;
use crate::views::{Endpoint, Node, Port};
use crate::world::World;

/// A probe with the observation that contains it.
pub(crate) type ObservedProbe<'w> = (&'w NodeObservation, &'w Probe);

/// Part of the names of annotations for the PROXY protocol.
const PROXY_PROTOCOL: &str = "proxy-protocol";
/// Values of annotations that turn a setting off.
const OFF_VALUES: [&str; 4] = ["", "false", "none", "0"];
/// Kinds of probes that open a connection or send a datagram.
const CONNECTION_KINDS: [ProbeKind; 5] = [
    ProbeKind::Tcp,
    ProbeKind::Udp,
    ProbeKind::Http,
    ProbeKind::Tls,
    ProbeKind::Dns,
];

/// Returns true if the probe opens a connection or sends a datagram.
pub(crate) fn is_connection(probe: &Probe) -> bool {
    CONNECTION_KINDS.contains(&probe.kind)
}

/// Returns true if no packet of the target arrived.
pub(crate) fn is_unanswered(probe: &Probe) -> bool {
    matches!(probe.outcome, Outcome::Timeout | Outcome::Unreachable)
}

/// Returns true if the target refused the connection, or no packet of it arrived.
pub(crate) fn is_failed(probe: &Probe) -> bool {
    is_unanswered(probe) || probe.outcome == Outcome::Refused
}

/// Returns true if packets are lost on the path. An unresponsive application still accepts TCP connections.
pub(crate) fn is_path_failure(probe: &Probe) -> bool {
    let is_lost = probe.kind == ProbeKind::Tcp && probe.outcome == Outcome::Timeout;
    is_lost || probe.outcome == Outcome::Unreachable
}

/// Returns true if packets of the target arrived over an open connection.
pub(crate) fn is_connected(probe: &Probe) -> bool {
    matches!(
        probe.outcome,
        Outcome::Answered
            | Outcome::OtherProtocol
            | Outcome::Reset
            | Outcome::Closed
            | Outcome::Nxdomain
            | Outcome::Servfail
    )
}

/// Returns the probes of a Service: probes that name it, and probes without a Service that reach its addresses.
pub(crate) fn of_service<'w>(subject: &Subject<'w>) -> Vec<ObservedProbe<'w>> {
    let service = subject.service;
    let observations = subject.world.observations();
    if observations.all().is_empty() {
        return Vec::new();
    }
    let named = observations.probes_of(&service.0.namespace, &service.0.name);
    let addresses = service.addresses().into_iter();
    named
        .chain(addresses.flat_map(|address| observations.probes_to(address)))
        .collect()
}

/// Returns true if the target is a cluster IP, external IP, load balancer IP or node port of the Service.
pub(crate) fn is_to_frontend(subject: &Subject<'_>, probe: &Probe) -> bool {
    let service = subject.service;
    let Some(address) = probe.address() else {
        return false;
    };
    let is_node_port = || {
        let ports = service.ports();
        let mut ports = ports.iter().filter_map(|port| port.node_port);
        let port = probe.port();
        ports.any(|node_port| Some(node_port) == port) && node_at(subject.world, address).is_some()
    };
    service.addresses().contains(&address) || is_node_port()
}

/// Returns the ready endpoint of the Service that is the target.
pub(crate) fn ready_endpoint<'w>(subject: &Subject<'w>, probe: &Probe) -> Option<Endpoint<'w>> {
    let (address, port) = (probe.address()?, probe.port());
    let slices = subject.slices().iter().filter(|slice| {
        let mut ports = slice.ports();
        port.is_none() || ports.any(|(_, _, number)| number == port)
    });
    let mut endpoints = slices.flat_map(|slice| slice.endpoints());
    endpoints.find(|endpoint| endpoint.is_ready() && endpoint.ip() == Some(address))
}

/// Returns the Service port that a probe uses, at a frontend or at an endpoint.
pub(crate) fn port_of<'w>(subject: &Subject<'w>, probe: &Probe) -> Option<Port<'w>> {
    let number = probe.port()?;
    let ports = subject.service.ports();
    if is_to_frontend(subject, probe) {
        let mut ports = ports.into_iter();
        return ports.find(|port| port.number == number || port.node_port == Some(number));
    }
    let mut slice_ports = subject.slices().iter().flat_map(|slice| slice.ports());
    let (name, ..) = slice_ports.find(|(_, _, target)| *target == Some(number))?;
    ports.into_iter().find(|port| port.name == name)
}

/// Application protocol that a Service port declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    /// HTTP without TLS.
    Http,
    /// TLS, or HTTP over TLS.
    Tls,
}

/// Returns the application protocol of a port, by its name and `appProtocol`.
pub(crate) fn declared_protocol(subject: &Subject<'_>, port: Port<'_>) -> Option<Declared> {
    let app_protocol = subject
        .service
        .text(&port.pointer("appProtocol"))
        .to_ascii_lowercase();
    let first = |text: &str| text.split('-').next().unwrap_or_default().to_owned();
    let name = if app_protocol.is_empty() {
        first(port.name)
    } else {
        app_protocol
    };
    match name.as_str() {
        "http" => Some(Declared::Http),
        "https" | "tls" => Some(Declared::Tls),
        _ => None,
    }
}

/// Returns the annotation that turns on the PROXY protocol for backends.
pub(crate) fn proxy_protocol_annotation<'w>(subject: &Subject<'w>) -> Option<&'w str> {
    let mut annotations = subject.service.0.pairs("/metadata/annotations");
    let (key, _) = annotations.find(|(key, value)| {
        key.contains(PROXY_PROTOCOL) && !key.contains("accept") && !OFF_VALUES.contains(value)
    })?;
    Some(key)
}

/// Returns the Node with an address.
pub(crate) fn node_at(world: &World, address: IpAddr) -> Option<Node<'_>> {
    world.nodes().find(|node| node.ips().contains(&address))
}

/// Returns a failed probe from another host to a Pod or node port of the node. The target must not fail on the node
/// itself. A target that refuses has to be open there.
pub(crate) fn failed_from_elsewhere(node: ObservedNode<'_>) -> Option<ObservedProbe<'_>> {
    let all = node.world.observations().all().iter();
    let all = all.flat_map(|observation| {
        let probes = observation.probes.iter().flatten();
        probes.map(move |probe| (observation, probe))
    });
    let is_to_node = |probe: &Probe| {
        is_connection(probe) && probe.address().is_some_and(|address| is_on_node(node, address))
    };
    let (own, others): (Vec<ObservedProbe<'_>>, Vec<ObservedProbe<'_>>) = all
        .filter(|(_, probe)| is_to_node(probe))
        .partition(|(observation, probe)| {
            observation.metadata.name == node.name() && probe.from != ProbeSource::Outside
        });
    let is_own = |target: &str, is_wanted: fn(&Probe) -> bool| {
        own.iter()
            .any(|(_, probe)| probe.target == target && is_wanted(probe))
    };
    others.into_iter().find(|(_, probe)| {
        let target = probe.target.as_str();
        let is_open = is_own(target, is_connected);
        is_failed(probe) && !is_own(target, is_failed) && (is_open || is_path_failure(probe))
    })
}

/// Returns true if an address is that of the node, or of a Pod on it.
fn is_on_node(node: ObservedNode<'_>, address: IpAddr) -> bool {
    let is_of_node = node.node().is_some_and(|node| node.ips().contains(&address));
    let mut pods = node.world.pods_at(address);
    is_of_node || pods.any(|pod| pod.node() == node.name())
}

/// Describes the origin of a probe, such as `Node node-a`.
pub(crate) fn origin((observation, probe): ObservedProbe<'_>) -> String {
    match &probe.from {
        ProbeSource::Node => format!("Node {}", observation.metadata.name),
        ProbeSource::Pod(pod) => format!("Pod {pod}"),
        ProbeSource::Outside => "a host outside of the cluster".to_owned(),
    }
}

/// Describes a probe and its outcome.
pub(crate) fn description(found: ObservedProbe<'_>) -> String {
    let (_, probe) = found;
    let kind = match probe.kind {
        ProbeKind::Tcp => "TCP",
        ProbeKind::Udp => "UDP",
        ProbeKind::Http => "HTTP",
        ProbeKind::Tls => "TLS",
        ProbeKind::Dns => "DNS",
        ProbeKind::Arp => "ARP",
        ProbeKind::Ndp => "NDP",
        ProbeKind::Ping => "ICMP echo",
        ProbeKind::PathMtu => "ICMP echo without fragmentation",
        ProbeKind::Other => "other",
    };
    let outcome = outcome_text(probe.outcome);
    let bytes = probe
        .bytes
        .map(|bytes| format!(" of {bytes} bytes"))
        .unwrap_or_default();
    let status = probe
        .status
        .map(|status| format!(" with status {status}"))
        .unwrap_or_default();
    format!(
        "{kind} probe{bytes} from {} to {}: {outcome}{status}",
        origin(found),
        probe.target
    )
}

/// Returns the outcome as a text.
pub(crate) fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answered => "answered",
        Outcome::Refused => "refused",
        Outcome::Timeout => "timeout",
        Outcome::Reset => "reset",
        Outcome::Closed => "closed without a response",
        Outcome::Unreachable => "unreachable",
        Outcome::OtherProtocol => "response of another protocol",
        Outcome::TooLarge => "packet too large",
        Outcome::Nxdomain => "name does not exist",
        Outcome::Servfail => "server failed",
        Outcome::Other => "other",
    }
}
