//! PTL-0021: the Service is being deleted.

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Pod, Service};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("service_terminating.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(21);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if service.is_terminating() {
        return vec![terminating_service(subject)];
    }
    let namespace = subject.world.object(Kind::Namespace, "", &service.namespace);
    let namespace = namespace
        .filter(|namespace| namespace.is_terminating() || namespace.text("/status/phase") == "Terminating");
    let Some(namespace) = namespace else {
        return Vec::new();
    };
    let message = format!(
        "Namespace {} is being deleted, and Service {} with it",
        namespace.name, service.name
    );
    let remedy = format!(
        "Wait for the end of the deletion, and create namespace and Service again. Objects that block it: {}",
        kubectl::command("describe", namespace)
    );
    vec![finding_about(
        namespace,
        CODE,
        Severity::Error,
        "metadata.deletionTimestamp",
        message,
        remedy,
    )]
}

/// Returns true if the deletion of the namespace proceeds, so that missing Pods of its Services are not a fault.
/// Conditions, and Pods that are not deleted, show a deletion that does not end.
pub(crate) fn is_deleted_with_namespace(world: &World, service: Service<'_>) -> bool {
    let Some(namespace) = world.object(Kind::Namespace, "", &service.namespace) else {
        return false;
    };
    let mut conditions = namespace.list("/status/conditions").iter();
    let is_stuck = conditions.any(|condition| condition["status"] == "True");
    let is_deleted = namespace.is_terminating() || namespace.text("/status/phase") == "Terminating";
    let pods = world.pods_with(&service.namespace, &service.selector());
    let has_pods = pods.into_iter().any(Pod::is_active);
    is_deleted && !is_stuck && !has_pods && !service.is_terminating()
}

fn terminating_service(subject: &Subject<'_>) -> Finding {
    let service = subject.service;
    let finalizers: Vec<&str> = service
        .list("/metadata/finalizers")
        .iter()
        .filter_map(|finalizer| finalizer.as_str())
        .collect();
    let since = service.text("/metadata/deletionTimestamp");
    let (field, message, remedy) = if finalizers.is_empty() {
        (
            "metadata.deletionTimestamp",
            format!("Service {} has been terminating since {since}", service.name),
            format!(
                "Create the Service again after its deletion: {}",
                kubectl::command("get", service.0)
            ),
        )
    } else {
        (
            "metadata.finalizers",
            format!(
                "Service {} has been terminating since {since}. It waits for the owner of the finalizer {}",
                service.name,
                finalizers.join(", ")
            ),
            format!(
                "Start the controller that owns the finalizer. If the controller does not return, free its resources and remove the finalizer: {}",
                kubectl::remove(service.0, "/metadata/finalizers")
            ),
        )
    };
    subject.finding(CODE, Severity::Error, field, message, remedy)
}
