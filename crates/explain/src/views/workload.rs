//! Workloads: Deployments, ReplicaSets, StatefulSets and DaemonSets.

use std::ops::Deref;

use crate::kind::Kind;
use crate::object::Object;

/// A workload that creates Pods from a template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload<'w>(pub &'w Object);

impl Deref for Workload<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

impl<'w> Workload<'w> {
    /// Kinds of workloads.
    pub(crate) const KINDS: [Kind; 4] = [
        Kind::Deployment,
        Kind::ReplicaSet,
        Kind::StatefulSet,
        Kind::DaemonSet,
    ];

    /// Returns the number of desired Pods.
    pub(crate) fn desired(self) -> i64 {
        if self.0.kind == Kind::DaemonSet {
            return self.0.number("/status/desiredNumberScheduled").unwrap_or(1);
        }
        self.0.number("/spec/replicas").unwrap_or(1)
    }

    /// Returns the labels of its Pods.
    pub(crate) fn template_labels(self) -> impl Iterator<Item = (&'w str, &'w str)> {
        self.0.pairs("/spec/template/metadata/labels")
    }

    /// Returns the message of a controller that cannot create Pods.
    pub(crate) fn failure(self) -> Option<&'w str> {
        let condition = self.0.condition("ReplicaFailure")?;
        (condition["status"] == "True").then(|| condition["message"].as_str().unwrap_or_default())
    }

    /// Returns true while Pods are replaced or added. The status does not show the desired Pods yet, and the workload
    /// does not report that it is stuck.
    pub(crate) fn is_rolling(self) -> bool {
        if self.0.kind == Kind::Deployment
            && let Some(progressing) = self.0.condition("Progressing")
        {
            return progressing["status"] == "True" && progressing["reason"] != "NewReplicaSetAvailable";
        }
        let status = |field: &str| self.0.number(&format!("/status/{field}")).unwrap_or_default();
        let revisions = (
            self.0.text("/status/currentRevision"),
            self.0.text("/status/updateRevision"),
        );
        match self.0.kind {
            Kind::StatefulSet => revisions.0 != revisions.1,
            Kind::DaemonSet => status("updatedNumberScheduled") < status("desiredNumberScheduled"),
            _ => false,
        }
    }
}
