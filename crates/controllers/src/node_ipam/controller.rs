//! State machine of the node IPAM controller. Inputs are Nodes; outputs are Pod CIDRs.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use api::object::Node;
use client::Event;
use ipnet::IpNet;
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::Ranges;
use crate::malformed_object::log_malformed;

/// The job of a reconciliation.
#[derive(Debug)]
pub(super) enum Job {
    /// Assigns these Pod CIDRs.
    Assign { node: Box<Node>, ranges: Vec<IpNet> },
    /// Reports once that no Pod CIDR is free.
    ReportExhausted(Box<Node>),
}

/// Assigns Pod CIDRs to Nodes.
pub(super) struct NodeIpamController {
    ranges: Ranges,
    is_synced: bool,
    nodes: HashMap<String, Node>,
    /// Nodes that wait for a Pod CIDR.
    waiting: BTreeSet<String>,
}

impl NodeIpamController {
    pub(super) fn new(ranges: Ranges) -> Self {
        Self {
            ranges,
            is_synced: false,
            nodes: HashMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    fn apply(&mut self, node: Node, queue: &mut Queue<String>, now: Instant) {
        let name = node.metadata.name.clone();
        let version = |node: &Node| node.metadata.resource_version.parse().unwrap_or(0_u64);
        let known = self.nodes.get(&name);
        if known.is_some_and(|known| version(known) > version(&node)) {
            // The response to a write is newer than the watch.
            return;
        }
        if known.is_some_and(|known| known.metadata.uid != node.metadata.uid) {
            // Another Node has the name; the Pod CIDRs of the earlier Node are free.
            self.ranges.release(&name);
        }
        let pod_cidrs = ranges(&node);
        if !pod_cidrs.is_empty() {
            self.ranges.hold(&name, &pod_cidrs);
            self.waiting.remove(&name);
        } else {
            queue.add(name.clone(), now);
        }
        self.nodes.insert(name, node);
    }
}

impl Reconciler for NodeIpamController {
    type Change = Event<Node>;
    type Key = String;
    type Job = Job;
    type Output = Option<Node>;
    /// Maximum number of concurrent jobs: upstream's number of workers. Each write is small.
    const CONCURRENT_JOBS_MAX: usize = 30;

    fn apply_change(&mut self, change: Event<Node>, queue: &mut Queue<String>, now: Instant) {
        match change {
            Event::Applied(node) => self.apply(node, queue, now),
            Event::Deleted(key) => {
                self.nodes.remove(&*key.name);
                self.waiting.remove(&*key.name);
                self.ranges.release(&key.name);
                for waiting in &self.waiting {
                    queue.add(waiting.clone(), now);
                }
            }
            Event::Synced => self.is_synced = true,
            Event::Malformed { key, error } => log_malformed::<Node>(&key, &error),
        }
    }

    fn is_synced(&self) -> bool {
        self.is_synced
    }

    fn reconcile(&mut self, name: &String, _: Instant) -> Action<Job> {
        let Some(node) = self.nodes.get(name).filter(|node| ranges(node).is_empty()) else {
            return Action::Done;
        };
        let node = Box::new(node.clone());
        match self.ranges.allocate(name) {
            Some(ranges) => Action::Run(Job::Assign { node, ranges }),
            None if self.waiting.insert(name.clone()) => Action::Run(Job::ReportExhausted(node)),
            None => Action::Done,
        }
    }

    fn on_success(&mut self, name: &String, node: Option<Node>, queue: &mut Queue<String>, now: Instant) {
        let known = self.nodes.get(name).map(|known| known.metadata.uid.clone());
        // A Node that was deleted in the meantime holds no Pod CIDRs.
        if let Some(node) = node.filter(|node| known.as_ref() == Some(&node.metadata.uid)) {
            self.apply(node, queue, now);
        }
    }
}

/// Returns the Pod CIDRs of a Node.
fn ranges(node: &Node) -> Vec<IpNet> {
    let single = std::iter::once(&node.spec.pod_cidr).filter(|_| node.spec.pod_cidrs.is_empty());
    let texts = node.spec.pod_cidrs.iter().chain(single);
    texts.filter_map(|text| text.parse().ok()).collect()
}
