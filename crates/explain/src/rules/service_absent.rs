//! PTL-0001: the Service does not exist.

use std::collections::BTreeMap;

use crate::facts::references::Reference;
use crate::facts::similar_names::{is_similar, nearest_name};
use crate::finding::{Code, Finding, ObjectName, Severity};
use crate::kind::Kind;
use crate::object::Object;
use crate::rule::Rule;
use crate::subject::{finding_about, workload_of};
use crate::views::{Pod, Route, Service};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("service_absent.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

const CODE: Code = Code(1);
/// Port name of backends of an Ingress that stand for an action of the AWS load balancer controller.
const ACTION_PORT: &str = "use-annotation";
/// Ends of the names of StatefulSets whose charts name a governing Service and create none: Argo CD, the operator of
/// Elasticsearch. No client connects to their Pods by name.
const CONTROLLERS: [&str; 2] = ["-controller", "-operator"];

/// Returns the finding for a Service that the user named and that does not exist.
pub(crate) fn absent_service(world: &World, namespace: &str, name: &str) -> Finding {
    let (message, remedy) = describe(world, namespace, name);
    Finding {
        code: CODE,
        severity: Severity::Error,
        object: ObjectName {
            kind: Kind::Service.name().to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        field: "metadata.name".to_owned(),
        message,
        remedy,
        evidence: Vec::new(),
    }
}

/// Returns message and remedy for an absent Service: the same name in other namespaces, or the nearest name.
fn describe(world: &World, namespace: &str, name: &str) -> (String, String) {
    let absent = format!("Service {namespace}/{name} does not exist");
    let elsewhere: Vec<&str> = world
        .services_named(name)
        .map(|service| service.0.namespace.as_str())
        .collect();
    if let Some(first) = elsewhere.first() {
        let places: Vec<String> = elsewhere.iter().map(|place| format!("{place}/{name}")).collect();
        return (
            format!(
                "{absent}. A Service of this name exists in another namespace: {}. A short name is resolved in the namespace of \
                 the client",
                places.join(", ")
            ),
            format!("Use the name with its namespace: {name}.{first}.svc"),
        );
    }
    let names = world
        .in_namespace(Kind::Service, namespace)
        .map(|service| service.name.as_str());
    match nearest_name(name, names) {
        Some(other) => (
            format!("{absent}. The nearest name is {namespace}/{other}"),
            format!(
                "Create the Service, or use the name {other}: kubectl -n {namespace} get service {other}"
            ),
        ),
        None => (
            absent,
            format!(
                "Create the Service, for example: kubectl -n {namespace} expose deployment {name} --name={name} --port=80"
            ),
        ),
    }
}

/// Reports references of Ingresses, routes, webhooks, StatefulSets and Pods to Services that do not exist.
fn check(world: &World) -> Vec<Finding> {
    if !world.has(Kind::Service) {
        return Vec::new();
    }
    let mut findings = named_by_routes(world);
    findings.extend(named_by_stateful_sets(world));
    findings.extend(named_by_subdomains(world));
    findings.extend(named_by_pods(world));
    findings
}

fn named_by_routes(world: &World) -> Vec<Finding> {
    let mut findings = Vec::new();
    for route in Route::KINDS
        .into_iter()
        .flat_map(|kind| world.all(kind))
        .map(Route)
    {
        for backend in route.backends() {
            let is_service = !backend.service.is_empty() && backend.port_name != ACTION_PORT;
            if !is_service || world.service(backend.namespace, backend.service).is_some() {
                continue;
            }
            let (message, remedy) = describe(world, backend.namespace, backend.service);
            let finding = finding_about(
                route.0,
                CODE,
                Severity::Error,
                backend.name_field,
                message,
                remedy,
            );
            findings.push(if route.0.kind == Kind::Ingress {
                finding.with_evidence("An Ingress reaches Services of its own namespace only")
            } else {
                finding
            });
        }
    }
    findings
}

/// The Pods of a StatefulSet have DNS names only through its headless Service.
fn named_by_stateful_sets(world: &World) -> Vec<Finding> {
    let sets = world.all(Kind::StatefulSet);
    let finding = |set: &Object| {
        let name = set.text("/spec/serviceName");
        if name.is_empty() || is_of_controller(name) || world.service(&set.namespace, name).is_some() {
            return None;
        }
        let message = format!(
            "Service {}/{name}, which gives the Pods of the StatefulSet their DNS names, does not exist",
            set.namespace
        );
        let remedy = format!(
            "Create it: kubectl -n {} create service clusterip {name} --clusterip=None, with the labels of the Pods as selector",
            set.namespace
        );
        Some(finding_about(
            set,
            CODE,
            Severity::Warning,
            "spec.serviceName",
            message,
            remedy,
        ))
    };
    sets.filter_map(finding).collect()
}

/// Returns true if a name of a governing Service is that of a controller, whose Pods need no DNS names.
fn is_of_controller(name: &str) -> bool {
    CONTROLLERS.iter().any(|end| name.ends_with(end))
}

/// Pods with a subdomain have DNS names only through a headless Service of this name. The StatefulSet of a Pod is
/// reported instead of it.
fn named_by_subdomains(world: &World) -> Vec<Finding> {
    let pods = world.all(Kind::Pod).map(Pod).filter(|pod| pod.is_active());
    let without_set = pods.filter(|pod| {
        let is_of_set = workload_of(*pod).0 == Kind::StatefulSet.name();
        !is_of_set || !world.has(Kind::StatefulSet)
    });
    let finding = |pod: Pod<'_>| {
        let name = pod.0.text("/spec/subdomain");
        if name.is_empty() || is_of_controller(name) || world.service(&pod.0.namespace, name).is_some() {
            return None;
        }
        let message = format!(
            "Service {}/{name}, which gives the Pod its DNS name, does not exist",
            pod.0.namespace
        );
        let remedy = format!(
            "Create it: kubectl -n {} create service clusterip {name} --clusterip=None, with the labels of the Pod as selector",
            pod.0.namespace
        );
        Some(finding_about(
            pod.0,
            CODE,
            Severity::Warning,
            "spec.subdomain",
            message,
            remedy,
        ))
    };
    without_set.filter_map(finding).collect()
}

/// Reports names in the configuration of Pods. A name with `svc` always means a Service. A short name is reported
/// only if another namespace has a Service with that name and port. A Service with a similar name in its own
/// namespace also suffices.
fn named_by_pods(world: &World) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Many Pods use the same names.
    let mut resembling: BTreeMap<(&str, &str, Option<u16>), bool> = BTreeMap::new();
    for (pod, reference) in world.references() {
        let (namespace, name) = (&reference.namespace, &reference.service);
        if reference.address.is_some() || !pod.is_active() || world.service(namespace, name).is_some() {
            continue;
        }
        let mut resembles = || {
            // Search domains of a Pod can complete a name in another way.
            let has_searches = !pod.0.list("/spec/dnsConfig/searches").is_empty();
            // With another policy, the resolver of the node answers.
            let asks_cluster = matches!(pod.0.text("/spec/dnsPolicy"), "" | "ClusterFirst");
            let is_short =
                reference.is_address && !reference.host().contains('.') && !has_searches && asks_cluster;
            let key = (namespace.as_str(), name.as_str(), reference.used_port());
            let known = resembling.entry(key);
            is_short
                && !pod.is_on_host_network()
                && *known.or_insert_with(|| resembles_neighbour(world, reference))
        };
        if reference.is_service_name
            || is_elsewhere(world, reference)
            || is_misspelled(world, pod, reference)
            || resembles()
        {
            let (message, remedy) = describe(world, namespace, name);
            let message = format!("The Pod uses {}. {message}", reference.text);
            let field = reference.field.clone();
            findings.push(finding_about(
                pod.0,
                CODE,
                Severity::Warning,
                field,
                message,
                remedy,
            ));
        }
    }
    findings
}

