//! Protocols that clients and Ingress controllers use at a port, according to their configuration.

use super::CODE;
use crate::facts::probes::{Declared, declared_protocol};
use crate::finding::{Finding, Severity};
use crate::kubectl;
use crate::subject::{Subject, finding_about};
use crate::views::{Backend, Port, Route, Target};

/// Part of the names of Ingress classes of ingress-nginx.
const NGINX_CLASS: &str = "nginx";
/// Annotation with the class of an Ingress, before the field existed.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Annotation of ingress-nginx with the protocol of the backends; HTTP is the default.
const BACKEND_PROTOCOL: &str = "nginx.ingress.kubernetes.io/backend-protocol";
/// Annotations with which the backends get TLS: that of the client, or that of the controller of NGINX.
const TLS_ANNOTATIONS: [&str; 2] = [
    "nginx.ingress.kubernetes.io/ssl-passthrough",
    "nginx.org/ssl-services",
];

/// Ports that servers without TLS use. At another number, the name `http` of a port can mean HTTP with TLS.
const PLAIN_PORTS: [u16; 4] = [80, 3000, 8000, 8080];

/// Reports a client whose URL has another scheme than the port declares.
pub(super) fn clients_with_other_scheme(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    if service.is_external_name() {
        return None;
    }
    let (ports, cluster_ips) = (service.ports(), service.cluster_ips());
    let mut references = subject.world.references_to(service);
    references.find_map(|(pod, reference)| {
        // A load balancer can end TLS before the backends.
        let is_direct = reference
            .address
            .is_none_or(|address| cluster_ips.contains(&address));
        let (scheme, _) = reference
            .text
            .split_once("://")
            .filter(|_| pod.is_active() && is_direct)?;
        let number = reference.used_port()?;
        let port = ports
            .iter()
            .find(|port| port.number == number && port.protocol == "TCP")?;
        let text = match (scheme, unambiguous_protocol(subject, &ports, port)?) {
            ("http" | "ws", Declared::Tls) => "TLS",
            ("https" | "wss", Declared::Http) if is_plain(subject, port) => "HTTP without TLS",
            _ => return None,
        };
        let message = format!(
            "The Pod uses {}, but port {port} of Service {} declares {text} by its name or appProtocol",
            reference.text, service.name
        );
        let remedy = "Use the scheme of the application in the configuration of the client, or correct the name and appProtocol of the port";
        let field = reference.field.clone();
        Some(finding_about(pod.0, CODE, Severity::Warning, field, message, remedy))
    })
}

/// Returns true if a port that declares HTTP is for connections without TLS.
fn is_plain(subject: &Subject<'_>, port: &Port<'_>) -> bool {
    let app_protocol = subject.service.text(&port.pointer("appProtocol"));
    !app_protocol.is_empty() || PLAIN_PORTS.contains(&port.number)
}

/// Reports an Ingress of ingress-nginx whose controller uses another protocol than the port declares.
pub(super) fn ingresses_with_other_protocol(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let mut ingresses = subject.world.ingresses_of(service);
    ingresses.find_map(|ingress| {
        let is_other = TLS_ANNOTATIONS
            .iter()
            .any(|name| ingress.0.annotation(name).is_some());
        if is_other || !is_of_nginx(ingress) {
            return None;
        }
        let backends = ingress.backends();
        let mut own = backends
            .iter()
            .filter(|backend| backend.service == service.name && backend.namespace == service.namespace);
        own.find_map(|backend| ingress_with_other_protocol(subject, ingress, backend))
    })
}

fn is_of_nginx(ingress: Route<'_>) -> bool {
    let class = match ingress.0.text("/spec/ingressClassName") {
        "" => ingress.0.annotation(CLASS_ANNOTATION).unwrap_or_default(),
        class => class,
    };
    class.contains(NGINX_CLASS)
}

fn ingress_with_other_protocol(
    subject: &Subject<'_>,
    ingress: Route<'_>,
    backend: &Backend<'_>,
) -> Option<Finding> {
    let ports = subject.service.ports();
    let is_used = |port: &&Port<'_>| match backend.port_number {
        Some(number) => port.number == number,
        None => !backend.port_name.is_empty() && port.name == backend.port_name,
    };
    let port = ports.iter().find(is_used)?;
    let value = ingress.0.annotation(BACKEND_PROTOCOL).unwrap_or("HTTP");
    let used = value.trim().to_ascii_uppercase();
    let text = match (used.as_str(), unambiguous_protocol(subject, &ports, port)?) {
        ("HTTP" | "AUTO_HTTP" | "GRPC", Declared::Tls) => "TLS",
        ("HTTPS" | "GRPCS", Declared::Http) => "HTTP without TLS",
        _ => return None,
    };
    let message = format!(
        "The controller of Ingress {} uses {used} for its backends, but port {port} of Service {} declares {text} by its name or appProtocol",
        ingress.name, subject.service.name
    );
    let requested = if text == "TLS" { "HTTPS" } else { "HTTP" };
    let remedy = format!(
        "{} {BACKEND_PROTOCOL}={requested} --overwrite",
        kubectl::command("annotate", ingress.0)
    );
    let field = format!("metadata.annotations[{BACKEND_PROTOCOL}]");
    Some(finding_about(
        ingress.0,
        CODE,
        Severity::Warning,
        field,
        message,
        remedy,
    ))
}

/// Returns the declared protocol of a port. Returns `None` if another port has the same target, because one listener
/// can serve both protocols. Returns `None` too if the name of the target or the readiness probe declares another
/// protocol.
fn unambiguous_protocol(subject: &Subject<'_>, ports: &[Port<'_>], port: &Port<'_>) -> Option<Declared> {
    let protocol = declared_protocol(subject, *port)?;
    let has_twin = ports
        .iter()
        .any(|other| other.index != port.index && other.target == port.target);
    let is_plain_target =
        matches!(port.target, Target::Name(name) if name == "http" || name.starts_with("http-"));
    let is_tls_target =
        matches!(port.target, Target::Name(name) if name.starts_with("https") || name == "tls");
    let scheme = subject.active().find_map(|pod| {
        let number = pod.resolve(port.target, port.protocol)?;
        pod.readiness_scheme(number)
    });
    let is_contradicted = match protocol {
        Declared::Http => is_tls_target || scheme == Some("HTTPS"),
        Declared::Tls => is_plain_target || scheme == Some("HTTP"),
    };
    (!has_twin && !is_contradicted).then_some(protocol)
}
