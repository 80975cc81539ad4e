//! Reasons why a Pod does not run.

use serde_json::Value;

use crate::views::Pod;
use crate::world::World;

/// Reasons of waiting containers that do not resolve without a change.
const WAITING_FAILURES: [&str; 11] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PostStartHookError",
    "StartError",
];
/// Events of Pods that cannot start.
const START_FAILURES: [&str; 5] = [
    "FailedMount",
    "FailedAttachVolume",
    "FailedCreatePodSandBox",
    "FailedScheduling",
    "NetworkNotReady",
];

/// Reason why a Pod does not run.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Path of the reason in the Pod.
    pub field: String,
    /// Reason and message.
    pub text: String,
    /// Container that does not run, or "".
    pub container: String,
    /// True if the Pod waits for a resource, and may start without a change.
    pub is_waiting: bool,
}

/// Returns the reason why an active Pod does not run; `None` if it runs, ready or not.
pub(crate) fn failure(world: &World, pod: Pod<'_>) -> Option<Failure> {
    if let Some(failure) = container_failure(pod) {
        return Some(failure);
    }
    let phase = pod.phase();
    let pod_failure = |field: &str, text: String| Failure {
        field: field.to_owned(),
        text,
        container: String::new(),
        is_waiting: true,
    };
    if phase == "Unknown" {
        let text = "the phase is Unknown: the kubelet of its node does not report".to_owned();
        return Some(pod_failure("status.phase", text));
    }
    if phase != "Pending" {
        return None;
    }
    let scheduled = pod.condition("PodScheduled");
    if let Some(condition) = scheduled.filter(|condition| condition["status"] == "False") {
        let text = reason_with_message(&condition["reason"], &condition["message"]);
        return Some(pod_failure("status.conditions", text));
    }
    if let Some(event) = world.latest_event(pod.0, &START_FAILURES) {
        return Some(pod_failure(
            "status.phase",
            format!("{}: {}", event.reason(), event.message()),
        ));
    }
    let waiting = pod
        .container_statuses()
        .find_map(|status| status["state"]["waiting"]["reason"].as_str());
    let reason = waiting.map_or_else(String::new, |reason| format!(" ({reason})"));
    Some(pod_failure(
        "status.phase",
        format!("the phase is Pending{reason}"),
    ))
}

fn container_failure(pod: Pod<'_>) -> Option<Failure> {
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .find_map(|list| {
            let statuses = pod.list(&format!("/status/{list}")).iter().enumerate();
            statuses
                .filter_map(|(index, status)| status_failure(list, index, status))
                .next()
        })
}

fn status_failure(list: &str, index: usize, status: &Value) -> Option<Failure> {
    let state = &status["state"];
    let last = &status["lastState"]["terminated"];
    let waiting = &state["waiting"];
    let is_failing = waiting["reason"]
        .as_str()
        .is_some_and(|reason| WAITING_FAILURES.contains(&reason));
    let has_failed = state["terminated"]["exitCode"]
        .as_i64()
        .is_some_and(|code| code != 0);
    let (branch, mut text) = if is_failing {
        (
            "waiting",
            reason_with_message(&waiting["reason"], &waiting["message"]),
        )
    } else if has_failed {
        (
            "terminated",
            reason_with_message(&state["terminated"]["reason"], &state["terminated"]["message"]),
        )
    } else {
        return None;
    };
    let ended = if last.is_object() {
        last
    } else {
        &state["terminated"]
    };
    if let Some(code) = ended["exitCode"].as_i64() {
        let reason = ended["reason"].as_str().unwrap_or("Error");
        text.push_str(&format!("; last exit code {code} ({reason})"));
    }
    Some(Failure {
        field: format!("status.{list}[{index}].state.{branch}"),
        text,
        container: status["name"].as_str().unwrap_or_default().to_owned(),
        is_waiting: false,
    })
}

/// Returns `reason: message`, without line breaks.
fn reason_with_message(reason: &Value, message: &Value) -> String {
    let reason = reason.as_str().unwrap_or("no reason");
    match message.as_str().filter(|message| !message.is_empty()) {
        Some(message) => format!(
            "{reason}: {}",
            message.trim().trim_end_matches('.').replace('\n', " ")
        ),
        None => reason.to_owned(),
    }
}
