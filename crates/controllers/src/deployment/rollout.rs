//! A Deployment with its ReplicaSets, and the changes of single ReplicaSets.

use api::object::{Deployment, ObjectMeta, ReplicaSet};
use serde_json::{Value, json};

use super::bounds::{Bounds, is_observed};
use super::naming::{has_template, template_hash, with_hash};
use super::revisions::{
    Annotations, desired_replicas, missing_annotations, missing_size_annotations, next_revision, revision_of,
};
use super::{HASH_LABEL, UNLIMITED};
use crate::owned_objects::reference_to;

/// A ReplicaSet to create.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewReplicaSet {
    /// ReplicaSet as JSON, as it is sent.
    pub object: Value,
    /// Name, with the hash of the Pod template.
    pub name: String,
    /// Desired Pods.
    pub replicas: i64,
    /// Revision of its template.
    pub revision: i64,
}

/// A change of a ReplicaSet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplicaSetChange {
    /// Metadata of the ReplicaSet at the time of the decision.
    pub meta: ObjectMeta,
    /// Desired Pods before and after, if they change.
    pub replicas: Option<(i64, i64)>,
    /// New `minReadySeconds`, if it changes.
    pub min_ready_seconds: Option<i64>,
    /// Annotations to set.
    pub annotations: Annotations,
}

/// A Deployment with its ReplicaSets by age.
pub(super) struct Rollout<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) bounds: Bounds,
    /// The ReplicaSet of the current template, if it exists.
    pub(super) newest: Option<&'a ReplicaSet>,
    /// All other ReplicaSets, oldest first.
    pub(super) old: Vec<&'a ReplicaSet>,
}

impl<'a> Rollout<'a> {
    /// Selects the ReplicaSets of a Deployment, and the newest one among them.
    pub(super) fn of(deployment: &'a Deployment, sets: &[&'a ReplicaSet]) -> Self {
        let is_own = |set: &&&ReplicaSet| {
            let controller = set.metadata.controller();
            controller.is_some_and(|controller| controller.uid == deployment.metadata.uid)
        };
        let mut own: Vec<&ReplicaSet> = sets.iter().filter(is_own).copied().collect();
        own.sort_by_key(|set| (&set.metadata.creation_timestamp, &set.metadata.name));
        let at = own
            .iter()
            .position(|set| has_template(set, &deployment.spec.template));
        let newest = at.map(|at| own.remove(at));
        Self {
            deployment,
            bounds: Bounds::of(deployment),
            newest,
            old: own,
        }
    }

    /// Iterates over all ReplicaSets.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.old.iter().copied().chain(self.newest)
    }

    /// Returns the change that sets the desired Pods of a ReplicaSet and its size annotations.
    pub(super) fn resize(&self, set: &ReplicaSet, replicas: i64) -> ReplicaSetChange {
        ReplicaSetChange {
            meta: set.metadata.clone(),
            replicas: (replicas != set.spec.replicas).then_some((set.spec.replicas, replicas)),
            min_ready_seconds: None,
            annotations: missing_size_annotations(self.bounds, &set.metadata.annotations),
        }
    }

    /// Returns the change that copies annotations and `minReadySeconds` to the newest ReplicaSet, if they
    /// differ.
    pub(super) fn annotate_newest(&self) -> Option<ReplicaSetChange> {
        let newest = self.newest?;
        let revision = next_revision(&self.old);
        let annotations = missing_annotations(self.deployment, &newest.metadata.annotations, revision);
        let desired = self.deployment.spec.min_ready_seconds;
        let min_ready_seconds = (desired != newest.spec.min_ready_seconds).then_some(desired);
        let is_missing = !annotations.is_empty() || min_ready_seconds.is_some();
        is_missing.then(|| ReplicaSetChange {
            meta: newest.metadata.clone(),
            replicas: None,
            min_ready_seconds,
            annotations,
        })
    }

    /// Returns true if `spec.replicas` changed since the ReplicaSets were last resized.
    pub(super) fn is_scaled(&self) -> bool {
        let active = self.all().filter(|set| set.spec.replicas > 0);
        active
            .filter_map(desired_replicas)
            .any(|desired| desired != self.bounds.desired)
    }

    /// Returns true if the status reports exactly the desired Pods.
    pub(super) fn is_complete(&self) -> bool {
        let (status, desired) = (&self.deployment.status, self.bounds.desired);
        status.updated_replicas == desired
            && status.replicas == desired
            && status.available_replicas == desired
            && status.observed_generation >= self.deployment.metadata.generation
    }

    /// Returns the hash of the current template.
    pub(super) fn newest_hash(&self) -> String {
        let collisions = self.deployment.status.collision_count.unwrap_or(0);
        let known = self.newest.and_then(|set| set.metadata.labels.get(HASH_LABEL));
        known
            .cloned()
            .unwrap_or_else(|| template_hash(&self.deployment.spec.template, collisions))
    }

    /// Returns the ReplicaSet of the current template, for its creation.
    pub(super) fn new_replica_set(&self, replicas: i64) -> NewReplicaSet {
        let spec = &self.deployment.spec;
        let meta = &self.deployment.metadata;
        let hash = self.newest_hash();
        let name = format!("{}-{hash}", meta.name);
        let mut template = spec.template.clone();
        template["metadata"] = with_hash(&template["metadata"], "labels", &hash);
        let revision = next_revision(&self.old);
        let none = Default::default();
        let mut annotations = missing_annotations(self.deployment, &none, revision);
        annotations.extend(missing_size_annotations(self.bounds, &none));
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [reference_to(self.deployment)],
            },
            "spec": {
                "replicas": replicas,
                "minReadySeconds": spec.min_ready_seconds,
                "selector": with_hash(&spec.selector, "matchLabels", &hash),
                "template": template,
            },
        });
        NewReplicaSet {
            object,
            name,
            replicas,
            revision,
        }
    }

    /// Returns the old ReplicaSets beyond the revision history limit, if any.
    pub(super) fn excess_sets(&self) -> Option<Vec<ObjectMeta>> {
        let limit = self
            .deployment
            .spec
            .revision_history_limit
            .filter(|limit| *limit != UNLIMITED)?;
        let mut old: Vec<&ReplicaSet> = self.old.clone();
        old.retain(|set| set.metadata.deletion_timestamp.is_none());
        let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by_key(|set| revision_of(set));
        let is_idle =
            |set: &&ReplicaSet| set.status.replicas == 0 && set.spec.replicas == 0 && is_observed(set);
        let excess_sets = old.into_iter().take(excess).filter(is_idle);
        let excess_sets: Vec<ObjectMeta> = excess_sets.map(|set| set.metadata.clone()).collect();
        (!excess_sets.is_empty()).then_some(excess_sets)
    }
}
