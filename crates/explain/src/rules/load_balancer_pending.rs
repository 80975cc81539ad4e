//! PTL-0022: the load balancer is pending.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{node_unusable, service_terminating};
use crate::facts::address_request::requested_addresses;
use crate::facts::pools::{POOL_ANNOTATIONS, Pool, pools};
use crate::facts::similar_names::nearest_name;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{Port, Service};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("load_balancer_pending.md"),
    explained_by: &[service_terminating::CODE, node_unusable::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(22);
/// Condition of Portolan's assigner.
const ASSIGNED_CONDITION: &str = "portolan.dev/AddressAssigned";
/// Annotations with the key of Services that share an address.
const SHARING: [&str; 3] = [
    "portolan.dev/allow-shared-ip",
    "metallb.io/allow-shared-ip",
    "metallb.universe.tf/allow-shared-ip",
];
/// Reasons of Events about failed assignments.
const EVENT_REASONS: [&str; 6] = [
    "AllocationFailed",
    "SyncLoadBalancerFailed",
    "CreatingLoadBalancerFailed",
    "UnAvailableLoadBalancer",
    "FailedBuildModel",
    "FailedDeployModel",
];

/// Reason why no address is assigned.
struct Reason {
    field: String,
    text: String,
    remedy: String,
}

impl Reason {
    fn new(field: impl Into<String>, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            text: text.into(),
            remedy: remedy.into(),
        }
    }
}

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    let is_pending =
        service.kind() == "LoadBalancer" && service.0.list("/status/loadBalancer/ingress").is_empty();
    if !is_pending {
        return Vec::new();
    }
    let pools = pools(subject.world);
    let reason = reported_reason(subject)
        .or_else(|| unserved_class(subject))
        .or_else(|| requested_address(subject, &pools))
        .or_else(|| requested_pool(subject, &pools))
        .or_else(|| missing_family(subject, &pools))
        .or_else(|| exhausted_pools(subject, &pools))
        .unwrap_or_else(|| unknown_reason(subject, &pools));
    let message = format!(
        "Service {} has no load balancer IP: {}",
        service.name, reason.text
    );
    let finding = subject.finding(CODE, Severity::Error, reason.field, message, reason.remedy);
    vec![match subject.world.latest_event(service.0, &EVENT_REASONS) {
        Some(event) => finding.with_evidence(format!("Event {}: {}", event.reason(), event.message())),
        None => finding,
    }]
}

/// Returns an annotation of the Service under one of several names.
fn annotation<'w>(service: Service<'w>, names: &[&'static str]) -> Option<(&'static str, &'w str)> {
    names
        .iter()
        .find_map(|name| Some((*name, service.0.annotation(name)?.trim())))
}

/// Returns the reason that the assigner states in a condition.
fn reported_reason(subject: &Subject<'_>) -> Option<Reason> {
    let condition = subject.service.0.condition(ASSIGNED_CONDITION)?;
    let message = condition["message"]
        .as_str()
        .filter(|message| !message.is_empty())?;
    let remedy = format!(
        "Change what the message names: {}",
        kubectl::command("edit", subject.service.0)
    );
    (condition["status"] == "False").then(|| {
        let field = format!("status.conditions[{ASSIGNED_CONDITION}]");
        Reason::new(field, message.trim_end_matches('.'), remedy)
    })
}

/// Reports that no Service of the class has an address.
fn unserved_class(subject: &Subject<'_>) -> Option<Reason> {
    let service = subject.service;
    let class = Some(service.0.text("/spec/loadBalancerClass")).filter(|class| !class.is_empty())?;
    let mut others = subject.world.services();
    let is_served = others.any(|other| {
        other.0.text("/spec/loadBalancerClass") == class
            && !other.0.list("/status/loadBalancer/ingress").is_empty()
    });
    let remedy = format!(
        "Install or start the controller of the class. The class of a Service cannot be changed: create the Service again for another one: {}",
        kubectl::command("delete", service.0)
    );
    let text = format!("its class is {class}, and no Service of this class has an address");
    (!is_served).then(|| Reason::new("spec.loadBalancerClass", text, remedy))
}

