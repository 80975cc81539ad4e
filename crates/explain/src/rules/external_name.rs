//! PTL-0019.

use std::net::IpAddr;

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::nearest::nearest;
use crate::rule::Rule;
use crate::subject::{Subject, about};
use crate::views::Service;
use crate::world::World;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("external_name.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(19);
const FIELD: &str = "spec.externalName";
/// Aliases that are followed, at most. Resolvers follow fewer.
const ALIASES_MAX: usize = 16;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.service.is_external_name() {
        return Vec::new();
    }
    let finding = address(subject)
        .or_else(|| unusable(subject))
        .or_else(|| chain(subject));
    finding.map_or_else(|| tls_clients(subject), |finding| vec![finding])
}

/// Name that the alias points to.
fn target(service: Service<'_>) -> &str {
    service.0.text("/spec/externalName").trim_end_matches('.')
}

/// DNS servers answer an alias to an address with NXDOMAIN. Some Ingress controllers connect to the address without DNS.
fn address(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let address: IpAddr = target(service).parse().ok()?;
    let is_backend = subject.world.ingresses_of(service).next().is_some();
    if is_backend && !subject.is_named {
        return None;
    }
    let severity = if is_backend {
        Severity::Info
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
fn chain(subject: &Subject<'_>) -> Option<Finding> {
    let world = subject.world;
    let mut names = vec![subject.service];
    for _ in 0..ALIASES_MAX {
        let last = *names.last()?;
        let (namespace, name) = in_cluster(target(last))?;
        let Some(next) = world.service(namespace, name) else {
            return absent(subject, world, namespace, name);
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

/// Returns namespace and name of the Service behind a name such as `web.shop.svc.cluster.local`.
fn in_cluster(host: &str) -> Option<(&str, &str)> {
    let mut labels = host.split('.');
    let (name, namespace) = (labels.next()?, labels.next()?);
    let rest: Vec<&str> = labels.collect();
    let is_cluster = matches!(rest.as_slice(), ["svc"] | ["svc", "cluster", "local"]);
    is_cluster.then_some((namespace, name))
}

/// The namespace has Services in the world, but not the one that the alias points to.
fn absent(subject: &Subject<'_>, world: &World, namespace: &str, name: &str) -> Option<Finding> {
    let services: Vec<&str> = world
        .in_namespace(Kind::Service, namespace)
        .map(|service| service.name.as_str())
        .collect();
    if services.is_empty() {
        return None;
    }
    let similar = nearest(name, services).map_or_else(String::new, |similar| {
        format!(". The nearest name is {namespace}/{similar}")
    });
    let message = format!(
        "externalName {} names Service {namespace}/{name}, which does not exist{similar}",
        target(subject.service)
    );
    let remedy = format!(
        "Set the name of an existing Service: {}",
        kubectl::command("edit", subject.service.0)
    );
    Some(subject.finding(CODE, Severity::Error, FIELD, message, remedy))
}

/// A URL, a port or a single label is no name that DNS has.
fn unusable(subject: &Subject<'_>) -> Option<Finding> {
    let name = target(subject.service);
    let fault = if name.is_empty() {
        "is empty"
    } else if name.contains([':', '/', ' ']) {
        "is not a host name: a scheme, a port and a path do not belong to it"
    } else if !name.contains('.') && name != "localhost" {
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

/// Clients that use the name of the alias in `https` URLs, for which servers seldom have a certificate. Reported if the user named the
/// Service.
fn tls_clients(subject: &Subject<'_>) -> Vec<Finding> {
    let name = target(subject.service);
    let references = subject.world.references_to(subject.service);
    let clients = references
        .filter(|_| subject.is_named)
        .filter(|(pod, reference)| pod.is_active() && reference.text.starts_with("https://"))
        .filter(|_| in_cluster(name).is_none());
    let finding = clients.map(|(pod, reference)| {
        let message = format!(
            "The Pod uses {}, an alias of {name}. The server sees the name of the alias in TLS and in the header Host, and has no certificate for \
             it",
            reference.text
        );
        let remedy = format!("Use https://{name} in the configuration of the client");
        about(pod.0, CODE, Severity::Info, reference.field.clone(), message, remedy)
    });
    finding.collect()
}
