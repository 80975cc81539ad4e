//! PTL-0049: another program uses a port of the Service on a node.

use super::frontend_conflict;
use crate::facts::observed_node::{ObservedNode, observed_nodes};
use crate::facts::probes;
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::observation::{Listener, NodeObservation};
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{Port, Service};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("port_taken.md"),
    explained_by: &[frontend_conflict::CODE],
    service: Some(check),
    cluster: Some(local_ports),
};

const CODE: Code = Code(49);
/// Prefixes of the names of programs that listen on node ports for Services.
const PROXIES: [&str; 9] = [
    "portolan",
    "kube-proxy",
    "kube-router",
    "cilium",
    "antrea",
    "ovnkube",
    "k3s",
    "k0s",
    "kubelite",
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.world.observations().all().is_empty() {
        return Vec::new();
    }
    let ports = subject.service.ports().into_iter();
    let mut findings: Vec<Finding> = ports
        .filter_map(|port| node_port(subject, port).or_else(|| external_ip(subject, port)))
        .collect();
    findings.extend(health_check(subject));
    findings
}

/// Returns the listeners of other programs on a port of the nodes, which take connections of other hosts.
fn listeners<'w>(
    subject: &Subject<'w>,
    number: u16,
    protocol: &str,
) -> impl Iterator<Item = (&'w NodeObservation, &'w Listener)> {
    let listeners = subject.world.observations().node_listeners_on(number);
    listeners.filter(move |(_, listener)| {
        let program = listener.program.as_deref().unwrap_or_default();
        let is_proxy = PROXIES.iter().any(|beginning| program.starts_with(beginning));
        let is_reachable = !listener.address.to_canonical().is_loopback();
        listener.protocol.name() == protocol && is_reachable && !is_proxy
    })
}

/// Returns the first of these listeners.
fn listener<'w>(
    subject: &Subject<'w>,
    number: u16,
    protocol: &str,
) -> Option<(&'w NodeObservation, &'w Listener)> {
    listeners(subject, number, protocol).next()
}

fn program(listener: &Listener) -> String {
    match &listener.program {
        Some(program) => format!("The process {program}"),
        None => "A process".to_owned(),
    }
}

fn node_port(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    let number = port.node_port?;
    let (observation, found) = listener(subject, number, port.protocol)?;
    let message = format!(
        "{} on Node {} listens on {} port {number}/{}, which is the node port of Service {}. Connections reach one of the two only",
        program(found),
        observation.metadata.name,
        found.address,
        port.protocol,
        subject.service.name
    );
    let remedy = format!(
        "Change the port of the process, or the node port: {}",
        kubectl::command("edit", subject.service.0)
    );
    Some(subject.finding(CODE, Severity::Warning, port.field("nodePort"), message, remedy))
}

/// Reports that an external IP is the address of a node, and a process there listens on the port of the Service.
fn external_ip(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    let service = subject.service;
    let nodes = service.external_ips().into_iter().filter_map(|address| {
        let node = probes::node_at(subject.world, address)?;
        Some((address, node))
    });
    for (address, node) in nodes {
        let takes = |listener: &Listener| listener.address == address || listener.address.is_unspecified();
        let mut on_node = listeners(subject, port.number, port.protocol)
            .filter(|(observation, listener)| observation.metadata.name == node.name && takes(listener));
        let Some((_, found)) = on_node.next().filter(|_| !serves_itself(subject)) else {
            continue;
        };
        let message = format!(
            "{} on Node {} listens on port {}/{}, which Service {} uses at the node's address {address} (spec.externalIPs). The process gets no connections from other hosts",
            program(found),
            node.name,
            port.number,
            port.protocol,
            service.name
        );
        let remedy = format!(
            "Change the port of the process or of the Service: {}",
            kubectl::command("edit", service.0)
        );
        return Some(subject.finding(CODE, Severity::Warning, "spec.externalIPs", message, remedy));
    }
    None
}

/// Returns true if Pods of the Service are in the network namespaces of nodes, so that the process can be one of them.
fn serves_itself(subject: &Subject<'_>) -> bool {
    subject
        .selected()
        .iter()
        .any(|pod| pod.0.flag("/spec/hostNetwork"))
}

/// Load balancers request the health check node port to find nodes with endpoints.
fn health_check(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let number = service.number("/spec/healthCheckNodePort")?;
    let number = u16::try_from(number).ok().filter(|number| *number > 0)?;
    let (observation, found) = listener(subject, number, "TCP")?;
    let message = format!(
        "{} on Node {} listens on port {number}, which is the health check node port of Service {}, so load balancers get its responses",
        program(found),
        observation.metadata.name,
        service.name
    );
    let remedy = "Change the port of the process. The field of the Service is immutable";
    let field = "spec.healthCheckNodePort";
    Some(subject.finding(CODE, Severity::Warning, field, message, remedy))
}

/// Outgoing connections of a node can get a node port as their local port.
fn local_ports(world: &World) -> Vec<Finding> {
    observed_nodes(world).filter_map(local_port).collect()
}

fn local_port(node: ObservedNode<'_>) -> Option<Finding> {
    let [first, last] = node.observation.local_port_range?;
    let reserved = node.observation.reserved_ports.as_ref();
    let is_local = |number: u16| {
        let is_reserved = |ranges: &Vec<[u16; 2]>| {
            ranges
                .iter()
                .any(|[first, last]| (*first..=*last).contains(&number))
        };
        (first..=last).contains(&number) && !reserved.is_some_and(is_reserved)
    };
    let (service, number) = node.world.services().find_map(|service: Service<'_>| {
        let ports = service.ports();
        let mut numbers = ports.iter().filter_map(|port| port.node_port);
        Some((service, numbers.find(|number| is_local(*number))?))
    })?;
    let message = format!(
        "The local ports of outgoing connections of Node {} ({first} to {last}) contain the node port {number} of Service {}/{}, so a connection of the node can have this port",
        node.name(),
        service.namespace,
        service.name
    );
    let remedy = format!(
        "Reserve the range of node ports: {}",
        node.run("sysctl -w net.ipv4.ip_local_reserved_ports=30000-32767")
    );
    Some(node.finding(CODE, Severity::Warning, "localPortRange", message, remedy))
}
