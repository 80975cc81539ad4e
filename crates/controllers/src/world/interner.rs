//! Values that many objects have alike, kept once.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use api::object::Labels;

use super::pods::NamedPort;

/// Values that are kept before any sweep: below this it saves nothing.
const SWEEP_MIN: usize = 1_024;

/// A label: key and value.
pub type Label = (Arc<str>, Arc<str>);

/// The values that cached objects share. One that no object has any more is forgotten with the next sweep, which comes
/// when there are twice as many as after the last: so they take at most twice what is in use.
#[derive(Debug, Default)]
pub struct Interner {
    strings: Shared<str>,
    labels: Shared<[Label]>,
    ports: Shared<[NamedPort]>,
}

impl Interner {
    /// The shared copy of a text.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        self.strings.of(text)
    }

    /// The shared copy of labels.
    pub fn labels(&mut self, labels: &Labels) -> LabelSet {
        let label = |(key, value): (&String, &String)| (self.strings.of(&**key), self.strings.of(&**value));
        let labels: Vec<Label> = labels.iter().map(label).collect();
        LabelSet(self.labels.of(labels))
    }

    /// The shared copy of a list of ports.
    pub(super) fn ports(&mut self, ports: Vec<NamedPort>) -> Arc<[NamedPort]> {
        self.ports.of(ports)
    }
}

/// Labels of an object, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSet(Arc<[Label]>);

impl LabelSet {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let place = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        self.0.get(place).map(|(_, value)| &**value)
    }

    /// All labels.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// Whether all labels of a selector are among these; an empty selector chooses nothing.
    pub fn are_chosen_by(&self, selector: &Labels) -> bool {
        !selector.is_empty() && selector.iter().all(|(key, value)| self.get(key) == Some(value))
    }
}

/// Values of one type.
#[derive(Debug)]
struct Shared<T: ?Sized> {
    known: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self {
            known: HashSet::new(),
            sweep_at: SWEEP_MIN,
        }
    }
}

impl<T: ?Sized + Eq + Hash> Shared<T> {
    fn of(&mut self, value: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        if let Some(known) = self.known.get(value.borrow()) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = (self.known.len() * 2).max(SWEEP_MIN);
        }
        let value: Arc<T> = value.into();
        self.known.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests;
