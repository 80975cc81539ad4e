//! State machine of the scheduler. Inputs are Nodes and Pods; outputs are bindings.
//!
//! A Pod that gets a Node counts there before its binding is written, so that two Pods never get the last free
//! resources. A Pod that fits on no Node is tried again when a relevant field of a Node changes, or a Pod leaves a
//! Node. Pods with affinity or spread constraints also depend on new Pods and namespaces. Growing delays bound the
//! attempts for one Pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use api::object::{Labels, Namespace, Node, ObjectKey, Taint};
use client::{Event, WallClock};
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::SCHEDULER_NAME;
use super::affinity::Namespaces;
use super::cached_pod::{CachedPod, PlacementFacts, SharedFacts};
use super::constraints::{Constraints, NodeWithPods};
use super::filter::{NodeUsage, summary};
use super::pod::SchedulePod;
use super::retry::Attempts;
use super::score::choose_node;
use super::write::{Job, JobOutput, Placement};
use crate::caches::{Cached, CompactSet, ObjectCache};
use crate::malformed_object::log_malformed;

/// A change that a watch reports, with the revision of its list.
#[expect(
    clippy::large_enum_variant,
    reason = "a bounded channel holds them, and most are changes of Pods"
)]
pub(super) enum Change {
    Node(Event<Node>),
    Pod(Event<SchedulePod>, u64),
    Namespace(Event<Namespace>),
}

/// Assigns Nodes to pending Pods.
pub(super) struct Scheduler {
    clock: WallClock,
    are_nodes_synced: bool,
    are_pods_synced: bool,
    are_namespaces_synced: bool,
    nodes: BTreeMap<String, Node>,
    namespaces: Namespaces,
    pods: ObjectCache<CachedPod>,
    shared: SharedFacts,
    /// Pods on each Node.
    on_node: BTreeMap<Arc<str>, CompactSet<ObjectKey>>,
    /// Pods whose binding is being written, with their Node.
    assumed: BTreeMap<ObjectKey, String>,
    /// Pods that currently fit on no Node.
    unschedulable: BTreeMap<ObjectKey, Attempts>,
}

