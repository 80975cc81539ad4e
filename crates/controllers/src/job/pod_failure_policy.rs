//! Pod failure policy of a Job (upstream's `pod_failure_policy.go`).

use api::object::Job;
use api::tree::{child, is_set, items, text};
use serde_json::Value;

use crate::replica_set::ReplicaPod;

/// Effect of a failed Pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The failure counts against `backoffLimit`.
    Count,
    /// The failure does not count.
    Ignore,
    /// The Job fails, with the message of its condition.
    FailJob(String),
}

/// Returns the effect of a failed Pod: that of the first rule that it meets.
pub(super) fn effect_of(job: &Job, pod: &ReplicaPod) -> Effect {
    let rules = items(&job.spec.pod_failure_policy, "rules").iter().enumerate();
    for (index, rule) in rules {
        let Some(cause) = cause(rule, pod) else { continue };
        return match text(rule, "action") {
            "Ignore" => Effect::Ignore,
            "FailJob" => Effect::FailJob(format!("{cause} matching FailJob rule at index {index}")),
            _ => Effect::Count,
        };
    }
    Effect::Count
}

/// Returns true if the failure of a Pod does not count.
pub(super) fn ignores_failure(job: &Job, pod: &ReplicaPod) -> bool {
    effect_of(job, pod) == Effect::Ignore
}

/// Describes the state of a Pod that meets a rule; `None` if none does.
fn cause(rule: &Value, pod: &ReplicaPod) -> Option<String> {
    const EXIT_CODES: &str = "onExitCodes";
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    if is_set(rule, EXIT_CODES) {
        let (container, code) = exit_in(child(rule, EXIT_CODES), pod)?;
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let patterns = items(rule, "onPodConditions");
    let mut conditions = pod.status.conditions.iter();
    let met = conditions.find(|condition| {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| {
            text(pattern, "type") == condition.kind && text(pattern, "status") == condition.status
        })
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", met.kind))
}

/// Returns name and exit code of the first failed container that meets a requirement.
fn exit_in<'p>(requirement: &Value, pod: &'p ReplicaPod) -> Option<(&'p str, i64)> {
    let name = text(requirement, "containerName");
    let values = items(requirement, "values");
    let is_in = |code: i64| values.iter().any(|value| value.as_i64() == Some(code));
    let is_met = |code: i64| match text(requirement, "operator") {
        "In" => is_in(code),
        "NotIn" => !is_in(code),
        _ => false,
    };
    let status = &pod.status;
    let mut containers = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses);
    containers.find_map(|container| {
        let code = container.state.terminated.as_ref()?.exit_code;
        let is_named = name.is_empty() || *container.name == *name;
        (is_named && code != 0 && is_met(code)).then_some((&*container.name, code))
    })
}
