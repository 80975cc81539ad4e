//! Interning of values that many objects share.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use api::object::Labels;

use super::pods::NamedPort;

/// Number of values below which a removal saves too little.
const REMOVAL_VALUES_MIN: usize = 1_024;

/// A label: key and value.
pub(crate) type Label = (Arc<str>, Arc<str>);

/// Values that cached objects share. The interner removes unused values whenever the number of values has doubled since
/// the last removal. It therefore holds at most twice the values that were in use then, or [`REMOVAL_VALUES_MIN`].
#[derive(Debug, Default)]
pub struct Interner {
    strings: InternedValues<str>,
    labels: InternedValues<[Label]>,
    ports: InternedValues<[NamedPort]>,
}

impl Interner {
    /// Returns the shared copy of a text.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        self.strings.intern(text)
    }

    /// Returns the shared copy of labels.
    pub fn labels(&mut self, labels: &Labels) -> LabelSet {
        let label =
            |(key, value): (&String, &String)| (self.strings.intern(&**key), self.strings.intern(&**value));
        let labels: Vec<Label> = labels.iter().map(label).collect();
        LabelSet(self.labels.intern(labels))
    }

    /// Returns the shared copy of a list of ports.
    pub(super) fn ports(&mut self, ports: Vec<NamedPort>) -> Arc<[NamedPort]> {
        self.ports.intern(ports)
    }
}

/// Labels of an object, sorted by key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelSet(Arc<[Label]>);

impl LabelSet {
    /// Returns true if there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.label(key).map(|(_, value)| &**value)
    }

    /// Returns a label.
    pub(super) fn label(&self, key: &str) -> Option<&Label> {
        let index = self.0.binary_search_by(|(cached, _)| (**cached).cmp(key)).ok()?;
        self.0.get(index)
    }

    /// Iterates over all labels.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// Returns true if the labels contain all labels of the selector. An empty selector matches nothing.
    pub fn is_selected_by(&self, selector: &Labels) -> bool {
        !selector.is_empty() && selector.iter().all(|(key, value)| self.get(key) == Some(value))
    }
}

/// Shared values of one type.
#[derive(Debug)]
pub(crate) struct InternedValues<T: ?Sized> {
    cached: HashSet<Arc<T>>,
    /// Number of values at which unused ones are removed.
    removal_values: usize,
}

impl<T: ?Sized> Default for InternedValues<T> {
    fn default() -> Self {
        Self {
            cached: HashSet::new(),
            removal_values: REMOVAL_VALUES_MIN,
        }
    }
}

impl<T: ?Sized + Eq + Hash> InternedValues<T> {
    /// Returns the shared copy of a value.
    pub(crate) fn intern(&mut self, value: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        if let Some(cached) = self.cached.get(value.borrow()) {
            return Arc::clone(cached);
        }
        if self.cached.len() >= self.removal_values {
            self.cached.retain(|cached| Arc::strong_count(cached) > 1);
            self.removal_values = (self.cached.len() * 2).max(REMOVAL_VALUES_MIN);
        }
        let value: Arc<T> = value.into();
        self.cached.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests;
