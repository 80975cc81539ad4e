//! A set of objects by namespace and name.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

use api::object::{ObjectKey, Resource};

/// A value that contains its own key.
pub(crate) trait Keyed {
    /// Returns the namespace and the name.
    fn key_texts(&self) -> (&str, &str);
}

impl<T: Resource> Keyed for T {
    fn key_texts(&self) -> (&str, &str) {
        let metadata = self.metadata();
        (&metadata.namespace, &metadata.name)
    }
}

/// Values in the order of their keys. A value takes the place of a pointer beside its own memory. A map would store the
/// key of each value a second time.
#[derive(Debug)]
pub(crate) struct KeyedSet<T> {
    entries: BTreeSet<Entry<T>>,
}

/// Boxed: a node of the set has room for eleven values, of which it uses about half.
#[derive(Debug)]
struct Entry<T>(Box<T>);

/// A key of which the set looks up the value.
struct Query<'a>(&'a str, &'a str);

impl<T> Default for KeyedSet<T> {
    fn default() -> Self {
        Self {
            entries: BTreeSet::new(),
        }
    }
}

impl<T: Keyed> KeyedSet<T> {
    /// Adds a value; returns the previous one with its key.
    pub(crate) fn insert(&mut self, value: T) -> Option<T> {
        let before = self.entries.replace(Entry(Box::new(value)));
        before.map(|entry| *entry.0)
    }

    /// Removes and returns the value with this key.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<T> {
        let query = Query(&key.namespace, &key.name);
        self.entries.take(query.as_keyed()).map(|entry| *entry.0)
    }

    /// Returns the value with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&T> {
        self.named(&key.namespace, &key.name)
    }

    /// Returns the value with this namespace and name.
    pub(crate) fn named(&self, namespace: &str, name: &str) -> Option<&T> {
        let query = Query(namespace, name);
        self.entries.get(query.as_keyed()).map(|entry| &*entry.0)
    }

    /// Iterates over all values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &*entry.0)
    }

    /// Iterates over the values of a namespace in the order of their names.
    pub(crate) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a T> {
        let first = Query(namespace, "");
        let range = (Bound::Included(first.as_keyed()), Bound::Unbounded);
        let values = self.entries.range::<dyn Keyed + '_, _>(range);
        let values = values.map(|entry| &*entry.0);
        values.take_while(move |value| value.key_texts().0 == namespace)
    }
}

impl Query<'_> {
    fn as_keyed(&self) -> &(dyn Keyed + '_) {
        self
    }
}

impl Keyed for Query<'_> {
    fn key_texts(&self) -> (&str, &str) {
        (self.0, self.1)
    }
}

impl PartialEq for dyn Keyed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.key_texts() == other.key_texts()
    }
}

impl Eq for dyn Keyed + '_ {}

impl PartialOrd for dyn Keyed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Keyed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key_texts().cmp(&other.key_texts())
    }
}

impl<'a, T: Keyed + 'a> Borrow<dyn Keyed + 'a> for Entry<T> {
    fn borrow(&self) -> &(dyn Keyed + 'a) {
        &*self.0
    }
}

impl<T: Keyed> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key_texts() == other.0.key_texts()
    }
}

impl<T: Keyed> Eq for Entry<T> {}

impl<T: Keyed> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Keyed> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key_texts().cmp(&other.0.key_texts())
    }
}

#[cfg(test)]
mod tests;
