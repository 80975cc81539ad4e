//! Sets that are small most times.

use std::collections::BTreeSet;

/// Number of values above which a list becomes a tree. Each change of a list moves the values behind it.
const LIST_VALUES_MAX: usize = 1_024;

/// A sorted set: a list while it is small, which has little unused space.
#[derive(Debug)]
pub(crate) enum CompactSet<T> {
    List(Vec<T>),
    Tree(BTreeSet<T>),
}

impl<T> Default for CompactSet<T> {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl<T: Ord> CompactSet<T> {
    /// Adds a value. An equal one stays.
    pub(crate) fn insert(&mut self, value: T) {
        match self {
            Self::Tree(tree) => _ = tree.insert(value),
            Self::List(list) => {
                let Err(place) = list.binary_search(&value) else {
                    return;
                };
                if list.len() == list.capacity() {
                    list.reserve_exact(list.len() / 4 + 1);
                }
                list.insert(place, value);
                if list.len() > LIST_VALUES_MAX {
                    *self = Self::Tree(std::mem::take(list).into_iter().collect());
                }
            }
        }
    }

    /// Removes a value.
    pub(crate) fn remove(&mut self, value: &T) {
        match self {
            Self::Tree(tree) => _ = tree.remove(value),
            Self::List(list) => {
                let Ok(place) = list.binary_search(value) else {
                    return;
                };
                list.remove(place);
                if list.len() < list.capacity() / 4 {
                    list.shrink_to_fit();
                }
            }
        }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Tree(tree) => tree.len(),
        }
    }

    /// Returns true if the set has no values.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the values in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let (list, tree) = match self {
            Self::List(list) => (Some(list), None),
            Self::Tree(tree) => (None, Some(tree)),
        };
        let list = list.into_iter().flatten();
        list.chain(tree.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests;
