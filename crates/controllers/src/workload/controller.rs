//! State machine of the controller of a workload. Inputs are its objects, Pods, revisions and Nodes; outputs are
//! steps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use api::batch::JOB_NAME_LABEL;
use api::object::{ControllerRevision, Labels, Node, ObjectKey, ObjectMeta, Taint};
use client::{Event, WallClock};
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::write::{Job, JobOutput};
use super::{Inputs, Step, Workload, is_tracked};
use crate::malformed_object::log_malformed;
use crate::owned_objects::{OwnedObjects, OwnerChange, owner_changes, read_selector, selector_matches};
use crate::owner_cache::OwnerCache;
use crate::replica_set::ReplicaPod;

/// A change that a watch reports, with the revision of its list.
pub(super) enum Change<W> {
    Workload(Event<W>, u64),
    Pod(Event<ReplicaPod>, u64),
    Revision(Event<ControllerRevision>, u64),
    Node(Event<Node>),
}

/// Reconciles the objects of one kind with their Pods.
pub(super) struct WorkloadController<W> {
    clock: WallClock,
    owners: OwnerCache<W, ReplicaPod>,
    revisions: OwnedObjects<ControllerRevision>,
    are_revisions_synced: bool,
    nodes: BTreeMap<String, Node>,
    are_nodes_synced: bool,
}

impl<W: Workload> WorkloadController<W> {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            owners: OwnerCache::new(W::selector),
            revisions: OwnedObjects::default(),
            are_revisions_synced: !W::HAS_REVISIONS,
            nodes: BTreeMap::new(),
            are_nodes_synced: !W::READS_NODES,
        }
    }

    fn apply_revision_event(
        &mut self,
        event: Event<ControllerRevision>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        let affected = match event {
            Event::Applied(object) => vec![self.revisions.apply(object)],
            Event::Deleted(key) => vec![self.revisions.remove(&key)],
            Event::Synced => {
                self.are_revisions_synced = true;
                self.revisions.complete_list(revision)
            }
            Event::Malformed { key, error } => {
                log_malformed::<ControllerRevision>(&key, &error);
                return;
            }
        };
        for affected in affected {
            self.owners.enqueue_affected(&affected, queue, now);
        }
    }

    /// Returns the adoptions of matching revisions without owner, for example those of an earlier object of this name
    /// that was deleted with `--cascade=orphan`.
    fn revision_adoptions(&self, workload: &W) -> Vec<OwnerChange> {
        let Some(selector) = read_selector(workload.selector()) else {
            return Vec::new();
        };
        let orphans = self.revisions.orphans(&workload.metadata().namespace, &selector);
        let orphans = orphans.into_iter().map(|revision| &revision.metadata);
        owner_changes(workload, &selector, orphans)
    }

    /// Returns the tracked Pods of an earlier object with this key, and those that the object released.
    fn orphans(&self, key: &ObjectKey) -> Vec<ObjectMeta> {
        if !W::TRACKS_PODS {
            return Vec::new();
        }
        let workload = self.owners.objects.get(key);
        let is_orphan = |pod: &&ReplicaPod| {
            let is_of_key = owner_name::<W>(pod) == Some(&*key.name);
            is_tracked(pod) && is_of_key && is_foreign(workload, &pod.metadata)
        };
        let pods = self.owners.owned.in_namespace(&key.namespace);
        let orphans = pods.filter(is_orphan);
        orphans.map(|pod| pod.metadata.clone()).collect()
    }

    /// Adds the owner of a tracked Pod to the queue, also if it is not in the cache.
    fn enqueue_owner_of(pod: &ReplicaPod, queue: &mut Queue<ObjectKey>, now: Instant) {
        if let Some(name) = owner_name::<W>(pod).filter(|_| W::TRACKS_PODS && is_tracked(pod)) {
            queue.add(ObjectKey::new(&pod.metadata.namespace, name), now);
        }
    }

    fn apply_node_event(&mut self, event: Event<Node>, queue: &mut Queue<ObjectKey>, now: Instant) {
        match event {
            Event::Applied(node) => {
                let name = node.metadata.name.clone();
                let before = self.nodes.get(&name).map(placement_of);
                let has_changed = before != Some(placement_of(&node));
                self.nodes.insert(name, node);
                if !has_changed {
                    return;
                }
            }
            Event::Deleted(key) => {
                self.nodes.remove(&*key.name);
            }
            Event::Synced => self.are_nodes_synced = true,
            Event::Malformed { key, error } => return log_malformed::<Node>(&key, &error),
        }
        self.owners.enqueue_all(queue, now);
    }
}

