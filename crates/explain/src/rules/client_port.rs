//! PTL-0011: a client uses a port that the Service does not have.

use crate::facts::references::Reference;
use crate::facts::similar_names::nearest_name;
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Backend, Node, Port, Route, Service, Target, list};
use crate::world::World;

use super::service_terminating;
use super::target_port_undeclared::has_exchanged_numbers;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("client_port.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: Some(check_nodes),
};

const CODE: Code = Code(11);
/// Lowest port of a pair without scheme and namespace that is not a version, such as that of `web:2024`.
const PAIR_PORT_MIN: u16 = 3_000;
/// Ports of programs of nodes that are not declared by Pods: SSH, etcd, API server and kubelet.
const NODE_PORTS: [u16; 6] = [22, 2379, 2380, 6443, 9345, 10250];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if service.is_external_name() || service.ports().is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for route in subject.world.routes_of(service) {
        let backends = route.backends().into_iter();
        let service_backends = backends
            .filter(|backend| backend.service == service.name && backend.namespace == service.namespace);
        findings.extend(service_backends.filter_map(|backend| check_route(subject, route, &backend)));
    }
    if !service.is_headless() {
        findings.extend(check_pods(subject));
    }
    if subject.is_named {
        let service_findings = services_used_at_nodes(subject.world).filter(|(other, _)| {
            let own = &subject.service;
            other.namespace == own.namespace && other.name == own.name
        });
        findings.extend(service_findings.map(|(_, finding)| finding));
    }
    findings
}

/// Reports clients that use the port of a Service at the address of a node.
fn check_nodes(world: &World) -> Vec<Finding> {
    services_used_at_nodes(world)
        .map(|(_, finding)| finding)
        .collect()
}

/// Returns Services of type NodePort with findings about clients that use their ports at the addresses of nodes. Ports
/// that Pods of the node use are omitted.
fn services_used_at_nodes(world: &World) -> impl Iterator<Item = (Service<'_>, Finding)> {
    let references = world.references().filter(|(pod, _)| pod.is_active());
    references.filter_map(move |(pod, reference)| {
        let number = reference.port.filter(|number| !NODE_PORTS.contains(number))?;
        let address = reference.address?;
        let node = world.node_at(address)?;
        let is_used = world.services_at(address).next().is_some()
            || world.services_at_node_port(number).next().is_some()
            || has_host_port(world, node, number);
        let mut services = world.services().filter(|service| service.kind() == "NodePort");
        let (service, port, node_port) = services.find_map(|service| {
            let port = service.ports().into_iter().find(|port| port.number == number)?;
            Some((service, port, port.node_port?))
        })?;
        let message = format!(
            "The Pod uses port {number} of Service {}/{} at the address of Node {} ({}). Nodes have only its node port {node_port}",
            service.namespace, service.name, node.0.name, reference.text
        );
        let remedy = format!(
            "Use port {node_port} at the node, or port {} of {}.{}.svc",
            port.number, service.name, service.namespace
        );
        let field = reference.field.clone();
        let finding = finding_about(pod.0, CODE, Severity::Warning, field, message, remedy);
        (!is_used).then_some((service, finding))
    })
}

/// Returns true if a Pod of the node uses a port of the node.
fn has_host_port(world: &World, node: Node<'_>, number: u16) -> bool {
    let mut pods = world.pods_on(&node.0.name).filter(|pod| pod.is_active());
    pods.any(|pod| {
        let mut ports = pod.containers().flat_map(|container| list(container, "ports"));
        let is_on_host = pod.is_on_host_network();
        ports.any(|port| port["hostPort"] == number || is_on_host && port["containerPort"] == number)
    })
}

