//! Pods as the scheduler caches them.
//!
//! A cluster has far more Pods with a Node than pending ones. The cache has the whole view of pending Pods, and for each
//! Pod the facts on which the placement of other Pods depends.

use std::borrow::Cow;
use std::sync::Arc;

use api::object::ObjectKey;
use api::pod::RequestedHostPort;

use super::affinity::PodTerm;
use super::pod::{SchedulePod, SchedulePort};
use super::resources::Resources;
use crate::caches::interner::{Interner, LabelSet};
use crate::caches::{Cached, InternedValues, Keyed, Uid};

/// A Pod in the cache of the scheduler.
#[derive(Clone, Debug)]
pub(super) struct CachedPod {
    /// The fields on which the placement of other Pods depends.
    pub(super) facts: PlacementFacts,
    /// The view of a Pod without a Node.
    unplaced: Option<Box<SchedulePod>>,
    uid: Uid,
    version: u64,
}

/// The fields of a Pod on which the placement of other Pods depends.
#[derive(Clone, Debug)]
pub(crate) struct PlacementFacts {
    /// Namespace and name.
    key: ObjectKey,
    /// Name of the Node; empty if the Pod has none.
    node_name: Arc<str>,
    /// The fields that the replicas of a workload have in common.
    replica: Arc<ReplicaFacts>,
    /// The fields that few Pods have.
    rare: Option<Box<RareFacts>>,
    is_finished: bool,
    is_terminating: bool,
}

/// The facts that the replicas of a workload have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ReplicaFacts {
    labels: LabelSet,
    /// UID of the controller that owns the Pod.
    controller_uid: Option<Arc<str>>,
    /// The effective requests.
    requests: Resources,
}

/// The facts that few Pods have.
#[derive(Clone, Debug, Default)]
struct RareFacts {
    /// Ports of containers and sidecars with a host port.
    host_ports: Vec<SchedulePort>,
    /// Required terms of the anti-affinity to Pods.
    anti_affinity: Vec<PodTerm>,
}

/// Values that cached Pods share.
#[derive(Debug, Default)]
pub(crate) struct SharedFacts {
    /// Names of Nodes, UIDs of controllers, and labels.
    values: Interner,
    replicas: InternedValues<ReplicaFacts>,
}

impl CachedPod {
    /// Returns the cached form of a Pod.
    pub(super) fn of(pod: SchedulePod, shared: &mut SharedFacts) -> Self {
        Self {
            facts: PlacementFacts::of(&pod, shared),
            uid: Uid::new(&pod.metadata.uid),
            version: pod.metadata.resource_version.parse().unwrap_or(0),
            unplaced: pod.spec.node_name.is_empty().then(|| Box::new(pod)),
        }
    }

    /// Returns the view of a Pod without a Node; `None` if the Pod has a Node.
    pub(super) fn unplaced(&self) -> Option<&SchedulePod> {
        self.unplaced.as_deref()
    }

    /// Shares the key with an earlier state of the Pod. Indexes keep their first key.
    pub(super) fn share_key_with(&mut self, before: &Self) {
        self.facts.key = before.facts.key.clone();
    }
}

impl Keyed for CachedPod {
    fn key_texts(&self) -> (&str, &str) {
        (&self.facts.key.namespace, &self.facts.key.name)
    }
}

impl Cached for CachedPod {
    fn key(&self) -> ObjectKey {
        self.facts.key.clone()
    }

    fn uid(&self) -> Cow<'_, str> {
        self.uid.text()
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl PlacementFacts {
    /// Returns the facts of a Pod.
    pub(crate) fn of(pod: &SchedulePod, shared: &mut SharedFacts) -> Self {
        let (metadata, spec) = (&pod.metadata, &pod.spec);
        let rare = RareFacts {
            host_ports: pod.ports_with_host_port().cloned().collect(),
            anti_affinity: spec.affinity.pod_anti_affinity.required.to_vec(),
        };
        let has_rare = !rare.host_ports.is_empty() || !rare.anti_affinity.is_empty();
        let replica = ReplicaFacts {
            labels: shared.values.labels(&metadata.labels),
            controller_uid: metadata.controller().map(|owner| shared.values.text(&owner.uid)),
            requests: pod.requests(),
        };
        Self {
            key: metadata.key(),
            node_name: shared.values.text(&spec.node_name),
            replica: shared.replicas.intern(replica),
            rare: has_rare.then(|| Box::new(rare)),
            is_finished: pod.is_finished(),
            is_terminating: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Returns the namespace.
    pub(super) fn namespace(&self) -> &str {
        &self.key.namespace
    }

    /// Returns the labels.
    pub(super) fn labels(&self) -> &LabelSet {
        &self.replica.labels
    }

    /// Returns the effective requests.
    pub(super) fn requests(&self) -> Resources {
        self.replica.requests
    }

    /// Iterates over the host ports of containers and sidecars.
    pub(super) fn host_ports(&self) -> impl Iterator<Item = RequestedHostPort<'_>> {
        let ports = self.rare.iter().flat_map(|rare| &rare.host_ports);
        ports.map(SchedulePort::as_requested)
    }

    /// Returns the required terms of the anti-affinity to Pods.
    pub(super) fn anti_affinity(&self) -> &[PodTerm] {
        match &self.rare {
            Some(rare) => &rare.anti_affinity,
            None => &[],
        }
    }

    /// Returns true if the Pod has a deletion timestamp.
    pub(super) fn is_terminating(&self) -> bool {
        self.is_terminating
    }

    /// Returns the Node whose resources the Pod uses.
    pub(super) fn used_node(&self) -> Option<&Arc<str>> {
        (!self.node_name.is_empty() && !self.is_finished).then_some(&self.node_name)
    }

    /// Returns true if the two Pods are to be spread: they have the same owner, or no owner and equal labels.
    pub(super) fn is_spread_with(&self, other: &Self) -> bool {
        let (own, other) = (&self.replica, &other.replica);
        match (&own.controller_uid, &other.controller_uid) {
            (Some(own), Some(other)) => own == other,
            (None, None) => !own.labels.is_empty() && own.labels == other.labels,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
