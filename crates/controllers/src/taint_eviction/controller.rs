//! State machine of the taint eviction controller. Inputs are Nodes and Pods; outputs are evictions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use api::object::{Node, ObjectKey, ObjectMeta};
use client::{Event, WallClock};
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::cached_pod::{CachedPod, SharedValues};
use super::decide::{RemainingTime, SeenTaint, no_execute_taints, time_remaining};
use super::pod::EvictionPod;
use crate::caches::{Cached, CompactSet, ObjectCache};
use crate::malformed_object::log_malformed;

/// A change that a watch reports, with the revision of its list.
pub(super) enum Change {
    Node(Event<Node>),
    Pod(Event<EvictionPod>, u64),
}

/// Evicts Pods from tainted Nodes.
pub(super) struct TaintEviction {
    clock: WallClock,
    are_nodes_synced: bool,
    are_pods_synced: bool,
    /// NoExecute taints of the Nodes that have any.
    taints: BTreeMap<String, Vec<SeenTaint>>,
    pods: ObjectCache<CachedPod>,
    shared: SharedValues,
    /// Pods by Node.
    on_node: BTreeMap<Arc<str>, CompactSet<ObjectKey>>,
}

impl TaintEviction {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            are_nodes_synced: false,
            are_pods_synced: false,
            taints: BTreeMap::new(),
            pods: ObjectCache::default(),
            shared: SharedValues::default(),
            on_node: BTreeMap::new(),
        }
    }

    fn apply_node_event(&mut self, event: Event<Node>, queue: &mut Queue<ObjectKey>, now: Instant) {
        match event {
            Event::Applied(node) => {
                let name = node.metadata.name;
                let seen = self.taints.remove(&name).unwrap_or_default();
                let taints = no_execute_taints(&node.spec.taints, &seen, self.clock.now());
                if taints != seen {
                    let on_node = self.on_node.get(&*name).into_iter();
                    for key in on_node.flat_map(CompactSet::iter) {
                        queue.add(key.clone(), now);
                    }
                }
                if !taints.is_empty() {
                    self.taints.insert(name, taints);
                }
            }
            Event::Deleted(key) => _ = self.taints.remove(&*key.name),
            Event::Synced => self.are_nodes_synced = true,
            Event::Malformed { key, error } => log_malformed::<Node>(&key, &error),
        }
    }

    fn apply_pod_event(
        &mut self,
        event: Event<EvictionPod>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        match event {
            Event::Applied(pod) => {
                let mut pod = CachedPod::of(pod, &mut self.shared);
                if let Some(before) = self.pods.get(&pod.key()) {
                    pod.share_key_with(before);
                }
                let key = pod.key();
                self.unindex(&key);
                self.pods.apply(pod);
                self.index(&key);
                // A later taint adds all Pods of its Node. Without taints there is nothing to decide about most Pods.
                if self.is_on_tainted_node(&key) {
                    queue.add(key, now);
                }
            }
            Event::Deleted(key) => {
                self.unindex(&key);
                self.pods.remove(&key);
                self.index(&key);
            }
            Event::Synced => {
                self.are_pods_synced = true;
                for key in self.pods.complete_list(revision) {
                    for pods in self.on_node.values_mut() {
                        pods.remove(&key);
                    }
                }
            }
            Event::Malformed { key, error } => log_malformed::<EvictionPod>(&key, &error),
        }
    }

    fn is_on_tainted_node(&self, key: &ObjectKey) -> bool {
        let pod = self.pods.get(key);
        pod.is_some_and(|pod| self.taints.contains_key(&*pod.node_name))
    }

    /// Removes a cached Pod from the Pods of its Node.
    fn unindex(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key) else { return };
        if let Some(pods) = self.on_node.get_mut(&pod.node_name) {
            pods.remove(key);
            if pods.is_empty() {
                self.on_node.remove(&pod.node_name);
            }
        }
    }

    /// Adds a cached Pod to the Pods of its Node.
    fn index(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key) else { return };
        if !pod.node_name.is_empty() {
            let node = self.on_node.entry(Arc::clone(&pod.node_name)).or_default();
            node.insert(key.clone());
        }
    }
}

impl Reconciler for TaintEviction {
    type Change = Change;
    type Key = ObjectKey;
    /// Key and UID of the Pod to evict.
    type Job = ObjectMeta;
    type Output = ();
    /// Maximum number of concurrent jobs: upstream's number of workers.
    const CONCURRENT_JOBS_MAX: usize = 8;

    fn tenant(key: &ObjectKey) -> &str {
        &key.namespace
    }

    fn apply_change(&mut self, change: Change, queue: &mut Queue<ObjectKey>, now: Instant) {
        match change {
            Change::Node(event) => self.apply_node_event(event, queue, now),
            Change::Pod(event, revision) => self.apply_pod_event(event, revision, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.are_nodes_synced && self.are_pods_synced
    }

    fn reconcile(&mut self, key: &ObjectKey, _: Instant) -> Action<ObjectMeta> {
        let Some(pod) = self.pods.get(key) else {
            return Action::Done;
        };
        let Some(taints) = self.taints.get(&*pod.node_name) else {
            return Action::Done;
        };
        match time_remaining(pod, taints, self.clock.now()) {
            RemainingTime::Forever => Action::Done,
            RemainingTime::For(pause) => Action::RequeueAfter(pause),
            RemainingTime::Over => Action::Run(pod.identity()),
        }
    }

    fn on_success(&mut self, _: &ObjectKey, (): (), _: &mut Queue<ObjectKey>, _: Instant) {}
}

#[cfg(test)]
mod tests;