/// Returns true if the object, which may be absent, neither owns the Pod nor may adopt it.
pub(super) fn is_foreign<W: Workload>(workload: Option<&W>, pod: &ObjectMeta) -> bool {
    let Some(workload) = workload else {
        return true;
    };
    match pod.controller() {
        Some(owner) => owner.uid != workload.metadata().uid,
        None => read_selector(workload.selector())
            .is_none_or(|selector| !selector_matches(&selector, &pod.labels)),
    }
}

/// Returns the name of the owner of a Pod; of an orphan, the name in its label.
fn owner_name<W: Workload>(pod: &ReplicaPod) -> Option<&str> {
    match pod.metadata.controller() {
        Some(owner) => Some(&*owner.name).filter(|_| owner.kind == W::KIND),
        None => pod.metadata.labels.get(JOB_NAME_LABEL).map(String::as_str),
    }
}

/// Returns the fields of a Node that decide about its Pods.
fn placement_of(node: &Node) -> (Labels, Vec<Taint>, bool) {
    (
        node.metadata.labels.clone(),
        node.spec.taints.clone(),
        node.spec.unschedulable,
    )
}

impl<W: Workload> Reconciler for WorkloadController<W> {
    type Change = Change<W>;
    type Key = ObjectKey;
    type Job = Job<W>;
    type Output = JobOutput<W>;
    /// Maximum number of concurrent jobs: upstream's number of workers.
    const CONCURRENT_JOBS_MAX: usize = 5;

    fn tenant(key: &ObjectKey) -> &str {
        &key.namespace
    }

    fn apply_change(&mut self, change: Change<W>, queue: &mut Queue<ObjectKey>, now: Instant) {
        match change {
            Change::Workload(event, revision) => {
                if let Event::Deleted(key) = &event {
                    queue.add(key.clone(), now);
                }
                self.owners.apply_owner_event(event, revision, queue, now);
            }
            Change::Pod(event, revision) => {
                if let Event::Applied(pod) = &event {
                    Self::enqueue_owner_of(pod, queue, now);
                }
                self.owners.apply_owned_event(event, revision, queue, now);
            }
            Change::Revision(event, revision) => self.apply_revision_event(event, revision, queue, now),
            Change::Node(event) => self.apply_node_event(event, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.owners.are_synced() && self.are_revisions_synced && self.are_nodes_synced
    }

    fn reconcile(&mut self, key: &ObjectKey, _: Instant) -> Action<Job<W>> {
        let orphans = self.orphans(key);
        if !orphans.is_empty() {
            return Action::Run(Job::Release(key.clone(), orphans));
        }
        let Some(workload) = self.owners.objects.get(key) else {
            return Action::Done;
        };
        if self.owners.needs_refresh(key) {
            return Action::Run(Job::Read(Box::new(workload.clone())));
        }
        let adoptions = self.revision_adoptions(workload);
        if !adoptions.is_empty() {
            let step = Step::AdoptRevisions(adoptions);
            return Action::Run(Job::Write(Box::new(workload.clone()), step));
        }
        let pods = self.owners.owned_by(workload);
        let revisions = self.revisions.of(&key.namespace, &workload.metadata().uid);
        let revisions: Vec<_> = revisions.collect();
        let in_namespace = self.revisions.in_namespace(&key.namespace);
        let revision_names: BTreeSet<&str> = in_namespace.map(|revision| &*revision.metadata.name).collect();
        let decision = W::reconcile(&Inputs {
            workload,
            pods: &pods,
            revisions: &revisions,
            revision_names: &revision_names,
            nodes: &self.nodes,
            now: self.clock.now(),
        });
        match (decision.step, decision.requeue_after) {
            (None, Some(pause)) => Action::RequeueAfter(pause),
            (None, None) => Action::Done,
            (Some(step), _) => Action::Run(Job::Write(Box::new(workload.clone()), step)),
        }
    }

    fn on_failure(&mut self, key: &ObjectKey) {
        self.owners.mark_for_refresh(key);
    }

    fn on_success(
        &mut self,
        key: &ObjectKey,
        output: JobOutput<W>,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        self.owners.apply_response(key, output.state);
        for revision in output.revisions {
            self.revisions.apply_response(revision);
        }
        for meta in output.deleted_revisions {
            self.revisions.confirm_deletion(&meta);
        }
        queue.add(key.clone(), now);
    }
}
