//! Nodes in; ranges for those without out.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use api::object::Node;
use client::Event;
use ipnet::IpNet;

use super::Ranges;
use crate::keeper::{Keeper, Look};
use crate::malformed;
use crate::queue::Queue;

/// What is to be done about a Node.
#[derive(Debug)]
pub(super) enum Job {
    /// It gets these ranges.
    Give { node: Box<Node>, ranges: Vec<IpNet> },
    /// None are left; people are told once.
    TellNoneLeft(Box<Node>),
}

/// The state of the controller.
pub(super) struct Nodes {
    ranges: Ranges,
    is_synced: bool,
    nodes: HashMap<String, Node>,
    /// Those that wait for a range.
    without: BTreeSet<String>,
}

impl Nodes {
    pub(super) fn new(ranges: Ranges) -> Self {
        Self {
            ranges,
            is_synced: false,
            nodes: HashMap::new(),
            without: BTreeSet::new(),
        }
    }

    fn apply(&mut self, node: Node, queue: &mut Queue<String>, now: Instant) {
        let name = node.metadata.name.clone();
        let version = |node: &Node| node.metadata.resource_version.parse().unwrap_or(0_u64);
        let known = self.nodes.get(&name);
        if known.is_some_and(|known| version(known) > version(&node)) {
            // An answer to a write of ours came before what the watch tells of the time before it.
            return;
        }
        if known.is_some_and(|known| known.metadata.uid != node.metadata.uid) {
            // Another machine of the name: what was written for the former counts no more.
            self.ranges.release(&name);
        }
        let given = ranges(&node);
        if !given.is_empty() {
            self.ranges.hold(&name, &given);
            self.without.remove(&name);
        } else {
            queue.add(name.clone(), now);
        }
        self.nodes.insert(name, node);
    }
}

impl Keeper for Nodes {
    type Change = Event<Node>;
    type Key = String;
    type Job = Job;
    type Answer = Option<Node>;
    /// Each write is small; upstream has as many.
    const JOBS_MAX: usize = 30;

    fn take(&mut self, change: Event<Node>, queue: &mut Queue<String>, now: Instant) {
        match change {
            Event::Applied(node) => self.apply(node, queue, now),
            Event::Deleted(key) => {
                self.nodes.remove(&*key.name);
                self.without.remove(&*key.name);
                self.ranges.release(&key.name);
                for waiting in &self.without {
                    queue.add(waiting.clone(), now);
                }
            }
            Event::Synced => self.is_synced = true,
            Event::Malformed { key, error } => malformed::skip::<Node>(&key, &error),
        }
    }

    fn is_synced(&self) -> bool {
        self.is_synced
    }

    fn look(&mut self, name: &String, _: Instant) -> Look<Job> {
        let Some(node) = self.nodes.get(name).filter(|node| ranges(node).is_empty()) else {
            return Look::Fine;
        };
        let node = Box::new(node.clone());
        match self.ranges.allocate(name) {
            Some(ranges) => Look::Do(Job::Give { node, ranges }),
            None if self.without.insert(name.clone()) => Look::Do(Job::TellNoneLeft(node)),
            None => Look::Fine,
        }
    }

    fn answered(&mut self, name: &String, answer: Option<Node>, queue: &mut Queue<String>, now: Instant) {
        let known = self.nodes.get(name).map(|known| known.metadata.uid.clone());
        // A Node that is gone meanwhile holds nothing.
        if let Some(node) = answer.filter(|node| known.as_ref() == Some(&node.metadata.uid)) {
            self.apply(node, queue, now);
        }
    }
}

/// The ranges of a Node.
fn ranges(node: &Node) -> Vec<IpNet> {
    let single = std::iter::once(&node.spec.pod_cidr).filter(|_| node.spec.pod_cidrs.is_empty());
    let texts = node.spec.pod_cidrs.iter().chain(single);
    texts.filter_map(|text| text.parse().ok()).collect()
}
