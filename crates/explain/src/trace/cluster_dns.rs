//! Answers of cluster DNS to address queries (DNS-02, DNS-03, DNS-05, DNS-08, DNS-09, DNS-12, DNS-14, DNS-15).

use std::net::IpAddr;

use plan::Family;
use serde::Serialize;

use crate::facts::service_plan::PLACEHOLDERS;
use crate::finding::ObjectName;
use crate::kind::Kind;
use crate::views::{Endpoint, EndpointSlice, Service};
use crate::world::World;

/// Maximum number of ExternalName Services that one answer follows.
const ALIASES_MAX: usize = 8;
/// Service of cluster DNS, whose addresses are those of the name server of the zone (DNS-18, DNS-29).
const DNS_SERVICE: (&str, &str) = ("kube-system", "kube-dns");

/// Kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum AnswerKind {
    /// The name has addresses.
    #[serde(rename = "addresses")]
    Addresses,
    /// The name is an alias of a name outside of the cluster.
    #[serde(rename = "alias")]
    Alias,
    /// The name exists without addresses.
    #[serde(rename = "no address")]
    NoAddress,
    /// The name does not exist.
    #[serde(rename = "no such name")]
    NoName,
    /// Servers outside of the cluster answer; the objects do not show their answers.
    #[serde(rename = "outside")]
    Outside,
}

/// Answer to a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Name in the query, without the final dot.
    pub name: String,
    /// Kind.
    #[serde(rename = "answer")]
    pub kind: AnswerKind,
    /// Addresses of both families.
    pub addresses: Vec<IpAddr>,
    /// Names of the aliases that the answer contains, in order.
    pub aliases: Vec<String>,
    /// Object with the addresses or with the alias.
    pub object: Option<ObjectName>,
    /// Field of that object.
    pub field: String,
    /// Namespace and name of the last Service in the answer.
    #[serde(skip)]
    pub service: Option<(String, String)>,
}

impl Answer {
    fn new(name: &str, kind: AnswerKind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            addresses: Vec::new(),
            aliases: Vec::new(),
            object: None,
            field: String::new(),
            service: None,
        }
    }

    /// Returns the answer of servers outside of the cluster.
    pub fn outside(name: &str) -> Self {
        Self::new(name, AnswerKind::Outside)
    }

    fn with_source(mut self, object: &crate::object::Object, field: &str) -> Self {
        self.object = Some(object.object_name());
        field.clone_into(&mut self.field);
        self
    }
}

/// Returns the answer of cluster DNS to a name in lower case without the final dot. `domain` is the domain of the
/// cluster.
pub(super) fn answer(world: &World, domain: &str, name: &str) -> Answer {
    let mut answer = lookup(world, domain, name);
    answer.name = name.to_owned();
    answer
}

/// Returns the labels of a name below the domain; `None` if it is outside.
fn labels_below<'n>(name: &'n str, domain: &str) -> Option<Vec<&'n str>> {
    if name == domain {
        return Some(Vec::new());
    }
    let labels = name.strip_suffix(domain)?.strip_suffix('.')?;
    Some(labels.split('.').collect())
}

fn lookup(world: &World, domain: &str, name: &str) -> Answer {
    let mut aliases: Vec<String> = Vec::new();
    let mut at = name.to_owned();
    // Object and field of the first alias.
    let mut source: Option<Answer> = None;
    loop {
        let Some(labels) = labels_below(&at, domain) else {
            let kind = if aliases.is_empty() {
                AnswerKind::Outside
            } else {
                AnswerKind::Alias
            };
            return add_aliases(Answer::new(name, kind), source, aliases);
        };
        let found = answer_in_zone(world, &labels);
        let Some(target) = found.aliases.first().cloned() else {
            // An alias without addresses is omitted.
            return match source {
                Some(first) if found.addresses.is_empty() => Answer {
                    aliases: Vec::new(),
                    kind: AnswerKind::NoAddress,
                    ..first
                },
                _ => add_aliases(found, None, aliases),
            };
        };
        if aliases.len() >= ALIASES_MAX || target == at || target.ends_with(&format!(".{at}")) {
            return Answer {
                aliases: Vec::new(),
                kind: AnswerKind::NoAddress,
                ..source.unwrap_or(found)
            };
        }
        aliases.push(target.clone());
        source.get_or_insert(found);
        at = target;
    }
}

