//! PTL-0019: the external name does not resolve.

use std::net::IpAddr;

use super::service_terminating;
use crate::facts::similar_names::{edit_distance, nearest_name};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Route, Service, Target};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("external_name.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(19);
const FIELD: &str = "spec.externalName";
/// Port of HTTP over TLS.
const HTTPS_PORT: u16 = 443;
/// Part of the names of Ingress classes of ingress-nginx, and its annotation with the protocol of the backends.
const NGINX_CLASS: &str = "nginx";
const BACKEND_PROTOCOL: &str = "nginx.ingress.kubernetes.io/backend-protocol";
/// Annotations with which the controller sends another host name, or none of its own.
const HOST_ANNOTATIONS: [&str; 4] = [
    "nginx.ingress.kubernetes.io/upstream-vhost",
    "nginx.ingress.kubernetes.io/configuration-snippet",
    "nginx.ingress.kubernetes.io/server-snippet",
    "nginx.ingress.kubernetes.io/ssl-passthrough",
];
/// Maximum number of aliases that are followed. Resolvers follow fewer.
const ALIASES_MAX: usize = 16;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.service.is_external_name() {
        return Vec::new();
    }
    let finding = address_as_name(subject)
        .or_else(|| unusable_name(subject))
        .or_else(|| alias_chain(subject))
        .or_else(|| unqualified_name(subject))
        .or_else(|| ingress_host(subject))
        .or_else(|| changed_port(subject));
    finding.map_or_else(|| http_clients(subject), |finding| vec![finding])
}

/// Returns the name that the alias points to, without the dot that may end a full name.
fn target_name(service: Service<'_>) -> &str {
    let name = service.0.text("/spec/externalName");
    name.strip_suffix('.').unwrap_or(name)
}

/// DNS servers answer an alias to an address with NXDOMAIN. Some Ingress controllers connect to the address without DNS.
fn address_as_name(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let address: IpAddr = target_name(service).parse().ok()?;
    let is_backend = subject.world.ingresses_of(service).next().is_some();
    let severity = if is_backend {
        Severity::Warning
    } else {
        Severity::Error
    };
    let message = format!(
        "externalName of Service {} is the address {address}. DNS has no alias to an address, so the name does not resolve",
        service.name
    );
    let remedy = format!(
        "Use a host name, or a Service without selector and an EndpointSlice with the address {address}: {}",
        kubectl::command("edit", service.0)
    );
    Some(subject.finding(CODE, severity, FIELD, message, remedy))
}

/// Follows aliases to other Services of the cluster.
fn alias_chain(subject: &Subject<'_>) -> Option<Finding> {
    let world = subject.world;
    let mut names = vec![subject.service];
    for _ in 0..ALIASES_MAX {
        let last = *names.last()?;
        let (namespace, name) = service_of_host(target_name(last), world.cluster_facts().domain())?;
        let Some(next) = world.service(namespace, name) else {
            return absent_service(subject, world, namespace, name);
        };
        if names
            .iter()
            .any(|known| known.namespace == next.namespace && known.name == next.name)
        {
            let path: Vec<String> = names
                .iter()
                .map(|service| format!("{}/{}", service.namespace, service.name))
                .collect();
            let message = format!(
                "The aliases form a loop: {} and {}/{} again",
                path.join(", "),
                next.namespace,
                next.name
            );
            let remedy = format!(
                "Set the host name that clients need: {}",
                kubectl::command("edit", subject.service.0)
            );
            return Some(subject.finding(CODE, Severity::Error, FIELD, message, remedy));
        }
        if !next.is_external_name() {
            return None;
        }
        names.push(next);
    }
    None
}

/// Returns namespace and name of the Service behind a name such as `web.shop.svc.cluster.local` or `web.shop.svc`.
fn service_of_host<'n>(host: &'n str, domain: &str) -> Option<(&'n str, &'n str)> {
    let qualified = host
        .strip_suffix(domain)
        .and_then(|host| host.strip_suffix(".svc."));
    let (name, namespace) = qualified.or_else(|| host.strip_suffix(".svc"))?.split_once('.')?;
    (!namespace.contains('.')).then_some((namespace, name))
}

