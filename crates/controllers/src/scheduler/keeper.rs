//! Nodes and Pods in; Pods with a Node out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use api::object::{Labels, Node, ObjectKey, Taint};
use client::{Event, WallClock};

use super::SCHEDULER_NAME;
use super::filter::{Occupied, summary};
use super::pod::SchedulePod;
use super::score::choose;
use super::write::{Answer, Job, Place};
use crate::keeper::{Keeper, Look};
use crate::malformed;
use crate::queue::Queue;
use crate::world::ByKey;

/// Something that arrived; a complete list comes with its revision.
pub(super) enum Change {
    Node(Event<Node>),
    Pod(Event<SchedulePod>, u64),
}

/// The state of the scheduler.
pub(super) struct Scheduler {
    clock: WallClock,
    are_nodes_synced: bool,
    are_pods_synced: bool,
    nodes: BTreeMap<String, Node>,
    pods: ByKey<SchedulePod>,
    /// Pods on each Node.
    on_node: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Pods whose Node is being written, and which it is.
    assumed: BTreeMap<ObjectKey, String>,
    /// Pods that no Node takes at present.
    waiting: BTreeSet<ObjectKey>,
}

impl Scheduler {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            are_nodes_synced: false,
            are_pods_synced: false,
            nodes: BTreeMap::new(),
            pods: ByKey::default(),
            on_node: BTreeMap::new(),
            assumed: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    fn take_node(&mut self, event: Event<Node>, queue: &mut Queue<ObjectKey>, now: Instant) {
        match event {
            Event::Applied(node) => {
                let name = node.metadata.name.clone();
                let before = self.nodes.get(&name).map(room_of);
                let is_news = before != Some(room_of(&node));
                self.nodes.insert(name, node);
                if is_news {
                    self.retry(queue, now);
                }
            }
            Event::Deleted(key) => {
                self.nodes.remove(&*key.name);
                // What those who wait are told counts the Nodes.
                self.retry(queue, now);
            }
            Event::Synced => self.are_nodes_synced = true,
            Event::Malformed { key, error } => malformed::skip::<Node>(&key, &error),
        }
    }

    fn take_pod(
        &mut self,
        event: Event<SchedulePod>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        match event {
            Event::Applied(pod) => self.apply(pod, ByKey::apply, queue, now),
            Event::Deleted(key) => {
                let before = self.node_of(&key);
                if self.pods.remove(&key) {
                    self.left(&key, before, queue, now);
                }
            }
            Event::Synced => {
                self.are_pods_synced = true;
                for key in self.pods.listed(revision) {
                    for pods in self.on_node.values_mut() {
                        pods.remove(&key);
                    }
                    self.waiting.remove(&key);
                }
                self.retry(queue, now);
            }
            Event::Malformed { key, error } => malformed::skip::<SchedulePod>(&key, &error),
        }
    }

    /// Takes in a Pod from the watch or an answer.
    fn apply(
        &mut self,
        pod: SchedulePod,
        take: impl FnOnce(&mut ByKey<SchedulePod>, SchedulePod) -> bool,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        let key = pod.metadata.key();
        let before = self.node_of(&key);
        if !take(&mut self.pods, pod) {
            return;
        }
        let after = self.node_of(&key);
        if let Some(node) = &after {
            self.on_node.entry(node.clone()).or_default().insert(key.clone());
        }
        if before != after {
            self.left(&key, before, queue, now);
        }
        if self.pods.get(&key).is_some_and(is_ours) {
            queue.add(key, now);
        }
    }

