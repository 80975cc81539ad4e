use std::collections::{BTreeMap, BTreeSet};

use super::super::state::{HOPS, hop_to, levels_after};
use super::*;

/// Simulated nodes, each with its own slots and connections. Packets go as the rules send them.
#[derive(Default)]
struct Cluster {
    nodes: BTreeMap<Arc<str>, Node>,
    /// Failed nodes. Their Nodes remain, so packets are sent to them.
    failed: BTreeSet<Arc<str>>,
    weights: Weights,
    random: u64,
}

/// Result of the delivery of a packet.
#[derive(Debug, PartialEq, Eq)]
enum Delivery {
    /// This node serves it.
    Served(Arc<str>),
    /// It was sent to a failed node: the client sends it again.
    Dropped,
    /// No node tracks its connection.
    Reset,
}

#[derive(Default)]
struct Node {
    slots: Slots,
    connections: BTreeSet<u32>,
}

impl Cluster {
    fn new(seed: u64, count: u32) -> Self {
        let mut this = Self {
            random: seed,
            ..Self::default()
        };
        for number in 0..count {
            let name: Arc<str> = format!("node-{number}").into();
            let endpoints = this.below(3) as u32 + 1;
            this.weights.insert(name.clone(), endpoints);
            this.nodes.insert(name, Node::default());
        }
        this.update();
        this
    }

    /// Returns a pseudo-random number (constants of Knuth's MMIX).
    fn below(&mut self, bound: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % bound
    }

    fn any_node(&mut self) -> Arc<str> {
        let index = self.below(self.nodes.len());
        self.nodes.keys().nth(index).expect("a node").clone()
    }

    fn update(&mut self) {
        for (name, node) in &mut self.nodes {
            node.slots.update(&self.weights, name);
        }
    }

    /// Delivers a packet that `first` receives.
    fn deliver(&mut self, first: &Arc<str>, connection: u32, slot: u32, opens: bool) -> Delivery {
        let mut at = first.clone();
        let mut hop = 0;
        loop {
            let Some(node) = self.nodes.get(&at) else {
                return Delivery::Dropped;
            };
            if node.connections.contains(&connection) {
                return Delivery::Served(at);
            }
            let levels: Vec<usize> = match (opens, hop) {
                (true, 0) => vec![0],
                (true, _) => Vec::new(),
                (false, 0) => (0..=PREVIOUS_MAX).collect(),
                (false, _) => levels_after(hop)
                    .filter(|level| hop_to(*level, hop) <= HOPS)
                    .collect(),
            };
            let next = levels.into_iter().find_map(|level| {
                let found = node.slots.at_level(level).find(|(index, _)| *index == slot);
                let name = found.map(|(_, name)| name)?;
                let is_known = self.nodes.contains_key(name) || self.failed.contains(name);
                (*name != at && is_known).then(|| (level, name.clone()))
            });
            match next {
                Some((level, name)) => (at, hop) = (name, hop_to(level, hop)),
                None if opens => {
                    if let Some(node) = self.nodes.get_mut(&at) {
                        node.connections.insert(connection);
                    }
                    return Delivery::Served(at);
                }
                None => return Delivery::Reset,
            }
        }
    }

    fn open(&mut self, connections: std::ops::Range<u32>) -> Vec<(u32, u32, Arc<str>)> {
        let mut opened = Vec::new();
        for connection in connections {
            let slot = self.below(maglev::TABLE_SIZE as usize) as u32;
            let first = self.any_node();
            match self.deliver(&first, connection, slot, true) {
                Delivery::Served(at) => opened.push((connection, slot, at)),
                other => panic!("connection {connection} through {first}: {other:?}"),
            }
        }
        opened
    }

    fn change(&mut self, step: usize) {
        match self.below(5) {
            0 => {
                let name: Arc<str> = format!("joined-{step}").into();
                let mut node = Node::default();
                node.slots.update(&self.weights, &name);
                self.nodes.insert(name.clone(), node);
                self.weights.insert(name, 1);
            }
            1 => {
                let name = self.any_node();
                self.nodes.remove(&name);
                self.weights.remove(&name);
            }
            2 => {
                let name = self.any_node();
                self.nodes.remove(&name);
                self.weights.remove(&name);
                self.failed.insert(name);
            }
            // Its endpoints are no longer ready, but its connections continue.
            3 => {
                let name = self.any_node();
                self.weights.insert(name, 0);
            }
            _ => {
                let name = self.any_node();
                let endpoints = self.below(3) as u32 + 1;
                self.weights.insert(name, endpoints);
            }
        }
    }

