//! PTL-0002: the selector matches no Pod.

use std::collections::BTreeMap;

use super::{endpoints_edited, service_terminating};
use crate::facts::similar_names::{edit_distance, is_similar};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, workload_of};
use crate::views::{Pod, Workload};
use crate::world::COMPARED_PODS_MAX;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("selector_matches_no_pod.md"),
    explained_by: &[endpoints_edited::CODE, service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(2);
const FIELD: &str = "spec.selector";
/// Namespace of the components of control planes. Charts for monitoring create headless Services for these components
/// in any cluster. Managed clusters and some distributions do not run them as Pods.
pub(super) const SYSTEM_NAMESPACE: &str = "kube-system";
/// End of the keys of labels with the role of an instance.
const ROLE: &str = "role";
/// Values of such labels for roles that an application with one instance does not have.
const REPLICAS: [&str; 5] = ["replica", "standby", "slave", "secondary", "follower"];
/// End of the name of the canary Service that Flagger creates for an application.
const CANARY: &str = "-canary";
/// End of the name of the primary Service that Flagger creates for an application.
const PRIMARY: &str = "-primary";
/// Namespace and name of the Service of the DNS servers.
const DNS_SERVICE: (&str, &str) = (SYSTEM_NAMESPACE, "kube-dns");
/// Names of components of the control plane.
pub(super) const CONTROL_PLANE: [&str; 6] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kube-etcd",
    "etcd",
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    let is_known = subject.has(Kind::Pod) || subject.world.is_manifest();
    let is_matched = !subject.selected().is_empty() && !subject.has_only_replaced();
    if !service.has_selector() || is_without_clients(subject) || is_idle_canary(subject) {
        return Vec::new();
    }
    if is_matched {
        return only_finished_pods(subject).into_iter().collect();
    }
    let workloads = subject
        .world
        .workloads_with(&service.namespace, &service.selector());
    if !workloads.is_empty() && subject.selected().is_empty() {
        return scaled_to_zero(subject, &workloads).into_iter().collect();
    }
    if !is_known {
        return similar_workload(subject).into_iter().collect();
    }
    if is_of_replicas(subject) {
        return no_replica(subject).into_iter().collect();
    }
    no_matching_pod(subject).into_iter().collect()
}

/// Reports that no Pod has the labels of the selector, with the nearest Pod, or with a Pod of another namespace.
fn no_matching_pod(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let selector = format_labels(&service.selector());
    let finding = |message: String, remedy: String| {
        let message = format!(
            "The selector {selector} matches no Pod in namespace {}{message}",
            service.namespace
        );
        subject.finding(CODE, Severity::Error, FIELD, message, remedy)
    };
    let pods = subject
        .world
        .in_namespace(Kind::Pod, &service.namespace)
        .take(COMPARED_PODS_MAX)
        .map(Pod)
        .filter(|pod| !pod.is_finished());
    if let Some((pod, labels)) = nearest_pod(subject, pods) {
        let remedy = kubectl::set_selector(service.0, labels.iter().copied());
        let message = format!(
            ". The nearest is Pod {}, which has {}",
            pod.name,
            differences(subject, &labels)
        );
        return Some(finding(message, remedy));
    }
    if let Some(pod) = pod_of_other_namespace(subject) {
        let message = format!(
            ". Pods in namespace {} match. A selector matches Pods of its own namespace only",
            pod.namespace
        );
        let remedy = format!(
            "Create the Service in namespace {}, or the Pods in namespace {}",
            pod.namespace, service.namespace
        );
        let evidence = format!("Pod {}/{} matches", pod.namespace, pod.name);
        return Some(finding(message, remedy).with_evidence(evidence));
    }
    if subject.lacks_pods() || !shows_absence(subject) || is_of_control_plane(subject) {
        return None;
    }
    let remedy = format!(
        "Create Pods with the labels {selector}, or change the selector. Labels of the Pods: kubectl -n {} get pods --show-labels",
        service.namespace
    );
    Some(finding(String::new(), remedy))
}

/// Returns true for a headless Service without ports that gives no Pods their names: no client connects to it. Upgrades of
/// charts leave such Services.
fn is_without_clients(subject: &Subject<'_>) -> bool {
    let service = subject.service;
    let mut sets = subject.world.in_namespace(Kind::StatefulSet, &service.namespace);
    let governs = sets.any(|set| set.text("/spec/serviceName") == service.name);
    service.is_headless() && service.ports().is_empty() && !governs && !subject.is_named
}

/// Returns true for the canary Service of Flagger, which has Pods during a release only. Flagger names the other Service.
fn is_idle_canary(subject: &Subject<'_>) -> bool {
    let service = subject.service;
    let application = service.name.strip_suffix(CANARY);
    let primary = application.map(|application| format!("{application}{PRIMARY}"));
    let has_primary = primary.is_some_and(|name| subject.world.service(&service.namespace, &name).is_some());
    has_primary && !subject.is_named
}