/// Reports a name of the cluster without its domain, or with a misspelled one. DNS servers do not apply search domains
/// to aliases.
fn unqualified_name(subject: &Subject<'_>) -> Option<Finding> {
    let host = target_name(subject.service);
    let labels: Vec<&str> = host.split('.').collect();
    let (name, namespace, rest) = match labels.as_slice() {
        [name, namespace] => (*name, *namespace, String::new()),
        [name, namespace, "svc", rest @ ..] => (*name, *namespace, rest.join(".")),
        _ => return None,
    };
    let world = subject.world;
    let domain = world.cluster_facts().domain();
    let is_service = world.service(namespace, name).is_some();
    let is_misspelled = edit_distance(&rest, domain) <= 2;
    let is_fault = match labels.len() {
        2 => is_service,
        3 => false,
        _ => rest != domain && is_misspelled,
    };
    let requested = format!("{name}.{namespace}.svc.{domain}");
    let message = format!(
        "externalName {host} of Service {} does not resolve: DNS servers do not apply search domains to aliases, and the full name of the Service is \
         {requested}",
        subject.service.name
    );
    let remedy = kubectl::replace(subject.service.0, "/spec/externalName", requested);
    is_fault.then(|| subject.finding(CODE, Severity::Error, FIELD, message, remedy))
}

/// Reports an Ingress of ingress-nginx that connects with TLS to a host outside of the cluster. Without an annotation, its
/// controller sends the host name of the Ingress, which the server does not have.
fn ingress_host(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let host = target_name(service);
    if service_of_host(host, subject.world.cluster_facts().domain()).is_some() {
        return None;
    }
    let is_of_tls = |ingress: &Route<'_>| {
        let protocol = ingress.0.annotation(BACKEND_PROTOCOL).unwrap_or_default();
        let backends = ingress.backends();
        let mut own = backends
            .iter()
            .filter(|backend| backend.service == service.name && backend.namespace == service.namespace);
        protocol.eq_ignore_ascii_case("HTTPS") || own.any(|backend| backend.port_number == Some(HTTPS_PORT))
    };
    let has_host = |ingress: &Route<'_>| {
        let mut rules = ingress.0.list("/spec/rules").iter();
        let is_same = rules.any(|rule| rule["host"] == host);
        is_same
            || HOST_ANNOTATIONS
                .iter()
                .any(|name| ingress.0.annotation(name).is_some())
    };
    let mut ingresses = subject.world.ingresses_of(service);
    let ingress = ingresses.find(|ingress| {
        let is_of_nginx = ingress.0.text("/spec/ingressClassName").contains(NGINX_CLASS);
        is_of_nginx && is_of_tls(ingress) && !has_host(ingress)
    })?;
    let message = format!(
        "The controller of Ingress {} connects to {host}, the external name of Service {}, and sends the host name of the Ingress: the server may have \
         no virtual host for it",
        ingress.name, service.name
    );
    let [annotation, ..] = HOST_ANNOTATIONS;
    let remedy = format!("{} {annotation}={host}", kubectl::command("annotate", ingress.0));
    let field = format!("metadata.annotations[{annotation}]");
    Some(finding_about(
        ingress.0,
        CODE,
        Severity::Warning,
        field,
        message,
        remedy,
    ))
}

/// Ports of an alias have no effect. A target port shows that another port is expected to be translated.
fn changed_port(subject: &Subject<'_>) -> Option<Finding> {
    let mut ports = subject.service.ports().into_iter();
    let port = ports.find(|port| port.target != Target::Number(port.number))?;
    let message = format!(
        "Service {} is an alias, so nothing changes port {} to {}: clients connect to {} with the port that they use",
        subject.service.name,
        port.number,
        port.target,
        target_name(subject.service)
    );
    let remedy = format!(
        "Let clients use port {}, and remove the ports: {}",
        port.target,
        kubectl::remove(subject.service.0, "/spec/ports")
    );
    Some(subject.finding(CODE, Severity::Warning, port.field("targetPort"), message, remedy))
}

