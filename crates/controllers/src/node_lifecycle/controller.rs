//! State machine of the node lifecycle controller. Inputs are Nodes, Leases and time; outputs are writes of Nodes and
//! Pods.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use api::object::{Lease, Node};
use client::{Event, WallClock};
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::{Lifecycle, NodeState, Settings, Step};
use crate::caches::Tombstones;
use crate::malformed_object::log_malformed;

/// Interval between checks of the Pods of a Node with an eviction taint, which may report readiness again.
const PODS_PERIOD: Duration = Duration::from_secs(60);

/// A change that a watch reports.
pub(super) enum Change {
    Node(Event<Node>),
    Lease(Event<Lease>),
}

/// The subject of a reconciliation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// Conditions and taints of a Node.
    Node(String),
    /// Pods of a Node with an eviction taint.
    Pods(String),
}

impl Subject {
    /// Returns the name of the Node.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Pods(name) => name,
        }
    }
}

/// The job of a reconciliation.
#[derive(Debug)]
pub(super) enum Job {
    /// Writes a step of a Node. `renew_time` is that of the Lease on which the decision is based.
    Write {
        node: Box<NodeState>,
        renew_time: Option<String>,
        step: Step,
        /// Timestamp of the write, RFC 3339.
        time: String,
    },
    /// Sets the Pods of a Node to not ready.
    MarkPodsNotReady,
}

/// Sets conditions and taints of Nodes without heartbeats, and their Pods to not ready.
pub(super) struct NodeLifecycleController {
    clock: WallClock,
    are_nodes_synced: bool,
    are_leases_synced: bool,
    check_at: Instant,
    period: Duration,
    lifecycle: Lifecycle,
    tombstones: Tombstones,
    /// Time of the last check of the Pods of each Node with an eviction taint.
    pods_checked: HashMap<String, Instant>,
}

impl NodeLifecycleController {
    pub(super) fn new(settings: Settings, clock: WallClock, now: Instant) -> Self {
        Self {
            clock,
            are_nodes_synced: false,
            are_leases_synced: false,
            check_at: now,
            period: settings.monitor_period,
            lifecycle: Lifecycle::new(settings),
            tombstones: Tombstones::default(),
            pods_checked: HashMap::new(),
        }
    }

    fn apply_node_event(&mut self, event: Event<Node>, queue: &mut Queue<Subject>, now: Instant) {
        match event {
            Event::Applied(node) => self.apply(&node, queue, now),
            Event::Deleted(key) => {
                if let Some(gone) = self.lifecycle.node(&key.name) {
                    self.tombstones.insert(&gone.uid);
                }
                self.lifecycle.remove_node(&key.name);
                self.pods_checked.remove(&*key.name);
            }
            Event::Synced => self.are_nodes_synced = true,
            Event::Malformed { key, error } => log_malformed::<Node>(&key, &error),
        }
    }

    fn apply_lease_event(&mut self, event: Event<Lease>, now: Instant) {
        match event {
            Event::Applied(lease) => self.lifecycle.apply_lease(&lease, now),
            Event::Deleted(key) => self.lifecycle.remove_lease(&key.name),
            Event::Synced => self.are_leases_synced = true,
            Event::Malformed { key, error } => log_malformed::<Lease>(&key, &error),
        }
    }

    /// Applies a Node from the watch or a response, unless it is older than the cached one.
    fn apply(&mut self, node: &Node, queue: &mut Queue<Subject>, now: Instant) {
        let version = |version: &str| version.parse().unwrap_or(0_u64);
        let name = &node.metadata.name;
        let known = self.lifecycle.node(name);
        let node_version = version(&node.metadata.resource_version);
        let is_old = known.is_some_and(|known| version(&known.resource_version) > node_version);
        if is_old || self.tombstones.contains(&node.metadata.uid) {
            return;
        }
        self.lifecycle.apply_node(node, now);
        queue.add(Subject::Node(name.clone()), now);
        if !node.is_ready() {
            // The next check may grant eviction from a Node that is not ready. It need not wait for the period.
            self.check_at = now;
        }
        self.enqueue_pods(name, queue, now);
    }

    /// Adds the Pods of a Node with an eviction taint to the queue, at once and then periodically.
    fn enqueue_pods(&mut self, name: &str, queue: &mut Queue<Subject>, now: Instant) {
        if !self.lifecycle.needs_unready_pods(name) {
            self.pods_checked.remove(name);
            return;
        }
        let last = self.pods_checked.get(name);
        if last.is_none_or(|at| now >= *at + PODS_PERIOD) {
            queue.add(Subject::Pods(name.to_owned()), now);
        }
    }
}

impl Reconciler for NodeLifecycleController {
    type Change = Change;
    type Key = Subject;
    type Job = Job;
    type Output = Option<Node>;
    /// Maximum number of concurrent jobs: upstream's number of workers.
    const CONCURRENT_JOBS_MAX: usize = 8;

    fn apply_change(&mut self, change: Change, queue: &mut Queue<Subject>, now: Instant) {
        match change {
            Change::Node(event) => self.apply_node_event(event, queue, now),
            Change::Lease(event) => self.apply_lease_event(event, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.are_nodes_synced && self.are_leases_synced
    }

    fn next_tick(&self) -> Option<Instant> {
        Some(self.check_at)
    }

    fn tick(&mut self, queue: &mut Queue<Subject>, now: Instant) {
        if now < self.check_at {
            return;
        }
        self.check_at = now + self.period;
        for name in self.lifecycle.check_nodes(now) {
            queue.add(Subject::Node(name), now);
        }
        let mut out: Vec<String> = self.pods_checked.keys().cloned().collect();
        out.sort_unstable();
        for name in out {
            self.enqueue_pods(&name, queue, now);
        }
    }

    fn reconcile(&mut self, subject: &Subject, now: Instant) -> Action<Job> {
        let name = match subject {
            Subject::Pods(name) if self.lifecycle.needs_unready_pods(name) => {
                return Action::Run(Job::MarkPodsNotReady);
            }
            Subject::Pods(_) => return Action::Done,
            Subject::Node(name) => name,
        };
        let time = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let step = self.lifecycle.decide(name, now, &time);
        let (Some(step), Some(node)) = (step, self.lifecycle.node(name)) else {
            return Action::Done;
        };
        Action::Run(Job::Write {
            node: Box::new(node.clone()),
            renew_time: self.lifecycle.renew_time(name).map(str::to_owned),
            step,
            time,
        })
    }

    fn on_success(
        &mut self,
        subject: &Subject,
        written: Option<Node>,
        queue: &mut Queue<Subject>,
        now: Instant,
    ) {
        if let Some(node) = written {
            self.apply(&node, queue, now);
        }
        if let Subject::Pods(name) = subject {
            self.pods_checked.insert(name.clone(), now);
        }
    }
}
