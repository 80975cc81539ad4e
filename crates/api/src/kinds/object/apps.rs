//! Deployments and ReplicaSets (apps/v1). Templates and selectors are kept as trees: they are compared and passed on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::meta::{ObjectMeta, null_as_default, resource};

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Deployment {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: DeploymentSpec,
    /// What is.
    #[serde(deserialize_with = "null_as_default")]
    pub status: DeploymentStatus,
}

resource!(Deployment, "apps", "v1", "Deployment", "deployments");

/// `spec` of a Deployment, as the server completes it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// Pods that there should be.
    pub replicas: i64,
    /// Which Pods are its own: a `LabelSelector`.
    pub selector: Value,
    /// What the Pods are made from.
    pub template: Value,
    /// How old Pods are replaced by new ones.
    #[serde(deserialize_with = "null_as_default")]
    pub strategy: DeploymentStrategy,
    /// How long a Pod has to be ready until it is available.
    pub min_ready_seconds: i64,
    /// Old ReplicaSets that are kept.
    pub revision_history_limit: Option<i64>,
    /// Whether nothing is rolled out.
    pub paused: bool,
    /// How long a roll-out may make no progress.
    pub progress_deadline_seconds: Option<i64>,
}

/// `strategy` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStrategy {
    /// RollingUpdate or Recreate.
    #[serde(rename = "type")]
    pub kind: String,
    /// How far a rolling update goes at once.
    pub rolling_update: Option<RollingUpdate>,
}

/// `rollingUpdate` of a strategy; both are numbers or percentages.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// Pods that there may be beyond those wanted.
    pub max_surge: Value,
    /// Pods wanted that may not be available.
    pub max_unavailable: Value,
}

/// `status` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// The generation that it is about.
    pub observed_generation: i64,
    /// Pods that there are.
    pub replicas: i64,
    /// Those of the newest template.
    pub updated_replicas: i64,
    /// Those that are ready.
    pub ready_replicas: i64,
    /// Those that have been ready for long enough.
    pub available_replicas: i64,
    /// Pods that lack until all that are wanted are available.
    pub unavailable_replicas: i64,
    /// Pods that are ending.
    pub terminating_replicas: Option<i64>,
    /// How often the name of a ReplicaSet was taken.
    pub collision_count: Option<i64>,
    /// Conditions.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<ProgressCondition>,
}

/// A ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ReplicaSetSpec,
    /// What is.
    #[serde(deserialize_with = "null_as_default")]
    pub status: ReplicaSetStatus,
}

resource!(ReplicaSet, "apps", "v1", "ReplicaSet", "replicasets");

/// `spec` of a ReplicaSet, as the server completes it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    /// Pods that there should be.
    pub replicas: i64,
    /// Which Pods are its own: a `LabelSelector`.
    pub selector: Value,
    /// What the Pods are made from.
    pub template: Value,
    /// How long a Pod has to be ready until it is available.
    pub min_ready_seconds: i64,
}

/// `status` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// The generation that it is about.
    pub observed_generation: i64,
    /// Pods that there are.
    pub replicas: i64,
    /// Those with all labels of the template.
    pub fully_labeled_replicas: i64,
    /// Those that are ready.
    pub ready_replicas: i64,
    /// Those that have been ready for long enough.
    pub available_replicas: i64,
    /// Pods that are ending.
    pub terminating_replicas: Option<i64>,
    /// Conditions.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<ProgressCondition>,
}

/// A condition of a Deployment or a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProgressCondition {
    /// Which condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// RFC 3339 time at which it was said last; ReplicaSets have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    /// RFC 3339 time of the last change of `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// One word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
