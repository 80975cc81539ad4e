//! PTL-0029: another Service has the same address and port.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::object::ObjectKey;
use plan::{Fault, PORT_RANGES_ANNOTATION, Plan, Settings};

use super::service_terminating;
use crate::facts::service_plan::{PLACEHOLDERS, with_cluster_ip};
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Port, Service};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("frontend_conflict.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(29);
/// Field of the node port for health checks.
const HEALTH_CHECK_FIELD: &str = "spec.healthCheckNodePort";
/// Maximum number of other Services with an address or node port of the Service.
const OTHERS_MAX: usize = 256;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = conflicts_in_plan(subject);
    if findings.is_empty() {
        findings.extend(health_check(subject).or_else(|| node_address(subject)));
    }
    findings
}

/// Reports the conflicts of frontends in the plan.
fn conflicts_in_plan(subject: &Subject<'_>) -> Vec<Finding> {
    let others = services_with_same_address(subject);
    let Some(own) = with_cluster_ip(subject.service, PLACEHOLDERS[0]).filter(|_| !others.is_empty()) else {
        return Vec::new();
    };
    let mut plan = Plan::new(Settings::default());
    plan.apply_service(&own);
    for other in &others {
        if let Some(other) = with_cluster_ip(*other, PLACEHOLDERS[1]) {
            plan.apply_service(&other);
        }
    }
    plan.take_changes();
    let mut findings = lost_frontends(&plan, subject.service, &others);
    findings.extend(lost_ranges(&plan, subject.service));
    // The user named the Service that receives the connections.
    if subject.is_named {
        let own = [subject.service];
        findings.extend(
            others
                .iter()
                .flat_map(|other| lost_frontends(&plan, *other, &own)),
        );
    }
    findings
}

/// Returns the node ports of a Service for TCP and for its health check, with their fields.
fn node_ports(service: Service<'_>) -> Vec<(u16, String)> {
    let ports = service.ports().into_iter().filter(|port| port.protocol == "TCP");
    let node_ports = ports.filter_map(|port| Some((port.node_port?, port.field("nodePort"))));
    let health_check = service
        .health_check_node_port()
        .map(|port| (port, HEALTH_CHECK_FIELD.to_owned()));
    node_ports.chain(health_check).collect()
}

/// Reports that the health check node port of one Service is a node port of another one.
fn health_check(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let mut conflicts = node_ports(service).into_iter().flat_map(|(number, field)| {
        let others = subject.world.services_at_node_port(number);
        let others = others.filter(move |other| is_other(service, *other));
        others.filter_map(move |other| {
            let mut theirs = node_ports(other).into_iter();
            let is_health_check = |their: &str| field == HEALTH_CHECK_FIELD || their == HEALTH_CHECK_FIELD;
            let shared = theirs.any(|(port, their)| port == number && is_health_check(&their));
            shared.then(|| (number, field.clone(), other))
        })
    });
    let (number, field, other) = conflicts.next()?;
    let message = format!(
        "Node port {number} of Service {} is used by Service {}/{}, too, and one of them uses it for the health check of nodes",
        service.name, other.namespace, other.name
    );
    let remedy = format!(
        "Change the port of one of the two Services: {}",
        kubectl::command("edit", service.0)
    );
    Some(finding_about(
        service.0,
        CODE,
        Severity::Warning,
        field,
        message,
        remedy,
    ))
}

/// Reports that an external IP is the address of a node, and the port is a node port of another Service.
fn node_address(subject: &Subject<'_>) -> Option<Finding> {
    let world = subject.world;
    let service = subject.service;
    let addresses = service.external_ips().into_iter();
    let mut addresses = addresses.filter_map(|address| Some((address, world.node_at(address)?)));
    let (address, node) = addresses.next()?;
    let (port, other) = service.ports().into_iter().find_map(|port| {
        let has_port = |other: &Service<'_>| {
            let mut ports = other.ports().into_iter();
            ports.any(|their| their.node_port == Some(port.number) && their.protocol == port.protocol)
        };
        let others = world.services_at_node_port(port.number);
        let mut others = others.filter(|other| is_other(service, *other));
        Some((port, others.find(has_port)?))
    })?;
    let message = format!(
        "External IP {address}, port {port} of Service {} is the node port of Service {}/{} at node {}",
        service.name, other.namespace, other.name, node.name
    );
    let remedy = format!(
        "Change the address or the port of one of the two Services: {}",
        kubectl::command("edit", service.0)
    );
    Some(finding_about(
        service.0,
        CODE,
        Severity::Warning,
        "spec.externalIPs",
        message,
        remedy,
    ))
}

fn is_other(service: Service<'_>, other: Service<'_>) -> bool {
    (&service.0.namespace, &service.0.name) != (&other.0.namespace, &other.0.name)
}

