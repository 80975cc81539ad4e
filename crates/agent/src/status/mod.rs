//! The status of a Pod as the API has it, from what the agent sees. Pure.

use std::net::IpAddr;

use api::object::PodCondition;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::containers::{Containers, Ended, Phase, Slot, State};
use crate::object::Pod;

#[cfg(test)]
mod tests;

/// What the agent sees of a Pod.
#[derive(Debug)]
pub struct Observed<'a> {
    /// Its containers.
    pub containers: &'a Containers,
    /// Its addresses, the primary one first; none until it has a network.
    pub pod_ips: &'a [IpAddr],
    /// The node's addresses, the primary one first.
    pub host_ips: &'a [IpAddr],
    /// When the agent first saw it.
    pub start_time: Timestamp,
    /// The conditions as they were told last, for the times of their changes. Not those of the Pod as it is
    /// watched: it lags behind, and two times would chase each other.
    pub told: &'a [PodCondition],
}

/// The `status` to be merged into the Pod's.
pub fn build(pod: &Pod, observed: &Observed<'_>, now: Timestamp) -> Value {
    let phase = observed.containers.phase();
    let ips =
        |list: &[IpAddr]| -> Vec<Value> { list.iter().map(|ip| json!({"ip": ip.to_string()})).collect() };
    let first = |list: &[IpAddr]| list.first().map(ToString::to_string);
    let mut status = json!({
        "phase": phase.as_str(),
        "startTime": seconds(observed.start_time),
        "hostIP": first(observed.host_ips),
        "hostIPs": ips(observed.host_ips),
        "conditions": conditions(pod, observed, phase, now),
        "containerStatuses": statuses(pod, &pod.spec.containers, observed),
    });
    if let Some(ip) = first(observed.pod_ips) {
        status["podIP"] = ip.into();
        status["podIPs"] = ips(observed.pod_ips).into();
    }
    if !pod.spec.init_containers.is_empty() {
        status["initContainerStatuses"] = statuses(pod, &pod.spec.init_containers, observed);
    }
    status
}

/// Whether a status has all that was told of it, so that telling it again would change nothing. What others put there
/// besides is theirs: conditions of other types, and fields that this agent does not write.
pub fn has_all(present: &Value, told: &Value) -> bool {
    match told {
        Value::Null => present.is_null(),
        Value::String(text) if text.is_empty() => present.is_null() || present == told,
        Value::Object(fields) => fields.iter().all(|(name, told)| {
            let present = present.get(name).unwrap_or(&Value::Null);
            match (name.as_str(), told) {
                ("conditions", Value::Array(conditions)) => conditions.iter().all(|condition| {
                    let mut all = present.as_array().into_iter().flatten();
                    let same = all.find(|present| present["type"] == condition["type"]);
                    same.is_some_and(|same| has_all(same, condition))
                }),
                (_, Value::Array(told)) => {
                    let present = present.as_array().map(Vec::as_slice).unwrap_or_default();
                    present.len() == told.len()
                        && present
                            .iter()
                            .zip(told)
                            .all(|(present, told)| has_all(present, told))
                }
                _ => has_all(present, told),
            }
        }),
        other => present == other,
    }
}

/// The status of a Pod that this node does not take.
pub fn refused(reason: &str, message: &str) -> Value {
    json!({"phase": Phase::Failed.as_str(), "reason": reason, "message": message})
}

/// A time as the API writes it, whole seconds.
pub fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

