//! Interning of names that many objects share.

use std::collections::HashSet;
use std::sync::Arc;

/// Number of names below which unused names are not removed.
const REMOVAL_NAMES_MIN: usize = 1_024;

/// Shared strings. The interner removes unused names whenever their number has doubled, which bounds the memory.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    names: HashSet<Arc<str>>,
    removal_at: usize,
}

impl Interner {
    /// Returns the shared copy of `name`.
    pub(crate) fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(shared) = self.names.get(name) {
            return shared.clone();
        }
        if self.names.len() >= self.removal_at.max(REMOVAL_NAMES_MIN) {
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.removal_at = self.names.len() * 2;
        }
        let shared: Arc<str> = name.into();
        self.names.insert(shared.clone());
        shared
    }
}
