//! Conditions of a Pod (kubelet's `pkg/kubelet/status/generate.go`). Pure.

use api::object::PodCondition;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Observation, observed_generation};
use crate::containers::{Containers, Phase};
use crate::object::Pod;
use crate::object::rfc3339::whole_seconds;

/// State of one condition.
struct Condition {
    kind: &'static str,
    /// Reason and message of a false condition; `None` for a true one.
    false_condition: Option<FalseCondition>,
}

/// Reason and message of a false condition. An empty reason or message is left out.
#[derive(Clone)]
struct FalseCondition {
    reason: &'static str,
    message: String,
}

/// Returns the conditions of a Pod. The transition time of an unchanged condition stays.
pub(super) fn conditions(
    pod: &Pod,
    observation: &Observation<'_>,
    phase: Phase,
    now: Timestamp,
) -> Vec<Value> {
    let containers = observation.containers;
    let network = observation
        .pod_ips
        .is_empty()
        .then(|| false_condition("", String::new()));
    let containers_ready = containers_ready(containers, phase);
    let all = [
        ("PodReadyToStartContainers", network),
        ("Initialized", check_initialized(containers)),
        ("Ready", check_ready(pod, containers_ready.clone())),
        ("ContainersReady", containers_ready),
        // The scheduler sets it; a Pod that was created with a node name has no other writer.
        ("PodScheduled", None),
    ];
    all.into_iter()
        .map(|(kind, false_condition)| {
            let condition = Condition {
                kind,
                false_condition,
            };
            let mut json = condition.to_json(observation.last_conditions, now);
            if let Some(generation) = observed_generation(pod) {
                json["observedGeneration"] = generation.into();
            }
            json
        })
        .collect()
}

fn false_condition(reason: &'static str, message: String) -> FalseCondition {
    FalseCondition { reason, message }
}

fn check_initialized(containers: &Containers) -> Option<FalseCondition> {
    if containers.is_initialized() {
        return None;
    }
    let incomplete = containers
        .init
        .iter()
        .filter(|container| !container.is_init_complete());
    let names: Vec<&str> = incomplete.map(|container| container.name.as_str()).collect();
    let message = format!("containers with incomplete status: [{}]", names.join(" "));
    Some(false_condition("ContainersNotInitialized", message))
}

/// Main containers and sidecars count.
fn containers_ready(containers: &Containers, phase: Phase) -> Option<FalseCondition> {
    match phase {
        Phase::Succeeded => return Some(false_condition("PodCompleted", String::new())),
        Phase::Failed => return Some(false_condition("PodFailed", String::new())),
        Phase::Pending | Phase::Running => {}
    }
    let is_main = |name: &str| containers.main.iter().any(|main| main.name == name);
    let unready: Vec<&str> = containers
        .iter()
        .filter(|container| container.is_restartable || is_main(&container.name))
        .filter(|container| !container.is_ready)
        .map(|container| container.name.as_str())
        .collect();
    if containers.is_initialized() && unready.is_empty() {
        return None;
    }
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    Some(false_condition("ContainersNotReady", message))
}

/// Readiness of the Pod: of its containers, then of its readiness gates.
fn check_ready(pod: &Pod, containers_ready: Option<FalseCondition>) -> Option<FalseCondition> {
    if containers_ready.is_some() {
        return containers_ready;
    }
    let is_true = |kind: &str| {
        let mut conditions = pod.status.conditions.iter();
        conditions.any(|condition| condition.kind == kind && condition.status == "True")
    };
    let mut gates = pod.spec.readiness_gates.iter();
    let missing = gates.find(|gate| !is_true(&gate.condition_type))?;
    let message = format!(
        "corresponding condition of pod readiness gate \"{}\" does not exist or is not True.",
        missing.condition_type
    );
    Some(false_condition("ReadinessGatesNotReady", message))
}

impl Condition {
    fn to_json(&self, last_conditions: &[PodCondition], now: Timestamp) -> Value {
        let status = if self.false_condition.is_none() {
            "True"
        } else {
            "False"
        };
        let mut last = last_conditions.iter();
        let unchanged = last.find(|last| last.kind == self.kind && last.status == status);
        let since = unchanged.and_then(|last| last.last_transition_time.clone());
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let false_condition = self.false_condition.as_ref();
        json!({
            "type": self.kind,
            "status": status,
            "lastTransitionTime": since.unwrap_or_else(|| whole_seconds(now)),
            // Explicit nulls remove the reason and message of an earlier state in the merge.
            "reason": false_condition.and_then(|false_condition| text(false_condition.reason)),
            "message": false_condition.and_then(|false_condition| text(&false_condition.message)),
        })
    }
}