/// Returns true if the selector requires the role of a replica, and matches Pods with other roles except for that. A
/// database with one instance has no replica.
fn is_of_replicas(subject: &Subject<'_>) -> bool {
    let service = subject.service;
    let is_role = |(key, value): &(&str, &str)| {
        key.to_ascii_lowercase().ends_with(ROLE) && REPLICAS.iter().any(|replica| replica == value)
    };
    let (roles, others): (Vec<_>, Vec<_>) = service.selector().into_iter().partition(is_role);
    let has_roles = |pod: &Pod<'_>| roles.iter().all(|(key, _)| pod.0.label(key).is_some());
    let instances = subject.world.pods_with(&service.namespace, &others);
    !roles.is_empty() && instances.iter().any(|pod| pod.is_active() && has_roles(pod))
}

/// Reports that there is no replica, if the user names the Service.
fn no_replica(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let message = format!(
        "The selector {} matches no Pod: no instance of the application has this role",
        format_labels(&service.selector())
    );
    let remedy = format!(
        "Add an instance of the application, or use the Service of the other role. Roles of the Pods: kubectl -n {} get pods --show-labels",
        service.namespace
    );
    subject
        .is_named
        .then(|| subject.finding(CODE, Severity::Info, FIELD, message, remedy))
}

/// Without Pods in the input, slices without endpoints and a workload with similar labels show that the selector is at
/// fault.
fn similar_workload(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let slices = subject.slices();
    let has_endpoints = slices.iter().any(|slice| slice.endpoints().next().is_some());
    if !subject.has(Kind::EndpointSlice) || slices.is_empty() || has_endpoints {
        return None;
    }
    let (world, namespace) = (subject.world, service.0.namespace.as_str());
    let workloads = Workload::KINDS.into_iter().flat_map(|kind| {
        let workloads_of_kind = world.in_namespace(kind, namespace);
        workloads_of_kind.take(COMPARED_PODS_MAX).map(Workload)
    });
    let running = workloads.filter(|workload| workload.0.controller().is_none() && workload.desired() > 0);
    let similar = running.filter_map(|workload| {
        let (cost, labels) = resembling_labels(subject, &workload.template_labels().collect())?;
        Some((cost, workload, labels))
    });
    let (_, workload, labels) = similar.min_by_key(|(cost, ..)| *cost)?;
    let message = format!(
        "The selector {} matches no Pod in namespace {}: no EndpointSlice has an endpoint. The nearest workload is {} {}, whose Pods have {}",
        format_labels(&service.selector()),
        service.namespace,
        workload.kind.name(),
        workload.name,
        differences(subject, &labels)
    );
    let remedy = kubectl::set_selector(service.0, labels.iter().copied());
    Some(subject.finding(CODE, Severity::Error, FIELD, message, remedy))
}

/// Finished Pods are not endpoints. Reports Services whose selector matches finished Pods only. The finished Pods
/// remain of a workload that was scaled to zero. Finished Pods of Jobs count if other Pods, which no Service selects,
/// have similar labels. Batch systems use headless Services.
fn only_finished_pods(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let pods = subject.selected();
    if !pods.iter().all(|pod| pod.is_finished()) {
        return None;
    }
    let workloads = subject
        .world
        .workloads_with(&service.namespace, &service.selector());
    if !workloads.is_empty() {
        return scaled_to_zero(subject, &workloads);
    }
    let is_of_job = |pod: &Pod<'_>| workload_of(*pod).0 == Kind::Job.name();
    if service.is_headless() || !pods.iter().all(is_of_job) {
        return None;
    }
    let unselected = subject.world.unselected_pods(&service.namespace);
    let (pod, labels) = nearest_pod(subject, unselected)?;
    let message = format!(
        "The selector {} matches only finished Pods of Jobs, such as {}. The nearest Pod that runs is {}, which has {}",
        format_labels(&service.selector()),
        pods.first()?.name,
        pod.name,
        differences(subject, &labels)
    );
    let remedy = kubectl::set_selector(service.0, labels.iter().copied());
    Some(subject.finding(CODE, Severity::Error, FIELD, message, remedy))
}

/// Returns the labels that differ from those of the selector.
fn differences(subject: &Subject<'_>, labels: &[(&str, &str)]) -> String {
    let requested = subject.service.selector().into_iter();
    let differing: Vec<String> = requested
        .zip(labels)
        .filter(|(requested, found)| requested != *found)
        .map(|(requested, found)| {
            format!(
                "{}={} instead of {}={}",
                found.0, found.1, requested.0, requested.1
            )
        })
        .collect();
    differing.join(", ")
}