fn check_route(subject: &Subject<'_>, route: Route<'_>, backend: &Backend<'_>) -> Option<Finding> {
    let ports = subject.service.ports();
    let service = &subject.service.name;
    let pointer = |field: &str| format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
    let finding = |field: &str, message: String, port: &Port<'_>| {
        // A number can replace a name.
        let remedy = match field
            .strip_suffix(".port.number")
            .or(field.strip_suffix(".port.name"))
        {
            Some(parent) => {
                let value = serde_json::json!({"number": port.number});
                kubectl::replace(route.0, &pointer(&format!("{parent}.port")), value)
            }
            None => kubectl::add(route.0, &pointer(field), port.number),
        };
        finding_about(route.0, CODE, Severity::Error, field, message, remedy)
    };
    if let Some(number) = backend.port_number {
        let port_use = port_use(subject, &ports, number)?;
        let message = format!(
            "The backend uses port {number} of Service {service}, {}",
            port_use.text
        );
        return Some(finding(&backend.port_field, message, &port_use.port));
    }
    let name = backend.port_name;
    if name.is_empty() || ports.iter().any(|port| port.name == name) {
        return None;
    }
    let similar = nearest_name(name, ports.iter().map(|port| port.name));
    let port = ports
        .iter()
        .find(|port| Some(port.name) == similar)
        .or(ports.first())?;
    let message =
        format!("The backend uses port {name:?} of Service {service}, which has no port of this name");
    let field = backend.port_name_field.as_ref()?;
    Some(finding(field, message, port))
}

fn check_pods(subject: &Subject<'_>) -> Vec<Finding> {
    let ports = subject.service.ports();
    let references = subject.world.references_to(subject.service);
    references
        .filter(|(pod, reference)| pod.is_active() && !is_of_node(subject, reference))
        .filter_map(|(pod, reference)| {
            let number = reference.used_port()?;
            let is_clear = reference.is_address || number >= PAIR_PORT_MIN;
            let port_use =
                port_use(subject, &ports, number).filter(|port_use| port_use.is_known || is_clear)?;
            let message = format!(
                "The Pod uses port {number} of Service {} ({}), {}",
                subject.service.name, reference.text, port_use.text
            );
            let remedy = format!(
                "Use port {} in the configuration of the client",
                port_use.port.number
            );
            Some(finding_about(
                pod.0,
                CODE,
                Severity::Warning,
                reference.field.clone(),
                message,
                remedy,
            ))
        })
        .collect()
}

/// Returns true if a client uses the node port at the address of a node.
fn is_of_node(subject: &Subject<'_>, reference: &Reference) -> bool {
    reference
        .address
        .is_some_and(|address| subject.world.node_at(address).is_some())
}

/// Meaning of a number that is not a port of the Service.
struct PortUse<'w> {
    text: String,
    /// True if the number is the target port or node port of a Service port.
    is_known: bool,
    /// Port to use instead.
    port: Port<'w>,
}

/// Returns the meaning of a number that is not a port of the Service; `None` if it is one.
fn port_use<'w>(subject: &Subject<'_>, ports: &[Port<'w>], number: u16) -> Option<PortUse<'w>> {
    let is_target = |port: &&Port<'_>| port.target == Target::Number(number);
    // With exchanged numbers, the Service is to be changed, not its clients.
    let is_exchanged = |port: &Port<'_>| is_target(&port) && has_exchanged_numbers(subject, *port);
    if ports
        .iter()
        .any(|port| port.number == number || is_exchanged(port))
    {
        return None;
    }
    let target = ports.iter().find(is_target);
    let node_port = ports.iter().find(|port| port.node_port == Some(number));
    let (text, port) = match (target, node_port) {
        (Some(port), _) => (format!("which is the target port of port {}", port.number), port),
        (None, Some(port)) => (format!("which is the node port of port {}", port.number), port),
        (None, None) => {
            let numbers: Vec<String> = ports.iter().map(|port| port.number.to_string()).collect();
            (format!("which has only {}", numbers.join(", ")), ports.first()?)
        }
    };
    let is_known = target.or(node_port).is_some();
    Some(PortUse {
        text,
        is_known,
        port: *port,
    })
}
