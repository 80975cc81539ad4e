//! Keys of the objects that a watch has reported.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use api::object::ObjectKey;

use super::names::Names;

/// Set of keys. A process has several watches of a large collection, so a name takes little more than its text.
#[derive(Debug, Default)]
pub(super) struct Keys {
    names: BTreeMap<Box<str>, Names>,
}

impl Keys {
    /// Adds a key.
    pub(super) fn insert(&mut self, key: &ObjectKey) {
        let (namespace, name) = (&*key.namespace, &*key.name);
        match self.names.get_mut(namespace) {
            Some(names) => names.insert(name),
            None => _ = self.names.insert(namespace.into(), Names::of(name)),
        }
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let Some(names) = self.names.get_mut(&*key.namespace) else {
            return;
        };
        names.remove(&key.name);
        if names.is_empty() {
            self.names.remove(&*key.namespace);
        }
    }

    /// Adds the keys of another set.
    pub(super) fn extend(&mut self, others: Self) {
        for (namespace, names) in others.names {
            match self.names.entry(namespace) {
                Entry::Vacant(entry) => _ = entry.insert(names),
                Entry::Occupied(mut entry) => names.iter().for_each(|name| entry.get_mut().insert(name)),
            }
        }
    }

    /// Returns the keys that are not in the other set, sorted.
    pub(super) fn without(self, other: &Self) -> Vec<ObjectKey> {
        let mut missing = Vec::new();
        for (namespace, names) in self.names {
            let present = other.names.get(&namespace);
            for name in names.iter() {
                if present.is_none_or(|present| !present.contains(name)) {
                    missing.push(ObjectKey::new(&namespace, name));
                }
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests;
