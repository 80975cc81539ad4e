//! Nodes, Leases and the time in; steps on Nodes and their Pods out.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use api::object::{Lease, Node};
use client::{Event, WallClock};

use super::{Lifecycle, NodeState, Settings, Step};
use crate::keeper::{Keeper, Look};
use crate::malformed;
use crate::queue::Queue;
use crate::world::Graves;

/// How often the Pods of a Node that is out of traffic are looked at: one may come to say that it is ready.
const PODS_PERIOD: Duration = Duration::from_secs(60);

/// Something that arrived.
pub(super) enum Change {
    Node(Event<Node>),
    Lease(Event<Lease>),
}

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A Node's conditions and taints.
    Node(String),
    /// The Pods of a Node that is out of traffic.
    Pods(String),
}

impl Subject {
    /// The Node's name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Pods(name) => name,
        }
    }
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Job {
    /// A step on a Node as it was read, whose Lease said `renew_time`.
    Write {
        node: Box<NodeState>,
        renew_time: Option<String>,
        step: Step,
        /// The time that the write says.
        time: String,
    },
    /// The Pods of a Node are not ready.
    Withdraw,
}

/// The state of the controller.
pub(super) struct Nodes {
    clock: WallClock,
    are_nodes_synced: bool,
    are_leases_synced: bool,
    sweep_at: Instant,
    period: Duration,
    lifecycle: Lifecycle,
    graves: Graves,
    /// When the Pods of each Node that is out of traffic were looked at last.
    pods_withdrawn: HashMap<String, Instant>,
}

impl Nodes {
    pub(super) fn new(settings: Settings, clock: WallClock, now: Instant) -> Self {
        Self {
            clock,
            are_nodes_synced: false,
            are_leases_synced: false,
            sweep_at: now,
            period: settings.monitor_period,
            lifecycle: Lifecycle::new(settings),
            graves: Graves::default(),
            pods_withdrawn: HashMap::new(),
        }
    }

    fn take_node(&mut self, event: Event<Node>, queue: &mut Queue<Subject>, now: Instant) {
        match event {
            Event::Applied(node) => self.apply(&node, queue, now),
            Event::Deleted(key) => {
                if let Some(gone) = self.lifecycle.node(&key.name) {
                    self.graves.bury(&gone.uid);
                }
                self.lifecycle.remove_node(&key.name);
                self.pods_withdrawn.remove(&*key.name);
            }
            Event::Synced => self.are_nodes_synced = true,
            Event::Malformed { key, error } => malformed::skip::<Node>(&key, &error),
        }
    }

    fn take_lease(&mut self, event: Event<Lease>, now: Instant) {
        match event {
            Event::Applied(lease) => self.lifecycle.apply_lease(&lease, now),
            Event::Deleted(key) => self.lifecycle.remove_lease(&key.name),
            Event::Synced => self.are_leases_synced = true,
            Event::Malformed { key, error } => malformed::skip::<Lease>(&key, &error),
        }
    }

    /// Takes in a Node from the watch or an answer, unless it is old news.
    fn apply(&mut self, node: &Node, queue: &mut Queue<Subject>, now: Instant) {
        let version = |version: &str| version.parse().unwrap_or(0_u64);
        let name = &node.metadata.name;
        let known = self.lifecycle.node(name);
        let of_node = version(&node.metadata.resource_version);
        let is_old = known.is_some_and(|known| version(&known.resource_version) > of_node);
        if is_old || self.graves.hold(&node.metadata.uid) {
            return;
        }
        self.lifecycle.apply_node(node, now);
        queue.add(Subject::Node(name.clone()), now);
        if !node.is_ready() {
            // Who is lost may be next to leave traffic; no need to wait for the next sweep.
            self.sweep_at = now;
        }
        self.look_at_pods(name, queue, now);
    }

    /// The Pods of a Node that is out of traffic are looked at once, and now and then.
    fn look_at_pods(&mut self, name: &str, queue: &mut Queue<Subject>, now: Instant) {
        if !self.lifecycle.is_out_of_traffic(name) {
            self.pods_withdrawn.remove(name);
            return;
        }
        let looked_at = self.pods_withdrawn.get(name);
        if looked_at.is_none_or(|at| now >= *at + PODS_PERIOD) {
            queue.add(Subject::Pods(name.to_owned()), now);
        }
    }
}

impl Keeper for Nodes {
    type Change = Change;
    type Key = Subject;
    type Job = Job;
    type Answer = Option<Node>;
    /// As many as upstream's workers.
    const JOBS_MAX: usize = 8;

    fn take(&mut self, change: Change, queue: &mut Queue<Subject>, now: Instant) {
        match change {
            Change::Node(event) => self.take_node(event, queue, now),
            Change::Lease(event) => self.take_lease(event, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.are_nodes_synced && self.are_leases_synced
    }

    fn next_turn(&self) -> Option<Instant> {
        Some(self.sweep_at)
    }

    fn turn(&mut self, queue: &mut Queue<Subject>, now: Instant) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + self.period;
        for name in self.lifecycle.sweep(now) {
            queue.add(Subject::Node(name), now);
        }
        let mut out: Vec<String> = self.pods_withdrawn.keys().cloned().collect();
        out.sort_unstable();
        for name in out {
            self.look_at_pods(&name, queue, now);
        }
    }

    fn look(&mut self, subject: &Subject, now: Instant) -> Look<Job> {
        let name = match subject {
            Subject::Pods(name) if self.lifecycle.is_out_of_traffic(name) => return Look::Do(Job::Withdraw),
            Subject::Pods(_) => return Look::Fine,
            Subject::Node(name) => name,
        };
        let time = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let step = self.lifecycle.judge(name, now, &time);
        let (Some(step), Some(node)) = (step, self.lifecycle.node(name)) else {
            return Look::Fine;
        };
        Look::Do(Job::Write {
            node: Box::new(node.clone()),
            renew_time: self.lifecycle.renew_time(name).map(str::to_owned),
            step,
            time,
        })
    }

    fn answered(
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
            self.pods_withdrawn.insert(name.clone(), now);
        }
    }
}