fn add_aliases(mut answer: Answer, source: Option<Answer>, aliases: Vec<String>) -> Answer {
    if let Some(source) = source {
        answer.object = source.object;
        answer.field = source.field;
        answer.service = source.service;
    }
    answer.aliases = aliases;
    answer
}

/// Answers a name of the zone. The aliases have at most one entry: the target, which is not followed.
fn answer_in_zone(world: &World, labels: &[&str]) -> Answer {
    let existing = |exists: bool| {
        let kind = if exists {
            AnswerKind::NoAddress
        } else {
            AnswerKind::NoName
        };
        Answer::new("", kind)
    };
    match labels {
        [] | ["svc" | "pod"] => existing(true),
        ["ns", "dns"] => {
            let (namespace, name) = DNS_SERVICE;
            let service = world.service(namespace, name);
            service.map_or_else(|| existing(true), |service| answer_service_name(world, service))
        }
        [namespace, "svc" | "pod"] => existing(has_namespace(world, namespace)),
        [label, namespace, "pod"] => answer_pod_name(world, label, namespace),
        [name, namespace, "svc"] => answer_of_service(world, namespace, name, |service| {
            answer_service_name(world, service)
        }),
        [label, name, namespace, "svc"] => answer_of_service(world, namespace, name, |service| {
            endpoints(world, service, |endpoint, address| {
                has_name(endpoint, address, label)
            })
        }),
        [port, protocol, name, namespace, "svc"] => {
            let plain = |label: &str| label.strip_prefix('_').unwrap_or(label).to_owned();
            let (port, protocol) = (plain(port), plain(protocol));
            answer_of_service(world, namespace, name, |service| {
                answer_port_name(world, service, &port, &protocol)
            })
        }
        _ => existing(false),
    }
}

