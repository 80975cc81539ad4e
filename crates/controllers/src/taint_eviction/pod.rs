//! The fields of a Pod that decide about its eviction.

use std::sync::Arc;

use api::object::{ObjectMeta, is_final_phase};
use serde::Deserialize;

use crate::scheduler::Toleration;

/// A view of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct EvictionPod {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: EvictionPodSpec,
    /// Observed state.
    pub status: EvictionPodStatus,
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EvictionPodSpec {
    /// Name of the Node; empty if the Pod is pending.
    pub node_name: String,
    /// Tolerations of taints.
    pub tolerations: Arc<[Toleration]>,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct EvictionPodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
}

api::resource!(EvictionPod, "", "v1", "Pod", "pods");

impl EvictionPod {
    /// Returns true if the Pod has succeeded or failed.
    pub(super) fn is_finished(&self) -> bool {
        is_final_phase(&self.status.phase)
    }
}
