//! PTL-0003: the selector matches Pods of another application too.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::similar_names::edit_distance;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, workload_of};
use crate::views::Pod;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("selector_matches_other_app.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(3);
/// Labels that name the application of a Pod, a part of it, or its environment.
const APPLICATION_LABELS: [&str; 7] = [
    "app.kubernetes.io/name",
    "app.kubernetes.io/component",
    "app",
    "k8s-app",
    "run",
    "environment",
    "env",
];
/// Labels that differ between versions of one application.
const VERSION_LABELS: [&str; 6] = [
    "version",
    "app.kubernetes.io/version",
    "track",
    "color",
    "slot",
    "rollouts-pod-template-hash",
];
/// Label of a part of an application. Parts such as the roles of a database can serve the same port.
const COMPONENT_LABEL: &str = "component";

/// Selected Pods of one workload.
struct Group<'w> {
    /// Kind of the workload.
    kind: &'w str,
    /// Name of the workload.
    name: &'w str,
    pods: Vec<Pod<'w>>,
}

impl Group<'_> {
    fn is_job(&self) -> bool {
        self.kind == Kind::Job.name()
    }
}

/// Headless Services are skipped: those of charts select all components on purpose.
fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if service.is_headless() {
        return Vec::new();
    }
    let mut workloads: BTreeMap<(&str, &str), Vec<Pod<'_>>> = BTreeMap::new();
    for pod in subject.active() {
        workloads.entry(workload_of(pod)).or_default().push(pod);
    }
    let groups: Vec<Group<'_>> = workloads
        .into_iter()
        .map(|((kind, name), pods)| Group { kind, name, pods })
        .collect();
    let Some(main) = main_group(&groups, &service.name) else {
        return Vec::new();
    };
    let others = groups
        .iter()
        .filter(|group| (group.kind, group.name) != (main.kind, main.name));
    let foreign: Vec<&Group<'_>> = others
        .filter(|other| is_other_application(main, other) || is_other_component(subject, main, other))
        .collect();
    let Some(first) = foreign.first() else {
        return Vec::new();
    };
    let selector: Vec<String> = service
        .selector()
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let names: Vec<String> = foreign
        .iter()
        .map(|group| format!("{} {}", group.kind, group.name))
        .collect();
    let message = format!(
        "The selector {} matches the Pods of {} {} and also those of {}",
        selector.join(","),
        main.kind,
        main.name,
        names.join(", ")
    );
    let remedy = match distinguishing_label(&main.pods, &foreign) {
        Some(label) => kubectl::set_selector(service.0, service.selector().into_iter().chain([label])),
        None => format!("Give the Pods of {} {} other labels", first.kind, first.name),
    };
    let pod = first.pods.first().map_or("", |pod| pod.0.name.as_str());
    let finding = subject.finding(CODE, Severity::Warning, "spec.selector", message, remedy);
    vec![finding.with_evidence(format!("Pod {pod} matches the selector"))]
}

/// Returns the group that the Service is meant for: the one with the most similar name; of equal ones, the largest.
fn main_group<'g, 'w>(groups: &'g [Group<'w>], service: &str) -> Option<&'g Group<'w>> {
    let rank = |group: &&Group<'w>| {
        (
            group.is_job(),
            edit_distance(group.name, service),
            std::cmp::Reverse(group.pods.len()),
        )
    };
    groups.iter().min_by_key(rank)
}

/// Returns true if two groups are not versions of one application. Their application labels differ, they share no
/// image, or one of them is a Job.
fn is_other_application(main: &Group<'_>, other: &Group<'_>) -> bool {
    let (main_images, other_images) = (images(main), images(other));
    let shares_no_image =
        !main_images.is_empty() && !other_images.is_empty() && main_images.is_disjoint(&other_images);
    APPLICATION_LABELS
        .iter()
        .any(|key| differs_in_label(main, other, key))
        || shares_no_image && !are_versions(main, other)
        || main.is_job() != other.is_job()
}

/// Returns true if labels state that two groups are versions of one application, such as `version: v1` and `version: v2`.
fn are_versions(main: &Group<'_>, other: &Group<'_>) -> bool {
    let has = |group: &Group<'_>, key: &str| group.pods.iter().any(|pod| pod.0.label(key).is_some());
    let is_same = |key: &&str| has(main, key) && has(other, key) && !differs_in_label(main, other, key);
    VERSION_LABELS
        .iter()
        .any(|key| differs_in_label(main, other, key))
        && APPLICATION_LABELS.iter().any(is_same)
}

/// Returns true if two groups have different values of a label.
fn differs_in_label(main: &Group<'_>, other: &Group<'_>, key: &str) -> bool {
    let values = |group: &Group<'_>| -> BTreeSet<String> {
        let labels = group.pods.iter().filter_map(|pod| pod.0.label(key));
        labels.map(str::to_owned).collect()
    };
    let (main, other) = (values(main), values(other));
    !main.is_empty() && !other.is_empty() && main.is_disjoint(&other)
}

/// Returns true if the other group is another part of the application and declares no port of the Service, as the main
/// group does.
fn is_other_component(subject: &Subject<'_>, main: &Group<'_>, other: &Group<'_>) -> bool {
    let serves = |group: &Group<'_>| {
        group.pods.iter().any(|pod| {
            let ports = subject.service.ports().into_iter();
            let mut targets = ports.filter_map(|port| pod.resolve(port.target, port.protocol));
            targets.any(|number| pod.ports().iter().any(|declared| declared.number == number))
        })
    };
    differs_in_label(main, other, COMPONENT_LABEL) && serves(main) && !serves(other)
}

/// Returns the images of a group, without tag and digest.
fn images(group: &Group<'_>) -> BTreeSet<String> {
    let containers = group.pods.iter().flat_map(|pod| pod.containers());
    let images = containers.filter_map(|container| container["image"].as_str());
    images.map(|image| repository(image).to_owned()).collect()
}

fn repository(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

/// Returns a label that all Pods of the main group and none of the others have.
fn distinguishing_label<'w>(main: &[Pod<'w>], foreign: &[&Group<'w>]) -> Option<(&'w str, &'w str)> {
    let first = main.first()?;
    let mut candidates: Vec<(&str, &str)> = first.0.labels().collect();
    candidates.retain(|(key, _)| !key.ends_with("-hash") && !key.contains("statefulset.kubernetes.io"));
    let rank = |key: &str| {
        APPLICATION_LABELS
            .iter()
            .position(|label| *label == key)
            .unwrap_or(usize::MAX)
    };
    candidates.sort_by_key(|(key, _)| rank(key));
    candidates.into_iter().find(|(key, value)| {
        let has = |pod: &Pod<'w>| pod.0.label(key) == Some(value);
        main.iter().all(has) && !foreign.iter().any(|group| group.pods.iter().any(has))
    })
}
