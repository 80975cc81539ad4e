//! Positions of objects by the parts of a key.

use std::collections::HashMap;

/// Separator of the parts of a key. No name, label or address contains it.
const SEPARATOR: &str = "\n";

/// Positions by key.
#[derive(Debug, Default)]
pub(super) struct Index {
    positions: HashMap<String, Vec<usize>>,
}

impl Index {
    /// Adds a position under a key.
    pub(super) fn insert(&mut self, key: &[&str], position: usize) {
        let positions = self.positions.entry(key.join(SEPARATOR)).or_default();
        if positions.last() != Some(&position) {
            positions.push(position);
        }
    }

    /// Returns the positions under a key, in the order of insertion.
    pub(super) fn get(&self, key: &[&str]) -> &[usize] {
        self.positions
            .get(&key.join(SEPARATOR))
            .map_or(&[], Vec::as_slice)
    }
}
