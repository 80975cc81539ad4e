//! UIDs of deleted objects.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Upper bound of UIDs. It covers the deletions within the lag of a watch; a UID that is evicted too early
/// costs one write conflict.
const TOMBSTONES_MAX: usize = 16_384;

/// UIDs of deleted objects. A UID is never used again, so every later event about it is outdated.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    uids: HashSet<Arc<str>>,
    /// The same UIDs, oldest first.
    insertion_order: VecDeque<Arc<str>>,
}

impl Tombstones {
    /// Adds the UID of a deleted object.
    pub(crate) fn insert(&mut self, uid: &str) {
        let uid: Arc<str> = uid.into();
        if uid.is_empty() || !self.uids.insert(Arc::clone(&uid)) {
            return;
        }
        self.insertion_order.push_back(uid);
        if self.insertion_order.len() > TOMBSTONES_MAX
            && let Some(oldest) = self.insertion_order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    /// Returns true if the object with this UID is deleted.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}
