//! Nodes that serve the connections of a Service port, by a hash of their addresses. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of previous nodes that a slot keeps. A connection survives as many changes of its slot.
pub(crate) const PREVIOUS_MAX: usize = 3;
/// Upper bound for the sum of all weights. Larger numbers of endpoints are scaled, so that each node gets slots.
const WEIGHTS_MAX: u64 = 512;

/// Number of ready endpoints by node; 0 for a node whose endpoints only serve open connections.
pub(crate) type Weights = BTreeMap<Arc<str>, u32>;

/// Nodes of a slot by level.
pub(crate) type Levels = [Option<Arc<str>>; PREVIOUS_MAX + 1];

/// Slots of a Service port: a Maglev table of nodes, and the previous nodes of each slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
}

/// A slot: the nodes that served its connections, the current one first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    nodes: Vec<Arc<str>>,
}

impl Slots {
    /// Creates the slots of an earlier process. The kernel holds no entries for the node `own`. A level without a
    /// node is therefore the level of `own` if a later level has a node. Each node keeps its level, because packets
    /// between nodes contain it.
    pub(crate) fn recovered(levels: &[Levels], own: &Arc<str>) -> Self {
        let slots = levels.iter().map(|levels| {
            let known = levels
                .iter()
                .rposition(Option::is_some)
                .map_or(1, |last| last + 1);
            let nodes = levels.iter().take(known);
            let nodes = nodes.map(|node| node.as_ref().unwrap_or(own).clone()).collect();
            Slot { nodes }
        });
        Self {
            slots: slots.collect(),
        }
    }

    /// Applies weights. Without an earlier table, the one without the node `own` counts as the previous one: most
    /// likely, this node just joined. Without any ready endpoint, the current nodes stay.
    ///
    /// Previous nodes without endpoints follow those with endpoints. Such a node may have failed, and a failed node
    /// forwards no packets to the next one.
    pub(crate) fn update(&mut self, weights: &Weights, own: &str) {
        if self.slots.is_empty() {
            let mut others = weights.clone();
            others.remove(own);
            let previous = lookup_table(&others).into_iter();
            self.slots = previous.map(|node| Slot { nodes: vec![node] }).collect();
        }
        let current = lookup_table(weights);
        if self.slots.is_empty() {
            self.slots = current
                .into_iter()
                .map(|node| Slot { nodes: vec![node] })
                .collect();
            return;
        }
        for (slot, node) in self.slots.iter_mut().zip(current) {
            slot.assign(node, weights);
        }
    }

    /// Returns the number of slots; 0 before the first node.
    pub(crate) fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the node of each slot: the current ones for level 0, the previous ones for level 1, and so on.
    pub(crate) fn at_level(&self, level: usize) -> impl Iterator<Item = (u32, &Arc<str>)> {
        (0_u32..)
            .zip(&self.slots)
            .filter_map(move |(index, slot)| Some((index, slot.nodes.get(level)?)))
    }
}

impl Slot {
    fn assign(&mut self, node: Arc<str>, weights: &Weights) {
        if self.nodes.first() != Some(&node) {
            self.nodes.retain(|known| *known != node);
            self.nodes.insert(0, node);
        }
        if let Some((_, previous)) = self.nodes.split_first_mut() {
            // A stable sort: nodes of the same kind keep their order.
            previous.sort_by_key(|node| !weights.contains_key(node));
        }
        self.nodes.truncate(PREVIOUS_MAX + 1);
    }
}

/// Computes the node of each slot. All nodes get the same result from the same weights.
fn lookup_table(weights: &Weights) -> Vec<Arc<str>> {
    let names: Vec<&Arc<str>> = weights.keys().collect();
    let total: u64 = weights.values().map(|weight| u64::from(*weight)).sum();
    let scaled = |weight: u32| -> u64 {
        let weight = u64::from(weight);
        if weight == 0 || total <= WEIGHTS_MAX {
            weight
        } else {
            (weight * WEIGHTS_MAX / total).max(1)
        }
    };
    let mut shares: Vec<(usize, u64)> = Vec::new();
    for (node, weight) in weights.values().enumerate() {
        shares.extend((0..scaled(*weight)).map(|number| (node, number)));
    }
    let name = |(node, number): &(usize, u64)| {
        let name = names.get(*node).map_or("", |name| &***name);
        format!("{name}/{number}").into_bytes()
    };
    let table = maglev::lookup_table(shares, name).into_iter();
    table
        .filter_map(|(node, _)| names.get(node).map(|name| (*name).clone()))
        .collect()
}

#[cfg(test)]
mod tests;
