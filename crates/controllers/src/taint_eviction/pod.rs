//! The fields of a Pod that decide about its eviction.

use std::sync::Arc;

use api::object::{Labels, ObjectMeta, is_final_phase};
use api::pod::MIRROR_ANNOTATION;
use serde::Deserialize;

use crate::caches::Shared;
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
    /// Tolerations of taints, which Pods share.
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
    /// Drops the fields that no decision reads, and shares the tolerations with other Pods.
    pub(super) fn drop_unread_fields(&mut self, tolerations: &mut Shared<[Toleration]>) {
        self.spec.tolerations = tolerations.intern(std::mem::take(&mut self.spec.tolerations));
        let metadata = &mut self.metadata;
        if !metadata.annotations.contains_key(MIRROR_ANNOTATION) {
            metadata.annotations = Labels::new();
        }
        metadata.labels = Labels::new();
        metadata.owner_references = Vec::new();
        metadata.finalizers = Vec::new();
        metadata.generate_name = String::new();
        if !self.is_finished() {
            self.status.phase = String::new();
        }
    }

    /// Returns true if the Pod has succeeded or failed.
    pub(super) fn is_finished(&self) -> bool {
        is_final_phase(&self.status.phase)
    }
}