fn answer_of_service(
    world: &World,
    namespace: &str,
    name: &str,
    read: impl FnOnce(Service<'_>) -> Answer,
) -> Answer {
    let Some(service) = world.service(namespace, name) else {
        return Answer::new("", AnswerKind::NoName);
    };
    let mut answer = read(service);
    answer.service = Some((namespace.to_owned(), name.to_owned()));
    answer
}

/// Answers the name of a Service.
fn answer_service_name(world: &World, service: Service<'_>) -> Answer {
    if service.is_external_name() {
        return answer_external_name(service);
    }
    if service.is_headless() {
        return endpoints(world, service, |_, _| true);
    }
    let assumed = || {
        let (v4, v6) = PLACEHOLDERS[0];
        let families = service.list("/spec/ipFamilies");
        let families = families.iter().filter_map(|family| family.as_str());
        let mut assumed: Vec<IpAddr> = families
            .filter_map(|family| if family == "IPv6" { v6 } else { v4 }.parse().ok())
            .collect();
        if assumed.is_empty() {
            assumed.extend(v4.parse::<IpAddr>().ok());
        }
        assumed
    };
    let mut answer = Answer::new("", AnswerKind::Addresses);
    let listed = service.cluster_ips();
    if listed.is_empty() {
        answer.addresses = assumed();
        return answer.with_source(service.0, "spec.clusterIPs (not assigned yet, assumed)");
    }
    for family in [Family::V4, Family::V6] {
        let mut family_addresses = listed.iter().filter(|address| Family::of(**address) == family);
        answer.addresses.extend(family_addresses.next());
    }
    answer.with_source(service.0, "spec.clusterIPs")
}

/// Answers the name of an ExternalName Service (DNS-12). An alias to an address does not exist (DNS-21).
fn answer_external_name(service: Service<'_>) -> Answer {
    let target = service.text("/spec/externalName").trim_end_matches('.');
    let is_name = !target.is_empty() && target.parse::<IpAddr>().is_err();
    let mut answer = Answer::new(
        "",
        if is_name {
            AnswerKind::Alias
        } else {
            AnswerKind::NoName
        },
    );
    answer
        .aliases
        .extend(is_name.then(|| target.to_ascii_lowercase()));
    answer.with_source(service.0, "spec.externalName")
}

/// Answers the name of a port. Empty labels match every port.
fn answer_port_name(world: &World, service: Service<'_>, port: &str, protocol: &str) -> Answer {
    let is_match = |name: &str, of: &str| {
        (port.is_empty() || name.eq_ignore_ascii_case(port))
            && (protocol.is_empty() || of.eq_ignore_ascii_case(protocol))
    };
    if service.is_external_name() {
        return Answer::new("", AnswerKind::NoName);
    }
    if service.is_headless() {
        return endpoints_of(
            world,
            service,
            |_, _| true,
            |slice| {
                let ports: Vec<_> = slice.ports().collect();
                ports.is_empty() && is_match("", "")
                    || ports.iter().any(|(name, protocol, _)| is_match(name, protocol))
            },
        );
    }
    let has_port = service.ports().iter().any(|own| is_match(own.name, own.protocol));
    if has_port {
        answer_service_name(world, service)
    } else {
        Answer::new("", AnswerKind::NoName)
    }
}

fn endpoints(
    world: &World,
    service: Service<'_>,
    is_wanted: impl Fn(Endpoint<'_>, IpAddr) -> bool,
) -> Answer {
    endpoints_of(world, service, is_wanted, |_| true)
}

/// Answers with the published endpoints of a Service (DNS-03, DNS-08, DNS-09).
fn endpoints_of(
    world: &World,
    service: Service<'_>,
    is_wanted: impl Fn(Endpoint<'_>, IpAddr) -> bool,
    has_port: impl Fn(EndpointSlice<'_>) -> bool,
) -> Answer {
    let mut answer = Answer::new("", AnswerKind::NoName);
    if service.is_external_name() {
        return answer;
    }
    let slices = world
        .slices_of(service)
        .filter(|slice| slice.address_type() != "FQDN" && has_port(*slice));
    for slice in slices {
        for endpoint in slice.endpoints() {
            if !endpoint.is_ready() && !service.publishes_not_ready() {
                continue;
            }
            let addresses = endpoint.addresses().filter_map(|text| text.parse().ok());
            let requested = addresses.filter(|address| is_wanted(endpoint, *address));
            answer.addresses.extend(requested);
        }
        if answer.object.is_none() && !answer.addresses.is_empty() {
            answer = answer.with_source(slice.0, "endpoints");
        }
    }
    answer.addresses.sort_unstable();
    answer.addresses.dedup();
    if !answer.addresses.is_empty() {
        answer.kind = AnswerKind::Addresses;
    }
    answer
}

/// Returns true if a label names an endpoint: by its host name, or else by its address with dashes (DNS-02).
fn has_name(endpoint: Endpoint<'_>, address: IpAddr, label: &str) -> bool {
    match endpoint.hostname() {
        "" => address.to_string().replace(['.', ':'], "-") == label,
        hostname => hostname.eq_ignore_ascii_case(label),
    }
}

/// Answers the name of a Pod, which contains its address (DNS-14, mode `insecure`).
fn answer_pod_name(world: &World, label: &str, namespace: &str) -> Answer {
    let address = label.replace('-', ".").parse::<IpAddr>();
    let address = address.or_else(|_| label.replace('-', ":").parse());
    let Some(address) = address.ok().filter(|_| has_namespace(world, namespace)) else {
        return Answer::new("", AnswerKind::NoName);
    };
    let mut answer = Answer::new("", AnswerKind::Addresses);
    answer.addresses.push(address);
    answer
}

fn has_namespace(world: &World, namespace: &str) -> bool {
    let exists = || world.namespaces().any(|known| known == namespace);
    world.object(Kind::Namespace, "", namespace).is_some() || !world.has(Kind::Namespace) && exists()
}

#[cfg(test)]
mod tests;
