//! Deployment and ReplicaSet (apps/v1). Templates and selectors are kept as trees: they are compared and passed on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::meta::{ObjectMeta, null_as_default, resource};

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Deployment {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: DeploymentSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: DeploymentStatus,
}

resource!(Deployment, "apps", "v1", "Deployment", "deployments");

/// `spec` of a Deployment, with the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// Desired number of Pods.
    pub replicas: i64,
    /// Selector of the Pods, a `LabelSelector`.
    pub selector: Value,
    /// Pod template.
    pub template: Value,
    /// Replacement of old Pods by new ones.
    #[serde(deserialize_with = "null_as_default")]
    pub strategy: DeploymentStrategy,
    /// Seconds for which a Pod must be ready to count as available.
    pub min_ready_seconds: i64,
    /// Number of old ReplicaSets that are kept.
    pub revision_history_limit: Option<i64>,
    /// True if rollouts are paused.
    pub paused: bool,
    /// Seconds after which a rollout without progress has failed.
    pub progress_deadline_seconds: Option<i64>,
}

/// `strategy` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStrategy {
    /// RollingUpdate or Recreate.
    #[serde(rename = "type")]
    pub kind: String,
    /// Limits of a rolling update.
    pub rolling_update: Option<RollingUpdate>,
}

/// `rollingUpdate` of a strategy; both are numbers or percentages.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// Maximum number of Pods above the desired number.
    pub max_surge: Value,
    /// Maximum number of desired Pods that may be unavailable.
    pub max_unavailable: Value,
}

/// `status` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// Last generation that the controller has seen.
    pub observed_generation: i64,
    /// Number of Pods.
    pub replicas: i64,
    /// Pods of the current template.
    pub updated_replicas: i64,
    /// Ready Pods.
    pub ready_replicas: i64,
    /// Available Pods: ready for `min_ready_seconds`.
    pub available_replicas: i64,
    /// Pods that are missing until all desired Pods are available.
    pub unavailable_replicas: i64,
    /// Terminating Pods.
    pub terminating_replicas: Option<i64>,
    /// Number of name collisions of ReplicaSets.
    pub collision_count: Option<i64>,
    /// Conditions, at most one per type.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<ProgressCondition>,
}

/// A ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ReplicaSetSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: ReplicaSetStatus,
}

resource!(ReplicaSet, "apps", "v1", "ReplicaSet", "replicasets");

/// `spec` of a ReplicaSet, with the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    /// Desired number of Pods.
    pub replicas: i64,
    /// Selector of the Pods, a `LabelSelector`.
    pub selector: Value,
    /// Pod template.
    pub template: Value,
    /// Seconds for which a Pod must be ready to count as available.
    pub min_ready_seconds: i64,
}

/// `status` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// Last generation that the controller has seen.
    pub observed_generation: i64,
    /// Number of Pods.
    pub replicas: i64,
    /// Pods with all labels of the template.
    pub fully_labeled_replicas: i64,
    /// Ready Pods.
    pub ready_replicas: i64,
    /// Available Pods: ready for `min_ready_seconds`.
    pub available_replicas: i64,
    /// Terminating Pods.
    pub terminating_replicas: Option<i64>,
    /// Conditions, at most one per type.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<ProgressCondition>,
}

/// A condition of a Deployment or a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProgressCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// RFC 3339 time of the last update; absent for ReplicaSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    /// RFC 3339 time of the last change of `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Reason, one word in CamelCase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