    /// Applies the weights at one node after the other, in random order. Calls `check` after each.
    fn spread(&mut self, mut check: impl FnMut(&mut Self)) {
        let mut names: Vec<Arc<str>> = self.nodes.keys().cloned().collect();
        while !names.is_empty() {
            let name = names.swap_remove(self.below(names.len()));
            if let Some(node) = self.nodes.get_mut(&name) {
                node.slots.update(&self.weights, &name);
            }
            check(self);
        }
    }
}

#[test]
fn connections_to_living_nodes_survive_changes_while_they_spread() {
    for seed in 0..40 {
        let mut cluster = Cluster::new(seed, 8);
        let opened = cluster.open(0..100);
        for step in 0..2 {
            cluster.change(step);
            let when = format!("seed {seed}, step {step}");
            cluster.spread(|cluster| assert_delivered(cluster, &opened, true, &when));
            assert_delivered(&mut cluster, &opened, false, &when);
        }
    }
}

/// Checks connections to living nodes. While a change `spreads`, packets may still be sent to a failed node.
fn assert_delivered(cluster: &mut Cluster, opened: &[(u32, u32, Arc<str>)], spreads: bool, when: &str) {
    for (connection, slot, at) in opened {
        let first = cluster.any_node();
        if !cluster.nodes.contains_key(at) {
            continue;
        }
        let delivery = cluster.deliver(&first, *connection, *slot, false);
        if spreads && delivery == Delivery::Dropped {
            continue;
        }
        assert_eq!(
            delivery,
            Delivery::Served(at.clone()),
            "{when}, connection {connection} through {first}"
        );
    }
}

/// The node `joined` does not know that the node `previous` had the slots before the node `current`.
#[test]
fn connections_are_found_from_a_new_node_without_their_previous_node() {
    let mut cluster = Cluster {
        weights: weights(&[("previous", 1)]),
        ..Cluster::default()
    };
    for name in ["current", "other", "previous"] {
        cluster.nodes.insert(name.into(), Node::default());
    }
    cluster.update();
    let opened = cluster.open(0..100);
    assert!(opened.iter().all(|(_, _, at)| **at == *"previous"));
    let assert_found = |cluster: &mut Cluster, when: &str| {
        for (connection, slot, at) in &opened {
            let delivery = cluster.deliver(&"other".into(), *connection, *slot, false);
            assert_eq!(delivery, Delivery::Served(at.clone()), "{when}, {connection}");
        }
    };
    cluster.weights = weights(&[("current", 1), ("previous", 0)]);
    cluster.update();
    let mut joined = Node::default();
    joined.slots.update(&cluster.weights, "joined");
    cluster.nodes.insert("joined".into(), joined);
    cluster.weights.insert("joined".into(), 1);
    let current = cluster.nodes.get_mut("current").expect("the node");
    current.slots.update(&cluster.weights, "current");
    assert_found(&mut cluster, "only the current node has applied the weight");
    cluster.update();
    assert_found(&mut cluster, "the joined node has slots");
    cluster.weights.insert("joined".into(), 0);
    cluster.update();
    assert_found(&mut cluster, "the joined node has no ready endpoint any more");
}

#[test]
fn packet_of_an_unknown_connection_is_served_by_no_node() {
    let mut cluster = Cluster::new(7, 8);
    cluster.change(0);
    cluster.spread(|_| {});
    for connection in 0..100 {
        let first = cluster.any_node();
        let slot = cluster.below(maglev::TABLE_SIZE as usize) as u32;
        assert_eq!(cluster.deliver(&first, connection, slot, false), Delivery::Reset);
    }
}