/// Reports that a requested address belongs to another Service, or to no pool.
fn requested_address(subject: &Subject<'_>, pools: &[Pool<'_>]) -> Option<Reason> {
    let service = subject.service;
    let (field, addresses) = requested_addresses(service)?;
    for address in &addresses {
        let mut holders = subject
            .world
            .services_at(*address)
            .filter(|other| other.ingress_ips().contains(address));
        if let Some(text) = holders.find_map(|holder| conflict(service, holder)) {
            let remedy = format!(
                "Request another address, or share it with the same key and other ports: {}",
                kubectl::command("edit", service.0)
            );
            return Some(Reason::new(
                field,
                format!("the requested address {address} {text}"),
                remedy,
            ));
        }
        let is_known = !pools.is_empty() && pools.iter().all(Pool::is_readable);
        if is_known && !pools.iter().any(|pool| pool.contains(*address)) {
            let names: Vec<&str> = pools.iter().map(|pool| pool.object.name.as_str()).collect();
            let text = format!(
                "the requested address {address} is in no pool ({})",
                names.join(", ")
            );
            let remedy = format!(
                "Request an address of a pool, or add the address to one: {}",
                kubectl::command("edit", pools.first()?.object)
            );
            return Some(Reason::new(field, text, remedy));
        }
    }
    None
}

/// Returns the reason why two Services cannot share an address.
fn conflict(service: Service<'_>, holder: Service<'_>) -> Option<String> {
    let name = format!("{}/{}", holder.0.namespace, holder.0.name);
    let key = |service| annotation(service, &SHARING).map(|(_, key)| key);
    let (own, theirs) = (key(service), key(holder));
    if own.is_none() || theirs.is_none() {
        return Some(format!(
            "is in use by Service {name}, and not both Services have a sharing key"
        ));
    }
    if own != theirs {
        return Some(format!(
            "is in use by Service {name}, which has another sharing key"
        ));
    }
    let ports = holder.ports();
    let is_taken = |port: &Port<'_>| {
        ports
            .iter()
            .any(|other| other.number == port.number && other.protocol == port.protocol)
    };
    let port = service.ports().into_iter().find(is_taken)?;
    Some(format!(
        "is shared with Service {name}, which has port {port}, too"
    ))
}

/// Reports that the requested pool does not exist.
fn requested_pool(subject: &Subject<'_>, pools: &[Pool<'_>]) -> Option<Reason> {
    let (name, requested) = annotation(subject.service, &POOL_ANNOTATIONS)?;
    let names = || pools.iter().map(|pool| pool.object.name.as_str());
    if pools.is_empty() || names().any(|name| name == requested) {
        return None;
    }
    let similar = nearest_name(requested, names())
        .map_or_else(String::new, |similar| format!(". The nearest name is {similar}"));
    let text = format!("the requested pool {requested} does not exist{similar}");
    let remedy = format!(
        "Request one of the pools {}: {}",
        names().collect::<Vec<_>>().join(", "),
        kubectl::command("edit", subject.service.0)
    );
    Some(Reason::new(format!("metadata.annotations[{name}]"), text, remedy))
}

/// Returns the families that the Service needs.
fn families(service: Service<'_>) -> Vec<bool> {
    let names: Vec<bool> = service
        .0
        .list("/spec/ipFamilies")
        .iter()
        .map(|name| *name == "IPv6")
        .collect();
    match service.0.text("/spec/ipFamilyPolicy") {
        // One of two families is enough.
        "PreferDualStack" if names.len() > 1 => Vec::new(),
        _ => names,
    }
}

