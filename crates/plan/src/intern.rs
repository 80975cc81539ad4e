//! One copy of each name that many objects share.

use std::collections::HashSet;
use std::sync::Arc;

/// Below this many names nothing is swept: there is little to gain.
const SWEEP_NAMES_MIN: usize = 1_024;

/// Shared strings. Names that nobody else holds any more are swept when the set has doubled, so that it
/// is bounded by what is in use.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    names: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Interner {
    /// The shared copy of `name`.
    pub(crate) fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(shared) = self.names.get(name) {
            return shared.clone();
        }
        if self.names.len() >= self.sweep_at.max(SWEEP_NAMES_MIN) {
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.sweep_at = self.names.len() * 2;
        }
        let shared: Arc<str> = name.into();
        self.names.insert(shared.clone());
        shared
    }
}
