//! Objects that are known to be gone.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// UIDs of deleted objects that are remembered. It has to outlast the deletions that happen while a
/// watch lags; one that is forgotten too early costs a write that conflicts.
const GRAVES_MAX: usize = 16_384;

/// UIDs that are known to be gone: a UID never comes back, so whatever still tells of one is old.
#[derive(Debug, Default)]
pub(crate) struct Graves {
    uids: HashSet<Arc<str>>,
    /// The same, oldest first.
    burials: VecDeque<Arc<str>>,
}

impl Graves {
    /// The object of this UID is gone for good.
    pub(crate) fn bury(&mut self, uid: &str) {
        let uid: Arc<str> = uid.into();
        if uid.is_empty() || !self.uids.insert(Arc::clone(&uid)) {
            return;
        }
        self.burials.push_back(uid);
        if self.burials.len() > GRAVES_MAX
            && let Some(oldest) = self.burials.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    /// Whether the object of this UID is known to be gone.
    pub(crate) fn hold(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}
