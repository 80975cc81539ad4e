//! Resolution of a name by the resolver of a client.

use std::net::IpAddr;

use serde::Serialize;

use super::client::{Client, ClientKind};
use super::cluster_dns::{Answer, AnswerKind, answer};
use super::resolver::{NameServers, Resolver, host_alias, pod_of};
use crate::finding::ObjectName;
use crate::kind::Kind;
use crate::world::World;

/// Resolution of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameResolution {
    /// Resolver of the client.
    pub resolver: Resolver,
    /// Names that the resolver tries, in order, up to the first one with addresses.
    pub tried: Vec<Answer>,
}

/// Result of a resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResolvedName {
    /// The name has addresses. The Service with the last alias is known, unless the Pod itself defines the name.
    Addresses {
        /// Addresses of both families.
        addresses: Vec<IpAddr>,
        /// Namespace and name of the Service.
        service: Option<(String, String)>,
    },
    /// The name is one of hosts outside of the cluster.
    Outside {
        /// Reason.
        reason: String,
        /// Object and field that decided.
        object: Option<ObjectName>,
        /// Field of that object.
        field: String,
        /// Namespace and name of the Service that is an alias.
        service: Option<(String, String)>,
    },
    /// The name has no address.
    NoName {
        /// Reason.
        reason: String,
        /// Object that decided.
        object: Option<ObjectName>,
        /// Field of that object.
        field: String,
        /// Namespace and name of the Service that the name means.
        service: Option<(String, String)>,
    },
}

/// Resolves a name for a client. `domain` is the domain of the cluster, and `host_searches` is the search list of the
/// nodes.
pub(super) fn resolve(
    world: &World,
    client: &Client,
    name: &str,
    domain: &str,
    host_searches: &[String],
) -> (NameResolution, ResolvedName) {
    let pod = pod_of(world, &client.namespace, &client.name).filter(|_| client.kind == ClientKind::Pod);
    let resolver = match pod {
        Some(pod) => Resolver::of_pod(world, pod, domain, host_searches),
        None => {
            let node = world.node(&client.node).map(|node| node.object_name());
            Resolver::of_host(host_searches, node)
        }
    };
    if let Some((address, field)) = pod.and_then(|pod| host_alias(pod, name)) {
        let found = Answer {
            addresses: vec![address],
            kind: AnswerKind::Addresses,
            object: pod.map(|pod| pod.object_name()),
            field,
            ..Answer::outside(name)
        };
        let resolved = ResolvedName::Addresses {
            addresses: vec![address],
            service: None,
        };
        let tried = vec![found];
        return (NameResolution { resolver, tried }, resolved);
    }
    let mut tried = Vec::new();
    for candidate in resolver.candidates(name) {
        let found = match resolver.name_servers {
            NameServers::Cluster => answer(world, domain, &candidate),
            NameServers::Outside => Answer::outside(&candidate),
        };
        let is_last = matches!(found.kind, AnswerKind::Addresses | AnswerKind::Alias);
        tried.push(found);
        if is_last {
            break;
        }
    }
    let resolved = resolution_result(world, client, name, domain, &resolver, &tried);
    (NameResolution { resolver, tried }, resolved)
}

/// Returns the result of an answer with addresses or with an alias.
fn result_of(name: &str, answer: &Answer) -> Option<ResolvedName> {
    match answer.kind {
        AnswerKind::Addresses => Some(ResolvedName::Addresses {
            addresses: answer.addresses.clone(),
            service: answer.service.clone(),
        }),
        AnswerKind::Alias => {
            let target = answer.aliases.last().map_or("", String::as_str);
            Some(ResolvedName::Outside {
                reason: format!("{name} is an alias of {target}, which is outside of the cluster"),
                object: answer.object.clone(),
                field: answer.field.clone(),
                service: answer.service.clone(),
            })
        }
        _ => None,
    }
}

