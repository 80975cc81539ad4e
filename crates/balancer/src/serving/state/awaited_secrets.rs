//! Secrets for which changed classes wait. Pure.
//!
//! A class waits for the Secrets that are unread at the beginning, and not for Secrets that its Ingresses name later.
//! Each wait therefore ends, also if the Ingresses of a namespace continuously name other Secrets.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use api::object::ObjectKey;

/// Secrets for which classes wait, by the Service of the class.
#[derive(Debug, Default)]
pub(super) struct AwaitedSecrets(HashMap<ObjectKey, BTreeSet<ObjectKey>>);

impl AwaitedSecrets {
    /// Begins the wait of a class for `unread`. An existing wait continues with its Secrets that are still unread.
    pub(super) fn begin_or_continue(&mut self, class: &ObjectKey, unread: BTreeSet<ObjectKey>) {
        match self.0.entry(class.clone()) {
            Entry::Occupied(mut awaited) => awaited.get_mut().retain(|secret| unread.contains(secret)),
            Entry::Vacant(awaited) => {
                awaited.insert(unread);
            }
        }
    }

    /// Returns true while a class waits.
    pub(super) fn has(&self, class: &ObjectKey) -> bool {
        self.0.get(class).is_some_and(|awaited| !awaited.is_empty())
    }

    /// Ends the wait of a class.
    pub(super) fn end(&mut self, class: &ObjectKey) {
        self.0.remove(class);
    }
}
