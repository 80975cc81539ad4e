//! Pods of a Job: labels, index, and sets of indexes.

use std::collections::BTreeSet;
use std::ops::Range;

use api::object::Job;
use serde_json::{Value, json};

use super::FINALIZER;
use crate::replica_set::ReplicaPod;
use crate::workload::pods::pod_from;

/// Label and annotation with the index of a Pod of an Indexed Job.
const INDEX_KEY: &str = "batch.kubernetes.io/job-completion-index";
/// Environment variable with the index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Returns true if the Job has one Pod for each index.
pub(super) fn is_indexed(job: &Job) -> bool {
    job.spec.completion_mode == "Indexed"
}

/// Returns the index of a Pod.
pub(super) fn index_of(pod: &ReplicaPod) -> Option<i64> {
    let index: i64 = pod.metadata.annotations.get(INDEX_KEY)?.parse().ok()?;
    (index >= 0).then_some(index)
}

/// Returns true if the Pod counts as failed: its phase is Failed, or it is deleted before it succeeded.
pub(super) fn has_failed(job: &Job, pod: &ReplicaPod) -> bool {
    let is_deleted = pod.metadata.deletion_timestamp.is_some() && pod.status.phase != "Succeeded";
    pod.status.phase == "Failed" || (is_deleted && job.spec.pod_replacement_policy != "Failed")
}

/// Returns a new Pod, with an index for an Indexed Job.
pub(super) fn pod_of(job: &Job, index: Option<i64>) -> Value {
    let name = &job.metadata.name;
    let prefix = index.map_or_else(|| format!("{name}-"), |index| format!("{name}-{index}-"));
    let mut pod = pod_from(job, &job.spec.template, &prefix);
    let metadata = &mut pod["metadata"];
    let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!(FINALIZER));
    metadata["finalizers"] = json!(finalizers);
    let Some(index) = index else { return pod };
    for field in ["labels", "annotations"] {
        if !metadata[field].is_object() {
            metadata[field] = json!({});
        }
        metadata[field][INDEX_KEY] = json!(index.to_string());
    }
    pod["spec"]["hostname"] = json!(format!("{name}-{index}"));
    let field = format!("metadata.annotations['{INDEX_KEY}']");
    let variable = json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": field}}});
    for list in ["initContainers", "containers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mut variables = container["env"].as_array().cloned().unwrap_or_default();
            if variables.iter().all(|other| other["name"] != INDEX_VARIABLE) {
                variables.push(variable.clone());
                container["env"] = json!(variables);
            }
        }
    }
    pod
}

/// Parses indexes such as `1,3-5`, as far as they are below `completions`. Returns ranges that are not empty: a text of
/// a few bytes can name billions of indexes.
pub(super) fn parse_ranges(text: &str, completions: i64) -> impl Iterator<Item = Range<i64>> {
    let ranges = text.split(',').filter_map(move |part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
        Some(first.max(0)..last.saturating_add(1).min(completions))
    });
    ranges.filter(|range| !range.is_empty())
}

/// Parses the indexes of a status, which are those of Pods.
pub(super) fn parse_indexes(text: &str, completions: i64) -> BTreeSet<i64> {
    parse_ranges(text, completions).flatten().collect()
}

/// Formats indexes as upstream: two consecutive ones as `1,2`, more as `1-3`.
pub(super) fn format_indexes(indexes: &BTreeSet<i64>) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for &index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let part = |(first, last): &(i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    ranges.iter().map(part).collect::<Vec<_>>().join(",")
}