impl Scheduler {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            are_nodes_synced: false,
            are_pods_synced: false,
            are_namespaces_synced: false,
            nodes: BTreeMap::new(),
            namespaces: Namespaces::new(),
            pods: ObjectCache::default(),
            shared: SharedFacts::default(),
            on_node: BTreeMap::new(),
            assumed: BTreeMap::new(),
            unschedulable: BTreeMap::new(),
        }
    }

    fn apply_node_event(&mut self, event: Event<Node>, queue: &mut Queue<ObjectKey>, now: Instant) {
        match event {
            Event::Applied(node) => {
                let name = node.metadata.name.clone();
                let before = self.nodes.get(&name).map(scheduling_fields);
                let has_changed = before != Some(scheduling_fields(&node));
                self.nodes.insert(name, node);
                if has_changed {
                    self.retry(queue, now);
                }
            }
            Event::Deleted(key) => {
                self.nodes.remove(&*key.name);
                // The message of unschedulable Pods contains the number of Nodes.
                self.retry(queue, now);
            }
            Event::Synced => self.are_nodes_synced = true,
            Event::Malformed { key, error } => log_malformed::<Node>(&key, &error),
        }
    }

    fn apply_namespace_event(&mut self, event: Event<Namespace>, queue: &mut Queue<ObjectKey>, now: Instant) {
        match event {
            Event::Applied(namespace) => {
                let labels = namespace.metadata.labels;
                self.namespaces.insert(namespace.metadata.name, labels);
                self.retry_dependent(queue, now);
            }
            Event::Deleted(key) => _ = self.namespaces.remove(&*key.name),
            Event::Synced => self.are_namespaces_synced = true,
            Event::Malformed { key, error } => log_malformed::<Namespace>(&key, &error),
        }
    }

    fn apply_pod_event(
        &mut self,
        event: Event<SchedulePod>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        match event {
            Event::Applied(pod) => self.apply(pod, ObjectCache::apply, queue, now),
            Event::Deleted(key) => {
                let before = self.node_of(&key);
                if self.pods.remove(&key) {
                    self.remove_from_node(&key, before, queue, now);
                }
            }
            Event::Synced => {
                self.are_pods_synced = true;
                for key in self.pods.complete_list(revision) {
                    for pods in self.on_node.values_mut() {
                        pods.remove(&key);
                    }
                    self.unschedulable.remove(&key);
                }
                self.retry(queue, now);
            }
            Event::Malformed { key, error } => log_malformed::<SchedulePod>(&key, &error),
        }
    }

    /// Applies a Pod from the watch or a response. `insert` is the method of the cache for that source.
    fn apply(
        &mut self,
        pod: SchedulePod,
        insert: impl FnOnce(&mut ObjectCache<CachedPod>, CachedPod) -> bool,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        let mut pod = CachedPod::of(pod, &mut self.shared);
        if let Some(before) = self.pods.get(&pod.key()) {
            pod.share_key_with(before);
        }
        let key = pod.key();
        let before = self.node_of(&key);
        if !insert(&mut self.pods, pod) {
            return;
        }
        let after = self.node_of(&key);
        if let Some(node) = &after {
            let on_node = self.on_node.entry(Arc::clone(node)).or_default();
            on_node.insert(key.clone());
            self.retry_dependent(queue, now);
        }
        if before != after {
            self.remove_from_node(&key, before, queue, now);
        }
        if self.unplaced(&key).is_some_and(is_schedulable) {
            queue.add(key, now);
        }
    }

    /// Removes a Pod from a Node.
    fn remove_from_node(
        &mut self,
        key: &ObjectKey,
        node: Option<Arc<str>>,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        if self.pods.get(key).is_none() {
            self.unschedulable.remove(key);
        }
        let Some(node) = node else { return };
        if let Some(pods) = self.on_node.get_mut(&*node) {
            pods.remove(key);
            if pods.is_empty() {
                self.on_node.remove(&*node);
            }
        }
        self.retry(queue, now);
    }

    /// Adds the Pods that fit on no Node to the queue.
    fn retry(&self, queue: &mut Queue<ObjectKey>, now: Instant) {
        for (key, attempts) in &self.unschedulable {
            add_retry(queue, key, attempts, now);
        }
    }

    /// Adds the Pods to the queue that fit on no Node, and whose feasible Nodes depend on other Pods.
    fn retry_dependent(&self, queue: &mut Queue<ObjectKey>, now: Instant) {
        for (key, attempts) in &self.unschedulable {
            if self.unplaced(key).is_some_and(SchedulePod::depends_on_pods) {
                add_retry(queue, key, attempts, now);
            }
        }
    }

    /// Returns the Node whose resources a Pod uses.
    fn node_of(&self, key: &ObjectKey) -> Option<Arc<str>> {
        self.pods.get(key)?.facts.used_node().cloned()
    }

    /// Returns the Pod with this key if it has no Node.
    fn unplaced(&self, key: &ObjectKey) -> Option<&SchedulePod> {
        self.pods.get(key)?.unplaced()
    }

    /// Returns the Pods that are on a Node or being bound to it.
    fn pods_on(&self, name: &str) -> Vec<&PlacementFacts> {
        let on_node = self.on_node.get(name).into_iter().flat_map(CompactSet::iter);
        let assumed = self.assumed.iter().filter(|(_, node)| *node == name);
        let keys: BTreeSet<&ObjectKey> = on_node.chain(assumed.map(|(key, _)| key)).collect();
        let pods = keys.into_iter().filter_map(|key| self.pods.get(key));
        pods.map(|pod| &pod.facts).collect()
    }

    /// Returns all Nodes with their Pods.
    fn nodes_with_pods(&self) -> Vec<NodeWithPods<'_>> {
        let nodes = self.nodes.iter();
        nodes.map(|(name, node)| (node, self.pods_on(name))).collect()
    }
}

/// Adds a Pod that fits on no Node. Without a delay, the changes of many Pods would occupy the scheduler with the
/// attempts for them.
fn add_retry(queue: &mut Queue<ObjectKey>, key: &ObjectKey, attempts: &Attempts, now: Instant) {
    if attempts.not_before <= now {
        queue.add(key.clone(), now);
    } else {
        queue.add_at(key.clone(), attempts.not_before);
    }
}