#[test]
fn previous_nodes_without_endpoints_come_last() {
    let mut slots = Slots::default();
    slots.update(&weights(&[("a", 1)]), "z");
    slots.update(&weights(&[("b", 1), ("a", 0)]), "z");
    slots.update(&weights(&[("c", 1), ("b", 0), ("a", 0)]), "z");
    assert_eq!(nodes_of_first_slot(&slots), ["c", "b", "a"]);
    slots.update(&weights(&[("c", 1), ("a", 0)]), "z");
    assert_eq!(nodes_of_first_slot(&slots), ["c", "a", "b"]);
}

fn nodes_of_first_slot(slots: &Slots) -> Vec<&str> {
    let nodes = slots.slots.first().map(|slot| slot.nodes.iter());
    nodes.into_iter().flatten().map(|node| &**node).collect()
}

fn weights(of: &[(&str, u32)]) -> Weights {
    of.iter()
        .map(|(name, weight)| ((*name).into(), *weight))
        .collect()
}

fn shares(slots: &Slots) -> BTreeMap<Arc<str>, u32> {
    let mut shares = BTreeMap::new();
    for (_, node) in slots.at_level(0) {
        *shares.entry(node.clone()).or_default() += 1;
    }
    shares
}

#[test]
fn endpoints_get_even_shares() {
    let cases = [
        weights(&[("a", 3), ("b", 3), ("c", 4)]),
        weights(&[("a", 9), ("b", 1)]),
        weights(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)]),
    ];
    for weights in cases {
        let mut slots = Slots::default();
        slots.update(&weights, "a");
        let total: u32 = weights.values().sum();
        assert_eq!(total, 10);
        for (node, share) in shares(&slots) {
            let even = maglev::TABLE_SIZE * weights[&node] / total;
            assert!(
                share.abs_diff(even) * 10 <= even,
                "{node}: {share} of {even} in {weights:?}"
            );
        }
    }
}

#[test]
fn each_node_gets_slots_however_many_endpoints_there_are() {
    let weights = weights(&[("a", 100_000), ("b", 100_000), ("c", 1)]);
    let mut slots = Slots::default();
    slots.update(&weights, "a");
    assert_eq!(shares(&slots).len(), 3);
}

#[test]
fn previous_nodes_are_remembered_without_duplicates_up_to_the_maximum() {
    let mut slots = Slots::default();
    for node in ["a", "b", "c", "b", "d", "e"] {
        slots.update(&weights(&[(node, 1)]), "z");
    }
    let first = |level: usize| slots.at_level(level).next().map(|(_, node)| node.to_string());
    let levels: Vec<_> = (0..=PREVIOUS_MAX + 1).map(first).collect();
    let expected = ["e", "d", "b", "c"].map(|node| Some(node.to_owned()));
    assert_eq!(levels[..4], expected);
    assert_eq!(levels[4], None);
}

#[test]
fn node_that_starts_assumes_that_it_joins() {
    let all = weights(&[("a", 1), ("b", 1), ("c", 1)]);
    let (mut before, mut joined) = (Slots::default(), Slots::default());
    before.update(&weights(&[("a", 1), ("b", 1)]), "z");
    before.update(&all, "z");
    joined.update(&all, "c");
    let of =
        |slots: &Slots| -> Vec<Vec<Arc<str>>> { slots.slots.iter().map(|slot| slot.nodes.clone()).collect() };
    assert_eq!(of(&joined), of(&before));
}

#[test]
fn nodes_stay_without_endpoints() {
    let mut slots = Slots::default();
    slots.update(&Weights::new(), "a");
    assert_eq!(slots.count(), 0);
    slots.update(&weights(&[("b", 1)]), "a");
    slots.update(&Weights::new(), "a");
    assert_eq!(shares(&slots), BTreeMap::from([("b".into(), maglev::TABLE_SIZE)]));
}

#[test]
fn recovered_nodes_keep_their_levels() {
    let node = |name: &str| Some(Arc::<str>::from(name));
    let levels: [Levels; 2] = [
        [node("b"), None, node("c"), None],
        [None, node("b"), None, node("c")],
    ];
    let slots = Slots::recovered(&levels, &"a".into());
    let of = |index: usize| -> Vec<&str> { slots.slots[index].nodes.iter().map(|name| &**name).collect() };
    assert_eq!(of(0), ["b", "a", "c"]);
    assert_eq!(of(1), ["a", "b", "a", "c"]);
}