/// Reports that no pool has addresses of a family of the Service.
fn missing_family(subject: &Subject<'_>, pools: &[Pool<'_>]) -> Option<Reason> {
    if pools.is_empty() || !pools.iter().all(Pool::is_readable) {
        return None;
    }
    let is_missing = |is_v6: &bool| !pools.iter().any(|pool| pool.has_family(*is_v6));
    let family = if families(subject.service).into_iter().find(is_missing)? {
        "IPv6"
    } else {
        "IPv4"
    };
    let text = format!("it has the family {family}, and no pool has {family} addresses");
    let remedy = format!(
        "Add {family} addresses to a pool: {}. Or remove the family from the Service",
        kubectl::command("edit", pools.first()?.object)
    );
    Some(Reason::new("spec.ipFamilies", text, remedy))
}

/// Reports that all addresses of the usable pools are assigned.
fn exhausted_pools(subject: &Subject<'_>, pools: &[Pool<'_>]) -> Option<Reason> {
    let requested = annotation(subject.service, &POOL_ANNOTATIONS).map(|(_, name)| name);
    let is_usable = |pool: &&Pool<'_>| match requested {
        Some(name) => pool.object.name == name,
        None => pool.is_automatic(),
    };
    let usable: Vec<&Pool<'_>> = pools.iter().filter(is_usable).collect();
    let first = usable.first()?;
    let used: BTreeSet<IpAddr> = subject.world.services().flat_map(Service::ingress_ips).collect();
    let is_full = |is_v6: &bool| {
        usable
            .iter()
            .all(|pool| pool.is_readable() && (pool.is_full(*is_v6, &used) || !pool.has_family(*is_v6)))
    };
    families(subject.service).into_iter().find(is_full)?;
    let names: Vec<&str> = usable.iter().map(|pool| pool.object.name.as_str()).collect();
    let text = format!("all addresses of the pool {} are assigned", names.join(", "));
    let remedy = format!(
        "Add addresses to the pool, or delete a Service with an address: {}",
        kubectl::command("edit", first.object)
    );
    Some(Reason::new("spec.type", text, remedy))
}

/// The objects do not show the reason, or show that no controller assigns addresses.
fn unknown_reason(subject: &Subject<'_>, pools: &[Pool<'_>]) -> Reason {
    let service = subject.service;
    let world = subject.world;
    if let Some(event) = world.latest_event(service.0, &EVENT_REASONS) {
        let message = event.message().trim().trim_end_matches('.').to_owned();
        return Reason::new(
            "spec.type",
            message,
            format!(
                "Change what the message names: {}",
                kubectl::command("edit", service.0)
            ),
        );
    }
    if !pools.is_empty()
        && annotation(service, &POOL_ANNOTATIONS).is_none()
        && pools.iter().all(|pool| !pool.is_automatic())
    {
        let name = &pools[0].object.name;
        let text = "no pool assigns addresses to Services that request none (autoAssign is false)";
        let remedy = format!(
            "Request a pool: {} {}={name}",
            kubectl::command("annotate", service.0),
            POOL_ANNOTATIONS[0]
        );
        return Reason::new("metadata.annotations", text, remedy);
    }
    if let [pool] = pools
        && !pool.serves_all()
    {
        let text = format!(
            "the only pool, {}, selects the Services or namespaces that it serves",
            pool.object.name
        );
        return Reason::new(
            "metadata.labels",
            text,
            format!(
                "Compare the selectors with the labels: {}",
                kubectl::command("get -o yaml", pool.object)
            ),
        );
    }
    let has_kind = world.has(Kind::AddressPool) || world.has(Kind::IpAddressPool);
    if has_kind && pools.is_empty() {
        let remedy = "Create an AddressPool with addresses of the network: kubectl explain addresspool.spec";
        return Reason::new("spec.type", "no address pool exists", remedy);
    }
    let mut others = world.services().filter(|other| other.kind() == "LoadBalancer");
    let text = if others.any(|other| !other.0.list("/status/loadBalancer/ingress").is_empty()) {
        "the controller of load balancers has not assigned one"
    } else {
        "no controller of load balancers serves it"
    };
    let remedy = format!(
        "Run a controller of load balancers, such as portolan balancer, and read its log. Or use node ports: {}",
        kubectl::replace(service.0, "/spec/type", "NodePort")
    );
    Reason::new("spec.type", text, remedy)
}
