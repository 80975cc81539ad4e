//! Listeners of Pods, as clients of a Service reach them.

use std::net::IpAddr;

use crate::observation::{Listener, PodName, TransportProtocol};
use crate::subject::Subject;
use crate::views::{Pod, Port, text};

/// Prefixes of the names of containers that redirect connections to the Pod, so that its listeners do not show its
/// ports.
const MESH_CONTAINERS: [&str; 5] = [
    "istio-proxy",
    "linkerd-proxy",
    "kuma-sidecar",
    "consul-",
    "envoy-sidecar",
];

/// State of a port of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The observations do not show the listeners of the Pod.
    Unknown,
    /// A process listens at all addresses of the endpoint.
    Listening,
    /// A process listens at loopback addresses only.
    LoopbackOnly(IpAddr),
    /// A process listens at addresses other than that of the endpoint.
    OtherAddress {
        /// Address of the endpoint without a listener.
        endpoint: IpAddr,
        /// Address of a listener.
        listener: IpAddr,
    },
    /// No process listens. The list has the ports of other listeners that are not on loopback addresses.
    Absent(Vec<u16>),
}

/// Returns the state of the target of a Service port in a Pod.
pub(crate) fn state(subject: &Subject<'_>, pod: Pod<'_>, port: Port<'_>) -> State {
    let Some(protocol) = protocol(port.protocol) else {
        return State::Unknown;
    };
    let (Some(number), Some(mut listeners)) = (pod.resolve(port.target, port.protocol), of_pod(subject, pod))
    else {
        return State::Unknown;
    };
    listeners.retain(|listener| listener.protocol == protocol);
    // The kernel cannot list SCTP sockets without its module.
    if protocol == TransportProtocol::Sctp && listeners.is_empty() {
        return State::Unknown;
    }
    let (on_port, others): (Vec<&Listener>, Vec<&Listener>) = listeners
        .into_iter()
        .partition(|listener| listener.port == number);
    let Some(first) = on_port.first() else {
        // The listeners of other Pods are in the same network namespace.
        if is_on_host_network(pod) {
            return State::Absent(Vec::new());
        }
        let others = others
            .into_iter()
            .filter(|listener| !listener.address.is_loopback());
        let mut ports: Vec<u16> = others.map(|listener| listener.port).collect();
        ports.sort_unstable();
        ports.dedup();
        return State::Absent(ports);
    };
    if on_port
        .iter()
        .all(|listener| listener.address.to_canonical().is_loopback())
    {
        return State::LoopbackOnly(first.address);
    }
    let addresses = endpoint_addresses(subject, pod);
    let is_taken = |address: &IpAddr| {
        on_port
            .iter()
            .any(|listener| takes_connections_to(listener, *address))
    };
    match addresses.into_iter().find(|address| !is_taken(address)) {
        Some(endpoint) => State::OtherAddress {
            endpoint,
            listener: first.address,
        },
        None => State::Listening,
    }
}

/// Returns true if no ready Pod listens at the target of a Service port, and at least one was observed.
pub(crate) fn is_closed(subject: &Subject<'_>, port: Port<'_>) -> bool {
    let pods = subject.active().filter(|pod| pod.is_ready());
    let mut states = pods
        .map(|pod| state(subject, pod, port))
        .filter(|state| *state != State::Unknown)
        .peekable();
    states.peek().is_some() && states.all(|state| matches!(state, State::Absent(_)))
}

fn protocol(name: &str) -> Option<TransportProtocol> {
    match name {
        "TCP" => Some(TransportProtocol::Tcp),
        "UDP" => Some(TransportProtocol::Udp),
        "SCTP" => Some(TransportProtocol::Sctp),
        _ => None,
    }
}

fn is_on_host_network(pod: Pod<'_>) -> bool {
    pod.0.flag("/spec/hostNetwork")
}

/// Returns the listeners that serve a Pod; `None` if they are unknown.
fn of_pod<'w>(subject: &Subject<'w>, pod: Pod<'_>) -> Option<Vec<&'w Listener>> {
    let observations = subject.world.observations();
    if observations.all().is_empty() {
        return None;
    }
    // Sandboxes of other runtimes have a network stack of their own.
    let is_sandboxed = !pod.0.text("/spec/runtimeClassName").is_empty();
    let is_mesh = |name: &str| {
        MESH_CONTAINERS
            .iter()
            .any(|beginning| name.starts_with(beginning))
    };
    let is_redirected = pod.containers().any(|container| is_mesh(text(container, "name")));
    if is_sandboxed || is_redirected {
        return None;
    }
    if is_on_host_network(pod) {
        let node = observations.of_node(pod.node())?;
        let is_complete = !node.is_truncated("listeners");
        let listeners = node
            .listeners
            .as_ref()
            .filter(|listeners| is_complete && !listeners.is_empty())?;
        return Some(
            listeners
                .iter()
                .filter(|listener| listener.pod.is_none())
                .collect(),
        );
    }
    observations.listeners_of_pod(&PodName {
        namespace: pod.0.namespace.clone(),
        name: pod.0.name.clone(),
    })
}

/// Returns the addresses of the endpoints of a Pod; those of the Pod if it has no endpoint yet.
fn endpoint_addresses(subject: &Subject<'_>, pod: Pod<'_>) -> Vec<IpAddr> {
    let endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    let pod_endpoints = endpoints.filter(|endpoint| endpoint.pod() == Some(pod.0.name.as_str()));
    let addresses: Vec<IpAddr> = pod_endpoints.filter_map(|endpoint| endpoint.ip()).collect();
    if addresses.is_empty() {
        let families = subject.service.cluster_ips();
        let mut own = pod.ips();
        own.retain(|address| {
            families.is_empty()
                || families
                    .iter()
                    .any(|family| family.is_ipv6() == address.is_ipv6())
        });
        return own;
    }
    addresses
}

/// Returns true if a listener takes connections to an address.
fn takes_connections_to(listener: &Listener, address: IpAddr) -> bool {
    let own = listener.address.to_canonical();
    if !own.is_unspecified() {
        return own == address;
    }
    let is_for_both = own.is_ipv6() && listener.v6_only != Some(true);
    own.is_ipv6() == address.is_ipv6() || is_for_both
}

#[cfg(test)]
mod tests;