/// Reports that the namespace has Services in the world, but not the one that the alias points to.
fn absent_service(subject: &Subject<'_>, world: &World, namespace: &str, name: &str) -> Option<Finding> {
    let services: Vec<&str> = world
        .in_namespace(Kind::Service, namespace)
        .map(|service| service.name.as_str())
        .collect();
    // An input of some namespaces does not show the Services of others. Several Namespaces show which ones exist.
    let has_namespaces = world.all(Kind::Namespace).nth(1).is_some();
    let is_absent = has_namespaces && world.object(Kind::Namespace, "", namespace).is_none();
    if services.is_empty() && !is_absent {
        return None;
    }
    let similar = nearest_name(name, services).map_or_else(String::new, |similar| {
        format!(". The nearest name is {namespace}/{similar}")
    });
    let message = format!(
        "externalName {} names Service {namespace}/{name}, which does not exist{similar}",
        target_name(subject.service)
    );
    let remedy = format!(
        "Set the name of an existing Service: {}",
        kubectl::command("edit", subject.service.0)
    );
    Some(subject.finding(CODE, Severity::Error, FIELD, message, remedy))
}

/// A URL, a port or a single label is not a name that DNS has.
fn unusable_name(subject: &Subject<'_>) -> Option<Finding> {
    let name = target_name(subject.service);
    let fault = if name.is_empty() {
        "is empty"
    } else if name == "localhost" {
        "is the host of the client itself"
    } else if name.contains([':', '/', ' ']) {
        "is not a host name: a scheme, a port and a path do not belong to it"
    } else if name.split('.').next_back().is_some_and(is_number) {
        "is not a host name: its last label is a number, as in addresses"
    } else if name.split('.').any(is_invalid) {
        "is not a host name: labels have letters, digits and hyphens"
    } else if !name.contains('.') {
        "has no domain, and DNS servers do not apply search domains to aliases"
    } else {
        return None;
    };
    let message = format!(
        "externalName {name:?} of Service {} {fault}",
        subject.service.name
    );
    let remedy = format!(
        "Set a full host name, such as api.example.com: {}",
        kubectl::command("edit", subject.service.0)
    );
    Some(subject.finding(CODE, Severity::Error, FIELD, message, remedy))
}

/// Returns true if a label of a name is empty, or has characters that host names do not have.
fn is_invalid(label: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    label.is_empty() || label.starts_with('-') || label.ends_with('-') || !label.bytes().all(is_valid)
}

/// The last label of a host name is not a number (RFC 3696, section 2).
fn is_number(label: &str) -> bool {
    !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reports clients that use the name of the alias in URLs: servers seldom have a certificate for it, or a virtual host.
fn http_clients(subject: &Subject<'_>) -> Vec<Finding> {
    let name = target_name(subject.service);
    let references = subject.world.references_to(subject.service);
    let clients = references
        .filter(|(pod, _)| pod.is_active())
        .filter_map(|(pod, reference)| Some((pod, reference, reference.text.split_once("://")?.0)))
        .filter(|(.., scheme)| matches!(*scheme, "http" | "https"))
        .filter(|_| service_of_host(name, subject.world.cluster_facts().domain()).is_none());
    let finding = clients.map(|(pod, reference, scheme)| {
        let (severity, effect) = if scheme == "https" {
            let effect = "in TLS and in the header Host, and may have no certificate for it";
            (Severity::Warning, effect)
        } else {
            // Many servers have a default for unknown hosts.
            (
                Severity::Info,
                "in the header Host, and may have no virtual host for it",
            )
        };
        let message = format!(
            "The Pod uses {}, an alias of {name}. The server sees the name of the alias {effect}",
            reference.text
        );
        let remedy = format!("Use {scheme}://{name} in the configuration of the client");
        finding_about(pod.0, CODE, severity, reference.field.clone(), message, remedy)
    });
    finding.collect()
}
