//! Status of a Pod in the API, from its containers (kubelet's `generateAPIPodStatus`). Pure.

mod conditions;

use std::net::IpAddr;
use std::time::Duration;

use api::object::PodCondition;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::containers::{Containers, Phase, State, Terminated, TrackedContainer};
use crate::containers::{stop_signal, termination_message};
use crate::object::rfc3339::whole_seconds;
use crate::object::{Container, Pod, PodSpec};

use conditions::conditions;

#[cfg(test)]
mod tests;

/// Reason of status and Event of a Pod that was active for longer than its `activeDeadlineSeconds`.
pub const DEADLINE_REASON: &str = "DeadlineExceeded";
/// Message of status and Event of a Pod with [`DEADLINE_REASON`], as upstream.
pub const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// Observed state of a Pod.
#[derive(Debug)]
pub struct Observation<'a> {
    /// Containers of the Pod.
    pub containers: &'a Containers,
    /// Addresses of the Pod, the primary one first; none before it has a network.
    pub pod_ips: &'a [IpAddr],
    /// Addresses of the node, the primary one first.
    pub host_ips: &'a [IpAddr],
    /// Time at which the agent first saw the Pod.
    pub start_time: Timestamp,
    /// Conditions of the last status, for their transition times. The conditions of the watched Pod lag behind: with them,
    /// two transition times would alternate.
    pub last_conditions: &'a [PodCondition],
}

/// Returns the status as a strategic merge patch.
pub fn generate(pod: &Pod, observation: &Observation<'_>, now: Timestamp) -> Value {
    let phase = observation.containers.phase();
    let ips =
        |list: &[IpAddr]| -> Vec<Value> { list.iter().map(|ip| json!({"ip": ip.to_string()})).collect() };
    let first = |list: &[IpAddr]| list.first().map(ToString::to_string);
    let mut status = json!({
        "phase": phase.as_str(),
        "startTime": whole_seconds(observation.start_time),
        "hostIP": first(observation.host_ips),
        "hostIPs": ips(&first_of_each_family(observation.host_ips)),
        "conditions": conditions(pod, observation, phase, now),
        "containerStatuses": container_statuses(pod, &pod.spec.containers, observation),
    });
    if let Some(generation) = observed_generation(pod) {
        status["observedGeneration"] = generation.into();
    }
    if let Some(ip) = first(observation.pod_ips) {
        status["podIP"] = ip.into();
        status["podIPs"] = ips(observation.pod_ips).into();
    }
    if !pod.spec.init_containers.is_empty() {
        status["initContainerStatuses"] = container_statuses(pod, &pod.spec.init_containers, observation);
    }
    let ephemeral = &pod.spec.ephemeral_containers;
    if !ephemeral.is_empty() {
        status["ephemeralContainerStatuses"] = container_statuses(pod, ephemeral, observation);
    }
    status
}

/// Returns the first address of each family. The API server rejects a status with further ones.
fn first_of_each_family(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first = |is_ipv4: bool| addresses.iter().position(|ip| ip.is_ipv4() == is_ipv4);
    let (four, six) = (first(true), first(false));
    let is_first = |index: usize| Some(index) == four || Some(index) == six;
    addresses
        .iter()
        .enumerate()
        .filter(|(index, _)| is_first(*index))
        .map(|(_, ip)| *ip)
        .collect()
}

/// Returns the generation of the Pod that a status describes; `None` for a Pod from a server or manifest without
/// generations.
fn observed_generation(pod: &Pod) -> Option<i64> {
    Some(pod.metadata.generation).filter(|generation| *generation != 0)
}

/// Returns true if `present` contains all of `written`, so that writing it again would change nothing.
///
/// Conditions of other types and other fields belong to other clients and are ignored.
pub fn contains(present: &Value, written: &Value) -> bool {
    match written {
        Value::Null => present.is_null(),
        Value::String(text) if text.is_empty() => present.is_null() || present == written,
        Value::Object(fields) => fields.iter().all(|(name, written)| {
            let present = present.get(name).unwrap_or(&Value::Null);
            match (name.as_str(), written) {
                ("conditions", Value::Array(written)) => contains_conditions(present, written),
                (_, Value::Array(written)) => contains_list(present, written),
                _ => contains(present, written),
            }
        }),
        other => present == other,
    }
}

