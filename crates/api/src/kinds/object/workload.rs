//! StatefulSet, DaemonSet, ControllerRevision (apps/v1), Job (batch/v1) and ReplicationController (v1). Templates,
//! selectors and statuses are kept as trees: they are compared and passed on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::meta::{ObjectMeta, null_as_default, resource};

/// A StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StatefulSet {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: StatefulSetSpec,
    /// Observed state.
    pub status: Value,
}

resource!(StatefulSet, "apps", "v1", "StatefulSet", "statefulsets");

/// `spec` of a StatefulSet, with the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetSpec {
    /// Desired number of Pods.
    pub replicas: i64,
    /// Selector of the Pods, a `LabelSelector`.
    pub selector: Value,
    /// Pod template.
    pub template: Value,
    /// Name of the headless Service; the subdomain of the Pods.
    pub service_name: String,
    /// OrderedReady or Parallel.
    pub pod_management_policy: String,
    /// Replacement of old Pods by new ones.
    #[serde(deserialize_with = "null_as_default")]
    pub update_strategy: UpdateStrategy,
    /// Number of old revisions that are kept.
    pub revision_history_limit: Option<i64>,
    /// Seconds for which a Pod must be ready to count as available.
    pub min_ready_seconds: i64,
    /// Numbers of the Pods.
    pub ordinals: Option<Ordinals>,
}

/// `ordinals` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    /// Number of the first Pod.
    pub start: i64,
}

/// `updateStrategy` of a StatefulSet or DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// RollingUpdate or OnDelete.
    #[serde(rename = "type")]
    pub kind: String,
    /// Settings of a rolling update.
    #[serde(deserialize_with = "null_as_default")]
    pub rolling_update: UpdateSettings,
}

/// `rollingUpdate` of a StatefulSet or DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateSettings {
    /// Pods of a StatefulSet with a lower ordinal are not updated.
    pub partition: i64,
    /// Most Nodes of a DaemonSet without an available Pod: number or percentage.
    pub max_unavailable: Value,
    /// Most Nodes of a DaemonSet with an old and a new Pod: number or percentage.
    pub max_surge: Value,
}

/// A DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: DaemonSetSpec,
    /// Observed state.
    pub status: Value,
}

resource!(DaemonSet, "apps", "v1", "DaemonSet", "daemonsets");

/// `spec` of a DaemonSet, with the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// Selector of the Pods, a `LabelSelector`.
    pub selector: Value,
    /// Pod template.
    pub template: Value,
    /// Replacement of old Pods by new ones.
    #[serde(deserialize_with = "null_as_default")]
    pub update_strategy: UpdateStrategy,
    /// Number of old revisions that are kept.
    pub revision_history_limit: Option<i64>,
    /// Seconds for which a Pod must be ready to count as available.
    pub min_ready_seconds: i64,
}

/// A ControllerRevision: a template that a StatefulSet or DaemonSet has or had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// The patch of the owner's spec: `{"spec": {"template": …}}`.
    pub data: Value,
    /// Number of the revision; the current one has the largest.
    pub revision: i64,
}

resource!(
    ControllerRevision,
    "apps",
    "v1",
    "ControllerRevision",
    "controllerrevisions"
);

/// A Job.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: JobSpec,
    /// Observed state.
    pub status: Value,
}

resource!(Job, "batch", "v1", "Job", "jobs");

/// `spec` of a Job, with the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// Most Pods at a time.
    pub parallelism: i64,
    /// Desired number of succeeded Pods; `None` for a work queue.
    pub completions: Option<i64>,
    /// Number of failures after which the Job has failed.
    pub backoff_limit: i64,
    /// Seconds after which the Job has failed.
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after the end until the Job is deleted.
    pub ttl_seconds_after_finished: Option<i64>,
    /// NonIndexed or Indexed.
    pub completion_mode: String,
    /// True if the Job has no Pods for now.
    pub suspend: bool,
    /// TerminatingOrFailed or Failed.
    pub pod_replacement_policy: String,
    /// Rules about failed Pods, a `PodFailurePolicy`.
    pub pod_failure_policy: Value,
    /// Rules by which an Indexed Job succeeds before its completions, a `SuccessPolicy`.
    pub success_policy: Value,
    /// Selector of the Pods, a `LabelSelector`.
    pub selector: Value,
    /// Pod template.
    pub template: Value,
}

/// A ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReplicationController {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ReplicationControllerSpec,
    /// Observed state.
    pub status: Value,
}

resource!(
    ReplicationController,
    "",
    "v1",
    "ReplicationController",
    "replicationcontrollers"
);

/// `spec` of a ReplicationController, with the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicationControllerSpec {
    /// Desired number of Pods.
    pub replicas: i64,
    /// Selector of the Pods, as a `LabelSelector`; the API has a map of labels.
    #[serde(deserialize_with = "selector_of_map")]
    pub selector: Value,
    /// Pod template.
    pub template: Value,
    /// Seconds for which a Pod must be ready to count as available.
    pub min_ready_seconds: i64,
}

fn selector_of_map<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let labels = Value::deserialize(deserializer)?;
    Ok(serde_json::json!({ "matchLabels": labels }))
}
