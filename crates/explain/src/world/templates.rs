//! Pods from the templates of workloads, for an input that has workloads but no Pods.

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::Kind;
use crate::object::Object;
use crate::views::Workload;

/// Kinds that show if Pods exist.
const KINDS_OF_CLUSTERS: [Kind; 3] = [Kind::Pod, Kind::EndpointSlice, Kind::Endpoints];

/// Returns a Pod for each workload that is the top of its owners and has no Pod. They count as Pods in an input of
/// manifests. With Pods, slices or Endpoints in the input, only the names of Services in them are read.
pub(super) fn pods(objects: &[Object], present: &BTreeSet<Kind>) -> Vec<Object> {
    let is_manifest = !KINDS_OF_CLUSTERS.iter().any(|kind| present.contains(kind));
    let labels = labels_of_pods(objects);
    let workloads = objects.iter().filter(|object| {
        let is_workload = Workload::KINDS.contains(&object.kind);
        is_workload && object.controller().is_none() && Workload(object).desired() != 0
            || object.kind == Kind::CronJob
    });
    let without_pods = workloads.filter(|workload| {
        let mut requested = Workload(workload).template_labels().peekable();
        let has_labels = requested.peek().is_some();
        let namespace_labels = labels.get(workload.namespace.as_str());
        !has_labels || !requested.all(|pair| namespace_labels.is_some_and(|labels| labels.contains(&pair)))
    });
    without_pods
        .filter_map(|workload| {
            let counts_as_pod = is_manifest && workload.kind != Kind::CronJob;
            Object::pod_of_template(workload, counts_as_pod)
        })
        .collect()
}

/// Returns the labels of Pods by namespace.
fn labels_of_pods(objects: &[Object]) -> BTreeMap<&str, BTreeSet<(&str, &str)>> {
    let mut labels: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for pod in objects.iter().filter(|object| object.kind == Kind::Pod) {
        labels.entry(&pod.namespace).or_default().extend(pod.labels());
    }
    labels
}