/// Returns true for a headless Service for a component of the control plane that the cluster does not run as a Pod.
fn is_of_control_plane(subject: &Subject<'_>) -> bool {
    let service = subject.service;
    let is_component = |value: &str| CONTROL_PLANE.contains(&value);
    service.is_headless()
        && service.0.namespace == SYSTEM_NAMESPACE
        && service.selector().iter().any(|(_, value)| is_component(value))
}

/// Without workloads in the input, a Service without Pods can belong to one that is scaled to zero. Pods that no
/// Service selects show that their labels are the fault, and a user who names the Service expects Pods. A manifest can
/// be one of several, so it shows nothing.
fn shows_absence(subject: &Subject<'_>) -> bool {
    let world = subject.world;
    let has_workloads = Workload::KINDS.into_iter().any(|kind| subject.has(kind));
    let mut unselected = world.unselected_pods(&subject.service.namespace);
    subject.has(Kind::Pod) && (subject.is_named || has_workloads || unselected.next().is_some())
}

/// Reports workloads without Pods: scaled to zero on purpose. They are reported if the user names the Service. All clients
/// need the DNS servers of the cluster. Workloads that should have Pods are a finding of their own (PTL-0005).
fn scaled_to_zero(subject: &Subject<'_>, workloads: &[Workload<'_>]) -> Option<Finding> {
    let is_zero = workloads.iter().all(|workload| workload.desired() == 0);
    let workload = workloads
        .iter()
        .find(|workload| workload.kind != Kind::ReplicaSet);
    let workload = workload.or(workloads.first())?;
    let service = subject.service;
    let is_dns = (service.namespace.as_str(), service.0.name.as_str()) == DNS_SERVICE;
    if !is_zero || !subject.is_named && !is_dns {
        return None;
    }
    let (severity, effect) = if is_dns {
        (Severity::Error, ", so no name of the cluster resolves")
    } else {
        (Severity::Info, "")
    };
    let state = if subject.selected().is_empty() {
        "No Pod exists"
    } else {
        "All Pods have finished"
    };
    let message = format!(
        "{state}: {} {}, whose Pods the selector matches, is scaled to 0{effect}",
        workload.kind.name(),
        workload.name
    );
    let remedy = format!("{} --replicas=1", kubectl::command("scale", workload.0));
    Some(subject.finding(CODE, severity, FIELD, message, remedy))
}

/// Returns the Pod whose labels resemble the selector most, with the selector that matches it.
fn nearest_pod<'w>(
    subject: &Subject<'w>,
    pods: impl Iterator<Item = Pod<'w>>,
) -> Option<(Pod<'w>, Vec<(&'w str, &'w str)>)> {
    let mut best: Option<(usize, Pod<'w>, Vec<(&'w str, &'w str)>)> = None;
    for pod in pods {
        if let Some((cost, matched)) = resembling_labels(subject, &pod.0.labels().collect())
            && best.as_ref().is_none_or(|(least, ..)| cost < *least)
        {
            best = Some((cost, pod, matched));
        }
    }
    best.map(|(_, pod, labels)| (pod, labels))
}

/// Returns the labels that resemble the selector, with the number of differing characters.
fn resembling_labels<'w>(
    subject: &Subject<'w>,
    labels: &BTreeMap<&'w str, &'w str>,
) -> Option<(usize, Vec<(&'w str, &'w str)>)> {
    let mut cost = 0;
    let selector = subject.service.selector().into_iter();
    let matched: Option<Vec<_>> = selector
        .map(|requested| {
            let (label_cost, label) = nearest_label(requested, labels)?;
            cost += label_cost;
            Some(label)
        })
        .collect();
    matched.map(|matched| (cost, matched))
}

/// Returns the label that resembles a pair of the selector. It is the pair itself, the key with a similar value, or
/// the value under another key. The cost is the number of differing characters.
fn nearest_label<'w>(
    (key, value): (&'w str, &'w str),
    labels: &BTreeMap<&'w str, &'w str>,
) -> Option<(usize, (&'w str, &'w str))> {
    if let Some(found) = labels.get(key).filter(|found| is_similar(found, value)) {
        return Some((edit_distance(found, value), (key, *found)));
    }
    let same_value = labels.iter().filter(|(_, found)| **found == value);
    let (found, _) = same_value.min_by_key(|(found, _)| edit_distance(found, key))?;
    Some((edit_distance(found, key), (*found, value)))
}

/// Returns a Pod of another namespace that the selector would match.
fn pod_of_other_namespace<'w>(subject: &Subject<'w>) -> Option<Pod<'w>> {
    let selector = subject.service.selector();
    let mut namespaces = subject.world.namespaces();
    namespaces.find_map(|namespace| subject.world.pods_with(namespace, &selector).first().copied())
}

fn format_labels(labels: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(",")
}