    /// A Pod is not on a Node any more.
    fn left(&mut self, key: &ObjectKey, node: Option<String>, queue: &mut Queue<ObjectKey>, now: Instant) {
        if self.pods.get(key).is_none() {
            self.waiting.remove(key);
        }
        let Some(node) = node else { return };
        if let Some(pods) = self.on_node.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.on_node.remove(&node);
            }
        }
        self.retry(queue, now);
    }

    fn retry(&self, queue: &mut Queue<ObjectKey>, now: Instant) {
        for key in &self.waiting {
            queue.add(key.clone(), now);
        }
    }

    /// The Node on which a Pod takes room.
    fn node_of(&self, key: &ObjectKey) -> Option<String> {
        let pod = self.pods.get(key).filter(|pod| pod.occupies())?;
        Some(pod.spec.node_name.clone())
    }

    /// All Nodes, and what is taken of them.
    fn occupied(&self, pod: &SchedulePod) -> Vec<(&Node, Occupied<'_>)> {
        let nodes = self.nodes.iter().map(|(name, node)| {
            let on_node = self.on_node.get(name).into_iter().flatten();
            let assumed = self.assumed.iter().filter(|(_, node)| *node == name);
            let keys: BTreeSet<&ObjectKey> = on_node.chain(assumed.map(|(key, _)| key)).collect();
            let mut occupied = Occupied::default();
            for other in keys.into_iter().filter_map(|key| self.pods.get(key)) {
                occupied.pods += 1;
                occupied.resources = occupied.resources + other.requests();
                occupied.ports.extend(other.host_ports());
                let is_near = other.metadata.namespace == pod.metadata.namespace;
                occupied.like += i64::from(is_near && other.is_like(pod));
            }
            (node, occupied)
        });
        nodes.collect()
    }
}

/// Whether the Pod waits for this scheduler.
fn is_ours(pod: &SchedulePod) -> bool {
    pod.waits() && matches!(&*pod.spec.scheduler_name, "" | SCHEDULER_NAME)
}

/// What of a Node decides whether a Pod fits.
fn room_of(node: &Node) -> (Labels, Labels, Vec<Taint>, bool, bool) {
    (
        node.metadata.labels.clone(),
        node.status.allocatable.clone(),
        node.spec.taints.clone(),
        node.spec.unschedulable,
        node.is_ready(),
    )
}

impl Keeper for Scheduler {
    type Change = Change;
    type Key = ObjectKey;
    type Job = Job;
    type Answer = Answer;
    const JOBS_MAX: usize = 16;

    fn take(&mut self, change: Change, queue: &mut Queue<ObjectKey>, now: Instant) {
        match change {
            Change::Node(event) => self.take_node(event, queue, now),
            Change::Pod(event, revision) => self.take_pod(event, revision, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.are_nodes_synced && self.are_pods_synced
    }

    fn look(&mut self, key: &ObjectKey, _: Instant) -> Look<Job> {
        self.waiting.remove(key);
        let Some(pod) = self.pods.get(key).filter(|pod| is_ours(pod)) else {
            return Look::Fine;
        };
        let nodes = self.occupied(pod);
        let place = match choose(pod, &nodes) {
            Ok(node) => Place::On(node.metadata.name.clone()),
            Err(refusals) => Place::Nowhere(summary(nodes.len(), &refusals)),
        };
        let pod = pod.clone();
        match &place {
            Place::On(node) => {
                self.assumed.insert(key.clone(), node.clone());
            }
            Place::Nowhere(why) => {
                self.waiting.insert(key.clone());
                if pod.says_unschedulable(why) {
                    return Look::Fine;
                }
            }
        }
        Look::Do(Job {
            pod,
            place,
            now: self.clock.now(),
        })
    }

    fn failed(&mut self, key: &ObjectKey) {
        self.assumed.remove(key);
    }

    fn answered(&mut self, key: &ObjectKey, answer: Answer, queue: &mut Queue<ObjectKey>, now: Instant) {
        match answer {
            Answer::Now(pod) => self.apply(*pod, ByKey::answered, queue, now),
            Answer::Gone(meta) => {
                self.pods.deleted(&meta);
                self.waiting.remove(key);
            }
        }
        self.assumed.remove(key);
    }
}