fn contains_conditions(present: &Value, written: &[Value]) -> bool {
    written.iter().all(|condition| {
        let mut all = present.as_array().into_iter().flatten();
        let same_type = all.find(|present| present["type"] == condition["type"]);
        same_type.is_some_and(|present| contains(present, condition))
    })
}

fn contains_list(present: &Value, written: &[Value]) -> bool {
    let present = present.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut pairs = present.iter().zip(written);
    present.len() == written.len() && pairs.all(|(present, written)| contains(present, written))
}

/// Returns the status of a Pod that this node rejects.
pub fn rejected_status(reason: &str, message: &str) -> Value {
    json!({"phase": Phase::Failed.as_str(), "reason": reason, "message": message})
}

/// Changes a status to that of a Pod that was evicted at a time.
pub fn set_evicted(status: &mut Value, message: &str, at: Timestamp) {
    status["phase"] = Phase::Failed.as_str().into();
    status["reason"] = "Evicted".into();
    status["message"] = message.into();
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.push(json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": message,
            "lastTransitionTime": whole_seconds(at),
        }));
    }
}

/// Changes a status to that of a Pod that was active for longer than its `activeDeadlineSeconds`.
pub fn set_deadline_exceeded(status: &mut Value) {
    status["phase"] = Phase::Failed.as_str().into();
    status["reason"] = DEADLINE_REASON.into();
    status["message"] = DEADLINE_MESSAGE.into();
}

/// Returns the time until a Pod that started at `start` reaches its `activeDeadlineSeconds`, zero behind it; `None` for
/// a Pod without a deadline.
pub fn time_to_deadline(spec: &PodSpec, start: Timestamp, now: Timestamp) -> Option<Duration> {
    let active = SignedDuration::from_secs(spec.active_deadline_seconds?);
    let left = active.saturating_sub(now.duration_since(start));
    Some(Duration::try_from(left).unwrap_or_default())
}

fn container_statuses(pod: &Pod, specs: &[Container], observation: &Observation<'_>) -> Value {
    let message_bytes_max = termination_message::bytes_max(pod.spec.all_containers().count());
    let status_of = |spec: &Container| -> Option<Value> {
        let container = observation.containers.get(&spec.name)?;
        let is_init = pod.spec.init_containers.iter().any(|init| init.name == spec.name);
        let is_completed_init = is_init && !container.is_restartable && container.is_init_complete();
        let image = container.image.as_ref();
        let mut status = json!({
            "name": spec.name,
            "image": image.map_or(&spec.image, |image| &image.name),
            "imageID": image.map_or(&spec.image, |image| &image.digest_name),
            "restartCount": container.restarts,
            "ready": container.is_ready || is_completed_init,
            "started": container.is_started,
            "state": container_state(container, message_bytes_max),
        });
        if container.is_running() {
            let image_signal = image.and_then(|image| image.stop_signal.as_deref());
            let signal = stop_signal::of_container(Some(spec), image_signal);
            status["stopSignal"] = stop_signal::name(signal).into();
        }
        if let Some(last) = &container.last {
            status["lastState"] = json!({"terminated": terminated_state(last, message_bytes_max)});
        }
        Some(status)
    };
    specs.iter().filter_map(status_of).collect()
}

fn container_state(container: &TrackedContainer, message_bytes_max: usize) -> Value {
    match &container.state {
        State::Waiting { reason, message, .. } => {
            let mut waiting = Map::from_iter([("reason".to_owned(), Value::from(*reason))]);
            if !message.is_empty() {
                waiting.insert("message".to_owned(), message.as_str().into());
            }
            json!({"waiting": waiting})
        }
        State::Running { since } => json!({"running": {"startedAt": whole_seconds(*since)}}),
        State::Terminated(state) => json!({"terminated": terminated_state(state, message_bytes_max)}),
    }
}

fn terminated_state(state: &Terminated, message_bytes_max: usize) -> Value {
    let mut value = json!({
        "exitCode": state.exit_code,
        "reason": state.reason,
        "finishedAt": whole_seconds(state.finished_at),
        "startedAt": whole_seconds(state.started_at),
    });
    if !state.message.is_empty() {
        value["message"] = termination_message::truncate(&state.message, message_bytes_max).into();
    }
    if let Some(signal) = state.signal {
        value["signal"] = signal.into();
    }
    value
}