/// Reports frontends that a Service has in common with one of `winners`, whose endpoints receive the connections.
fn lost_frontends(plan: &Plan, loser: Service<'_>, winners: &[Service<'_>]) -> Vec<Finding> {
    let key = ObjectKey {
        namespace: loser.namespace.as_str().into(),
        name: loser.name.as_str().into(),
    };
    let conflicts = plan.faults_of(&key).filter_map(|fault| match fault {
        Fault::Conflict {
            address,
            port,
            protocol,
            by,
        } => Some((*address, *port, protocol.as_str(), by)),
        _ => None,
    });
    conflicts
        .filter_map(|(address, port, protocol, by)| {
            let is_winner =
                |winner: &&Service<'_>| *winner.namespace == *by.namespace && *winner.name == *by.name;
            conflict(loser, *winners.iter().find(is_winner)?, address, port, protocol)
        })
        .collect()
}

/// Reports port ranges of a Service that overlap those of an older one.
fn lost_ranges(plan: &Plan, loser: Service<'_>) -> Vec<Finding> {
    let key = ObjectKey {
        namespace: loser.namespace.as_str().into(),
        name: loser.name.as_str().into(),
    };
    let mut conflicts = plan.faults_of(&key).filter_map(|fault| match fault {
        Fault::RangeConflict { by, .. } => Some((fault, by)),
        _ => None,
    });
    let Some((fault, by)) = conflicts.next() else {
        return Vec::new();
    };
    let message = format!("Service {}: {fault}, which gets the connections", loser.name);
    let remedy = format!(
        "Change the port ranges of Service {by} or of this one: {}",
        kubectl::command("edit", loser.0)
    );
    let field = format!("metadata.annotations[{PORT_RANGES_ANNOTATION}]");
    vec![finding_about(
        loser.0,
        CODE,
        Severity::Warning,
        field,
        message,
        remedy,
    )]
}

/// Returns the other Services with an address or node port of the Service.
fn services_with_same_address<'w>(subject: &Subject<'w>) -> Vec<Service<'w>> {
    let service = subject.service;
    let addresses = service
        .cluster_ips()
        .into_iter()
        .chain(service.external_ips())
        .chain(service.ingress_ips());
    let at_addresses = addresses.flat_map(|address| subject.world.services_at(address));
    let node_ports = service.ports().into_iter().filter_map(|port| port.node_port);
    let at_ports = node_ports.flat_map(|port| subject.world.services_at_node_port(port));
    let mut others = BTreeMap::new();
    for other in at_addresses.chain(at_ports) {
        let key = (other.0.namespace.as_str(), other.0.name.as_str());
        if key != (service.0.namespace.as_str(), service.0.name.as_str()) && others.len() < OTHERS_MAX {
            others.insert(key, other);
        }
    }
    others.into_values().collect()
}

/// Returns the kind of the frontend at an address, or at a node port without one, and its field. `port_field` is the
/// field of the port.
fn frontend_of(service: Service<'_>, address: Option<IpAddr>, port_field: String) -> (&'static str, String) {
    match address {
        None => ("node port", port_field.replace(".port", ".nodePort")),
        Some(address) if service.external_ips().contains(&address) => {
            ("external IP", "spec.externalIPs".to_owned())
        }
        Some(address) if service.ingress_ips().contains(&address) => ("load balancer IP", port_field),
        Some(_) => ("cluster IP", "spec.clusterIP".to_owned()),
    }
}

/// Returns the finding about a Service whose frontend belongs to another one. There is none if both have the same
/// endpoints.
fn conflict(
    service: Service<'_>,
    other: Service<'_>,
    address: Option<IpAddr>,
    number: u16,
    protocol: &str,
) -> Option<Finding> {
    let port_of = |service: Service<'_>| -> Option<(String, String)> {
        let is_frontend = |port: &Port<'_>| {
            let own = if address.is_some() {
                Some(port.number)
            } else {
                port.node_port
            };
            own == Some(number) && port.protocol == protocol
        };
        let port = service.ports().into_iter().find(is_frontend)?;
        Some((port.target.to_string(), port.field("port")))
    };
    let (target, port_field) = port_of(service)?;
    let is_same_backend = other.namespace == service.namespace
        && service.has_selector()
        && other.selector() == service.selector()
        && port_of(other).is_some_and(|(other_target, _)| other_target == target);
    if is_same_backend {
        return None;
    }
    let (kind, field) = frontend_of(service, address, port_field);
    let frontend = match address {
        None => format!("{kind} {number}/{protocol}"),
        Some(address) => format!("{kind} {address}, port {number}/{protocol}"),
    };
    let created = |service: Service<'_>| service.0.text("/metadata/creationTimestamp").to_owned();
    let order = if created(other) < created(service) {
        "which is older"
    } else {
        "which is first by name"
    };
    let message = format!(
        "Service {}/{}, {order}, has the same {frontend}. Connections reach its endpoints, and not those of Service {}",
        other.namespace, other.name, service.name
    );
    let remedy = format!(
        "Change the address or the port of one of the two Services: {}",
        kubectl::command("edit", service.0)
    );
    Some(finding_about(
        service.0,
        CODE,
        Severity::Warning,
        field,
        message,
        remedy,
    ))
}
