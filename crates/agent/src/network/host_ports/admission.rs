//! Admission of Pods with host ports (kubelet's predicate `NodePorts`). The rule is that of the scheduler. Pure.

use api::pod::{RequestedHostPort, UsedHostPorts};

use crate::object::{ContainerPort, Pod};

/// Reason in the status of a Pod that is not admitted.
pub const REASON: &str = "NodePorts";
/// Message in the status of a Pod that is not admitted.
pub const MESSAGE: &str = "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";

/// Returns true if two Pods name the same port of the node. In the host network, all ports are ports of the node.
pub fn collide(pod: &Pod, other: &Pod) -> bool {
    let mut ports = host_ports(pod).map(requested_port).peekable();
    if ports.peek().is_none() {
        return false;
    }
    let used: UsedHostPorts<'_> = host_ports(other).map(requested_port).collect();
    ports.any(|port| used.conflict_with(&port))
}

/// Returns the ports of the node that containers and sidecars name.
pub(super) fn host_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let sidecars = pod.spec.init_containers.iter();
    let sidecars = sidecars.filter(|container| container.is_restartable());
    let containers = sidecars.chain(&pod.spec.containers);
    let ports = containers.flat_map(|container| &container.ports);
    ports.filter(|port| port.host_port != 0)
}

fn requested_port(port: &ContainerPort) -> RequestedHostPort<'_> {
    RequestedHostPort {
        host_ip: &port.host_ip,
        protocol: port.protocol.as_str(),
        port: port.host_port,
    }
}
