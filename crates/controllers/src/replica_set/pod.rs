//! The fields of a Pod that the ReplicaSet controller reads.

use api::object::{ObjectMeta, PodCondition, is_final_phase};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// Annotation with the deletion cost of a Pod as an integer; 0 if it is absent.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A view of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ReplicaPod {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: ReplicaPodSpec,
    /// Observed state.
    pub status: ReplicaPodStatus,
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaPodSpec {
    /// Name of the Node; empty if the Pod has none.
    pub node_name: String,
    /// Affinity, which names the Node of a DaemonSet's Pod.
    pub affinity: Option<Box<serde_json::Value>>,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaPodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// Conditions, at most one per type.
    pub conditions: Vec<PodCondition>,
    /// Container statuses.
    pub container_statuses: Vec<ContainerState>,
    /// Statuses of init containers.
    pub init_container_statuses: Vec<ContainerState>,
}

/// Status of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerState {
    /// Name of the container.
    pub name: Box<str>,
    /// Number of restarts.
    pub restart_count: i64,
    /// Present state.
    pub state: Termination,
}

/// State of a container, as far as it has terminated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Termination {
    /// Exit of the container; `None` if it has not terminated.
    pub terminated: Option<ContainerExit>,
}

/// Exit of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerExit {
    /// Exit status, or 128 plus the number of a signal.
    pub exit_code: i64,
}

api::resource!(ReplicaPod, "", "v1", "Pod", "pods");

impl ReplicaPod {
    /// Returns true if the Pod has not ended and is not being deleted.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_finished() && self.metadata.deletion_timestamp.is_none()
    }

    /// Returns true if the Pod is being deleted and has not ended.
    pub(crate) fn is_terminating(&self) -> bool {
        !self.is_finished() && self.metadata.deletion_timestamp.is_some()
    }

    /// Returns true if the Pod has succeeded or failed.
    pub(crate) fn is_finished(&self) -> bool {
        is_final_phase(&self.status.phase)
    }

    /// Returns true if the condition Ready is true.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready_condition().is_some()
    }

    /// Returns the time since which the Pod is ready.
    pub(crate) fn ready_since(&self) -> Option<Timestamp> {
        self.ready_condition()?
            .last_transition_time
            .as_deref()?
            .parse()
            .ok()
    }

    /// Returns the time until the Pod is available if it stays ready, zero if it is; `None` if it is not
    /// ready.
    pub(crate) fn available_in(&self, min_ready_seconds: i64, now: Timestamp) -> Option<SignedDuration> {
        let ready = self.ready_condition()?;
        if min_ready_seconds <= 0 {
            return Some(SignedDuration::ZERO);
        }
        let wait = SignedDuration::from_secs(min_ready_seconds);
        let since = ready
            .last_transition_time
            .as_deref()
            .and_then(|time| time.parse::<Timestamp>().ok());
        // Without a valid time, or after the clock was set back, the time counts from now.
        let ready_for = since.map_or(SignedDuration::ZERO, |since| now.duration_since(since));
        Some((wait - ready_for.max(SignedDuration::ZERO)).max(SignedDuration::ZERO))
    }

    /// Returns the deletion cost.
    pub(super) fn deletion_cost(&self) -> i32 {
        let cost = self.metadata.annotations.get(DELETION_COST);
        cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
    }

    /// Returns the restarts of the container that restarted most often.
    pub(crate) fn restarts_max(&self) -> i64 {
        let restarts = self
            .status
            .container_statuses
            .iter()
            .map(|container| container.restart_count);
        restarts.max().unwrap_or(0)
    }

    /// Returns the restarts of all containers.
    pub(crate) fn restarts_total(&self) -> i64 {
        self.status
            .container_statuses
            .iter()
            .map(|container| container.restart_count)
            .sum()
    }

    /// Returns the creation time.
    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_deref()?.parse().ok()
    }

    fn ready_condition(&self) -> Option<&PodCondition> {
        let ready = self
            .status
            .conditions
            .iter()
            .find(|condition| condition.kind == "Ready");
        ready.filter(|condition| condition.status == "True")
    }
}