fn conditions(pod: &Pod, observed: &Observed<'_>, phase: Phase, now: Timestamp) -> Vec<Value> {
    let containers = observed.containers;
    let is_over = matches!(phase, Phase::Succeeded | Phase::Failed);
    // Sidecars count too.
    let unready: Vec<&str> = containers
        .slots()
        .filter(|slot| slot.is_restartable || containers.main.iter().any(|main| main.name == slot.name))
        .filter(|slot| !slot.is_ready)
        .map(|slot| slot.name.as_str())
        .collect();
    let unready_reason = match phase {
        Phase::Succeeded => ("PodCompleted", String::new()),
        Phase::Failed => ("PodFailed", String::new()),
        _ => (
            "ContainersNotReady",
            format!("containers with unready status: [{}]", unready.join(" ")),
        ),
    };
    let containers_ready = !is_over && containers.is_initialized() && unready.is_empty();
    let missing_gate = pod.spec.readiness_gates.iter().find(|gate| {
        let is_met = |c: &PodCondition| c.kind == gate.condition_type && c.status == "True";
        !pod.status.conditions.iter().any(is_met)
    });
    let ready_reason = match missing_gate {
        Some(gate) if containers_ready => (
            "ReadinessGatesNotReady",
            format!(
                "corresponding condition of pod readiness gate \"{}\" does not exist or is not True.",
                gate.condition_type
            ),
        ),
        _ => unready_reason.clone(),
    };
    let uninitialized: Vec<&str> = containers
        .init
        .iter()
        .filter(|slot| !slot.is_past())
        .map(|slot| slot.name.as_str())
        .collect();
    let init_reason = (
        "ContainersNotInitialized",
        format!("containers with incomplete status: [{}]", uninitialized.join(" ")),
    );
    let mut list = vec![
        condition(
            observed.told,
            "PodReadyToStartContainers",
            !observed.pod_ips.is_empty(),
            None,
            now,
        ),
        condition(
            observed.told,
            "Initialized",
            containers.is_initialized(),
            Some(&init_reason),
            now,
        ),
        condition(
            observed.told,
            "Ready",
            containers_ready && missing_gate.is_none(),
            Some(&ready_reason),
            now,
        ),
        condition(
            observed.told,
            "ContainersReady",
            containers_ready,
            Some(&unready_reason),
            now,
        ),
    ];
    // Whoever bound the Pod to the node says so; a Pod that was created with a node name has nobody else.
    list.push(condition(observed.told, "PodScheduled", true, None, now));
    list
}

/// A condition whose time is that of the last change.
fn condition(
    told: &[PodCondition],
    kind: &str,
    holds: bool,
    otherwise: Option<&(&str, String)>,
    now: Timestamp,
) -> Value {
    let status = if holds { "True" } else { "False" };
    let before = told.iter().find(|c| c.kind == kind && c.status == status);
    let since = before.and_then(|c| c.last_transition_time.clone());
    let mut condition = json!({
        "type": kind,
        "status": status,
        "lastTransitionTime": since.unwrap_or_else(|| seconds(now)),
        // Written as null, so that merging takes away what an earlier state said.
        "reason": null,
        "message": null,
    });
    if let (false, Some((reason, message))) = (holds, otherwise) {
        condition["reason"] = (*reason).into();
        if !message.is_empty() {
            condition["message"] = message.as_str().into();
        }
    }
    condition
}

fn statuses(pod: &Pod, specs: &[crate::object::Container], observed: &Observed<'_>) -> Value {
    let entry = |spec: &crate::object::Container| -> Option<Value> {
        let slot = observed.containers.slot(&spec.name)?;
        let is_main = pod.spec.containers.iter().any(|c| c.name == spec.name);
        let has_done_its_work = !is_main && !slot.is_restartable && slot.is_past();
        let mut status = json!({
            "name": spec.name,
            "image": spec.image,
            "imageID": spec.image,
            "restartCount": slot.restarts,
            "ready": slot.is_ready || has_done_its_work,
            "started": slot.is_started,
            "state": state(slot),
        });
        if let Some(last) = &slot.last {
            status["lastState"] = json!({"terminated": terminated(last)});
        }
        Some(status)
    };
    specs.iter().filter_map(entry).collect()
}

fn state(slot: &Slot) -> Value {
    match &slot.state {
        State::Waiting { reason, message, .. } => {
            let mut waiting = Map::from_iter([("reason".to_owned(), Value::from(*reason))]);
            if !message.is_empty() {
                waiting.insert("message".to_owned(), message.as_str().into());
            }
            json!({"waiting": waiting})
        }
        State::Running { since } => json!({"running": {"startedAt": seconds(*since)}}),
        State::Terminated(ended) => json!({"terminated": terminated(ended)}),
    }
}

fn terminated(ended: &Ended) -> Value {
    let mut value = json!({
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "finishedAt": seconds(ended.finished_at),
        "startedAt": seconds(ended.started_at),
    });
    if let Some(signal) = ended.signal {
        value["signal"] = signal.into();
    }
    value
}
