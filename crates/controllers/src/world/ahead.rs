//! What a cache knows before its watch tells it: the outcome of this process's own writes and reads.
//!
//! A watch tells the past in order. Beside it come answers, which are younger. Three rules keep a cache
//! from falling behind its own writes, and from keeping for ever what nobody will tell it of:
//!
//! - A UID that is known to be gone stays gone: what a watch still tells of it is old, and so is the answer to
//!   a write that somebody else's deletion followed.
//! - The deletion of an object that the watch has not told yet as we know it is about an earlier one.
//! - A complete list settles the rest: what it should hold, by its revision, and does not, is gone.

use std::collections::HashMap;

use api::object::{ObjectKey, ObjectMeta};

use super::graves::Graves;

/// What is known ahead of a watch; see the module.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The version of each object as we know it, until the watch tells that version or a later one.
    untold: HashMap<ObjectKey, u64>,
    graves: Graves,
}

impl Ahead {
    /// An answer says that this is the object now.
    pub(super) fn answered(&mut self, meta: &ObjectMeta) {
        self.untold.insert(meta.key(), version(meta));
    }

    /// The watch tells this of an object.
    pub(super) fn told(&mut self, meta: &ObjectMeta) {
        let key = meta.key();
        if self.untold.get(&key).is_some_and(|known| *known <= version(meta)) {
            self.untold.remove(&key);
        }
    }

    /// Whether what the watch tells of the object of this name is about an earlier one, or an earlier state.
    pub(super) fn is_untold(&self, key: &ObjectKey) -> bool {
        self.untold.contains_key(key)
    }

    /// The object is gone for good.
    pub(super) fn bury(&mut self, meta: &ObjectMeta) {
        self.untold.remove(&meta.key());
        self.graves.bury(&meta.uid);
    }

    /// Whether the object is known to be gone.
    pub(super) fn is_buried(&self, meta: &ObjectMeta) -> bool {
        self.graves.hold(&meta.uid)
    }

    /// A list of this revision is complete: the keys that it should have confirmed and did not.
    pub(super) fn listed(&mut self, revision: u64) -> Vec<ObjectKey> {
        let missing = self.untold.iter().filter(|(_, version)| **version <= revision);
        let mut missing: Vec<ObjectKey> = missing.map(|(key, _)| key.clone()).collect();
        missing.sort_unstable();
        for key in &missing {
            self.untold.remove(key);
        }
        missing
    }
}

/// The version of an object as a number; versions of one kind compare as such (KEP-5504).
pub(super) fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.parse().unwrap_or(0)
}
