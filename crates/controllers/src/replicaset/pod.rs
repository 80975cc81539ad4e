//! What of a Pod decides about it.

use api::object::{ObjectMeta, PodCondition, is_final_phase};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// The annotation that says how bad it is to delete a Pod, as a whole number; 0 if it is absent.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A Pod, as far as ReplicaSets read it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReplicaPod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ReplicaPodSpec,
    /// What is.
    pub status: ReplicaPodStatus,
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaPodSpec {
    /// The Node it is on, or "".
    pub node_name: String,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaPodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// Conditions.
    pub conditions: Vec<PodCondition>,
    /// The containers.
    pub container_statuses: Vec<ContainerState>,
}

/// How a container is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerState {
    /// How often it was started again.
    pub restart_count: i64,
}

api::resource!(ReplicaPod, "", "v1", "Pod", "pods");

impl ReplicaPod {
    /// Whether it counts: it has not ended, and is not about to.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && self.metadata.deletion_timestamp.is_none()
    }

    /// Whether it is ending, and has not ended yet.
    pub fn is_terminating(&self) -> bool {
        !self.is_finished() && self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it has ended for good.
    pub fn is_finished(&self) -> bool {
        is_final_phase(&self.status.phase)
    }

    /// Whether the condition Ready is true.
    pub fn is_ready(&self) -> bool {
        self.ready_condition().is_some()
    }

    /// Since when it has been ready.
    pub fn ready_since(&self) -> Option<Timestamp> {
        self.ready_condition()?
            .last_transition_time
            .as_deref()?
            .parse()
            .ok()
    }

    /// How long it takes until it is available, if it stays ready: zero if it is. `None` if it is not ready.
    pub fn available_in(&self, min_ready_seconds: i64, now: Timestamp) -> Option<SignedDuration> {
        let ready = self.ready_condition()?;
        if min_ready_seconds <= 0 {
            return Some(SignedDuration::ZERO);
        }
        let wait = SignedDuration::from_secs(min_ready_seconds);
        let since = ready
            .last_transition_time
            .as_deref()
            .and_then(|time| time.parse::<Timestamp>().ok());
        // Not known since when, or a clock that was put back: from now on.
        let ready_for = since.map_or(SignedDuration::ZERO, |since| now.duration_since(since));
        Some((wait - ready_for.max(SignedDuration::ZERO)).max(SignedDuration::ZERO))
    }

    /// How bad it is to delete it.
    pub(super) fn deletion_cost(&self) -> i32 {
        let cost = self.metadata.annotations.get(DELETION_COST);
        cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
    }

    /// Restarts of the container with the most.
    pub(super) fn restarts_max(&self) -> i64 {
        let restarts = self.status.container_statuses.iter().map(|c| c.restart_count);
        restarts.max().unwrap_or(0)
    }

    /// When it was created.
    pub(super) fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_deref()?.parse().ok()
    }

    fn ready_condition(&self) -> Option<&PodCondition> {
        let ready = self.status.conditions.iter().find(|c| c.kind == "Ready");
        ready.filter(|c| c.status == "True")
    }
}