/// Returns true if another namespace has a Service with the name and the port.
fn is_elsewhere(world: &World, reference: &Reference) -> bool {
    world.services_named(&reference.service).any(|service| {
        let mut ports = service.ports().into_iter();
        reference
            .port
            .is_none_or(|number| ports.any(|port| port.number == number))
    })
}

/// A name such as `web-svc.shop` can be in a domain of the Internet. It means a Service if its last label is another
/// namespace with a Service of a similar name.
fn is_misspelled(world: &World, pod: Pod<'_>, reference: &Reference) -> bool {
    let namespace = &reference.namespace;
    let names = || {
        let services = world.in_namespace(Kind::Service, namespace);
        services.map(|service| service.name.as_str())
    };
    *namespace != pod.0.namespace
        && reference.is_address
        && nearest_name(&reference.service, names()).is_some()
}

/// A URL with a name of one label can mean a host outside of the cluster. It means a Service if the namespace has one
/// with a similar name and the same port.
fn resembles_neighbour(world: &World, reference: &Reference) -> bool {
    let Some(number) = reference.used_port() else {
        return false;
    };
    let services = world.in_namespace(Kind::Service, &reference.namespace);
    let mut similar = services.filter(|service| is_similar(&reference.service, &service.name));
    similar.any(|service| {
        let mut ports = Service(service).ports().into_iter();
        ports.any(|port| port.number == number)
    })
}