/// Returns the Nodes with the resources in use.
fn usage<'a>(pod: &PlacementFacts, nodes: &[NodeWithPods<'a>]) -> Vec<(&'a Node, NodeUsage<'a>)> {
    let has_host_ports = pod.host_ports().next().is_some();
    let nodes = nodes.iter().map(|(node, pods)| {
        let mut usage = NodeUsage::default();
        for &other in pods {
            usage.pods += 1;
            usage.resources = usage.resources + other.requests();
            if has_host_ports {
                usage.ports.extend(other.host_ports());
            }
            let is_near = other.namespace() == pod.namespace();
            usage.similar_pods += i64::from(is_near && other.is_spread_with(pod));
        }
        (*node, usage)
    });
    nodes.collect()
}

/// Returns true if the Pod is pending and selects this scheduler.
fn is_schedulable(pod: &SchedulePod) -> bool {
    pod.is_pending() && matches!(&*pod.spec.scheduler_name, "" | SCHEDULER_NAME)
}

/// Returns the fields of a Node that determine if a Pod fits.
fn scheduling_fields(node: &Node) -> (Labels, Labels, Vec<Taint>, bool, bool) {
    (
        node.metadata.labels.clone(),
        node.status.allocatable.clone(),
        node.spec.taints.clone(),
        node.spec.unschedulable,
        node.is_ready(),
    )
}

impl Reconciler for Scheduler {
    type Change = Change;
    type Key = ObjectKey;
    type Job = Job;
    type Output = JobOutput;
    const CONCURRENT_JOBS_MAX: usize = 16;

    fn tenant(key: &ObjectKey) -> &str {
        &key.namespace
    }

    fn apply_change(&mut self, change: Change, queue: &mut Queue<ObjectKey>, now: Instant) {
        match change {
            Change::Node(event) => self.apply_node_event(event, queue, now),
            Change::Namespace(event) => self.apply_namespace_event(event, queue, now),
            Change::Pod(event, revision) => self.apply_pod_event(event, revision, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.are_nodes_synced && self.are_pods_synced && self.are_namespaces_synced
    }

    fn reconcile(&mut self, key: &ObjectKey, now: Instant) -> Action<Job> {
        let attempts = self.unschedulable.remove(key);
        let Some(cached) = self.pods.get(key) else {
            return Action::Done;
        };
        let Some(pod) = cached.unplaced().filter(|pod| is_schedulable(pod)) else {
            return Action::Done;
        };
        let with_pods = self.nodes_with_pods();
        let nodes = usage(&cached.facts, &with_pods);
        let constraints = Constraints::of(pod, &cached.facts, &with_pods, &self.namespaces);
        let placement = match choose_node(pod, &nodes, &constraints) {
            Ok(node) => Placement::Node(node.metadata.name.clone()),
            Err(refusals) => Placement::Unschedulable(summary(nodes.len(), &refusals)),
        };
        let pod = pod.clone();
        match &placement {
            Placement::Node(node) => {
                self.assumed.insert(key.clone(), node.clone());
            }
            Placement::Unschedulable(reason) => {
                let attempts = Attempts::failed(attempts, now);
                self.unschedulable.insert(key.clone(), attempts);
                if pod.is_marked_unschedulable(reason) {
                    return Action::Done;
                }
            }
        }
        Action::Run(Job {
            pod,
            placement,
            now: self.clock.now(),
        })
    }

    fn on_failure(&mut self, key: &ObjectKey) {
        self.assumed.remove(key);
    }

    fn on_success(&mut self, key: &ObjectKey, output: JobOutput, queue: &mut Queue<ObjectKey>, now: Instant) {
        match output {
            JobOutput::Current(pod) => self.apply(*pod, ObjectCache::apply_response, queue, now),
            JobOutput::Deleted(meta) => {
                self.pods.confirm_deletion(&meta);
                self.unschedulable.remove(key);
            }
        }
        self.assumed.remove(key);
    }
}

#[cfg(test)]
mod tests;