/// Returns the result of the resolution of a name after the answers of all tried names.
fn resolution_result(
    world: &World,
    client: &Client,
    name: &str,
    domain: &str,
    resolver: &Resolver,
    tried: &[Answer],
) -> ResolvedName {
    if let Some(resolved) = tried.last().and_then(|last| result_of(name, last)) {
        return resolved;
    }
    let complete = name.strip_suffix('.').unwrap_or(name);
    let meant = meant_service(world, complete, domain, &client.namespace);
    let exists = meant
        .as_ref()
        .is_some_and(|(namespace, name)| world.service(namespace, name).is_some());
    if resolver.name_servers == NameServers::Outside && exists {
        return ResolvedName::NoName {
            reason: format!(
                "{}, and these servers do not know names of Services",
                resolver.reason
            ),
            object: resolver.object.clone(),
            field: resolver.field.clone(),
            service: meant,
        };
    }
    let is_of_cluster = complete == domain
        || complete.ends_with(&format!(".{domain}"))
        || !complete.contains('.')
        || exists
        || meant
            .as_ref()
            .is_some_and(|(namespace, _)| has_namespace(world, namespace));
    if !is_of_cluster {
        return ResolvedName::Outside {
            reason: format!("{complete} is not a name of the cluster: servers outside of it answer"),
            object: None,
            field: String::new(),
            service: None,
        };
    }
    let (reason, object, field) = absence(world, &meant, tried);
    ResolvedName::NoName {
        reason,
        object,
        field,
        service: meant,
    }
}

/// Returns the reason why a name of the cluster does not exist, with object and field.
fn absence(
    world: &World,
    meant: &Option<(String, String)>,
    tried: &[Answer],
) -> (String, Option<ObjectName>, String) {
    if let Some(found) = tried.iter().find(|found| found.kind == AnswerKind::NoAddress) {
        return (
            format!("{} exists without addresses", found.name),
            found.object.clone(),
            found.field.clone(),
        );
    }
    let service = meant
        .as_ref()
        .and_then(|(namespace, name)| world.service(namespace, name));
    let Some(service) = service else {
        let reason = match meant {
            Some((namespace, name)) => format!("namespace {namespace} has no Service {name}"),
            None => "the cluster has no such name".to_owned(),
        };
        return (reason, None, String::new());
    };
    let object = Some(service.object_name());
    let (namespace, name) = (&service.namespace, &service.name);
    if service.is_external_name() {
        let reason = "externalName is not a valid DNS name".to_owned();
        return (reason, object, "spec.externalName".to_owned());
    }
    let reason = format!("Service {namespace}/{name} has no published endpoint with this name");
    let field = if service.is_headless() {
        "spec.clusterIP"
    } else {
        ""
    };
    (reason, object, field.to_owned())
}

/// Returns namespace and name of the Service that a name means to a client in a namespace: `web`, `web.shop`,
/// `web.shop.svc`, the complete name, or a name below one of these.
fn meant_service(
    world: &World,
    name: &str,
    domain: &str,
    client_namespace: &str,
) -> Option<(String, String)> {
    let is_of_client = |service: &str| world.service(client_namespace, service).is_some();
    let below_domain = name.strip_suffix(domain).and_then(|name| name.strip_suffix('.'));
    let labels: Vec<&str> = below_domain.unwrap_or(name).split('.').collect();
    let (service, namespace) = match labels.as_slice() {
        [.., service, namespace, "svc"] => (*service, *namespace),
        [.., "pod"] => return None,
        _ if below_domain.is_some() => return None,
        [service] if !client_namespace.is_empty() => (*service, client_namespace),
        // An endpoint of a Service in the namespace of the client.
        [_, service] if is_of_client(service) && !has_namespace(world, service) => {
            (*service, client_namespace)
        }
        [.., service, namespace] => (*service, *namespace),
        _ => return None,
    };
    Some((namespace.to_owned(), service.to_owned()))
}

fn has_namespace(world: &World, namespace: &str) -> bool {
    world.object(Kind::Namespace, "", namespace).is_some()
        || world.namespaces().any(|known| known == namespace)
}

#[cfg(test)]
mod tests;
