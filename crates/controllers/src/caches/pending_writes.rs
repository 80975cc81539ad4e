//! Pending writes: objects that responses have delivered and the watch has not.
//!
//! A watch delivers changes in order, and later than responses. By three rules, a cache is not older than its own
//! writes, and keeps no objects that no event removes:
//!
//! - A deleted UID stays deleted. Later events and responses about it are outdated.
//! - A deletion event for an object with a pending write concerns an earlier object of that name.
//! - A complete list removes the other objects. An object that is not in the list counts as deleted unless its
//!   version is newer than the list.

use std::collections::HashMap;

use api::object::{ObjectKey, ObjectMeta};

use super::tombstones::Tombstones;

/// The objects of a cache that are newer than its watch.
#[derive(Debug, Default)]
pub(super) struct PendingWrites {
    /// The version of each object until the watch delivers that version or a later one.
    versions: HashMap<ObjectKey, u64>,
    tombstones: Tombstones,
}

impl PendingWrites {
    /// Adds an object that a response has delivered.
    pub(super) fn add(&mut self, key: ObjectKey, version: u64) {
        self.versions.insert(key, version);
    }

    /// Removes an object when the watch has delivered this version.
    pub(super) fn observe(&mut self, key: &ObjectKey, version: u64) {
        if self.versions.get(key).is_some_and(|cached| *cached <= version) {
            self.versions.remove(key);
        }
    }

    /// Returns true if a deletion event for this key concerns an earlier object or state.
    pub(super) fn is_pending(&self, key: &ObjectKey) -> bool {
        self.versions.contains_key(key)
    }

    /// Records the deletion of an object.
    pub(super) fn mark_deleted(&mut self, key: &ObjectKey, uid: &str) {
        self.versions.remove(key);
        self.tombstones.insert(uid);
    }

    /// Returns true if the object with this UID is deleted.
    pub(super) fn is_deleted(&self, uid: &str) -> bool {
        self.tombstones.contains(uid)
    }

    /// Removes and returns the keys of pending writes up to this revision that a complete list does not contain.
    pub(super) fn complete_list(&mut self, revision: u64) -> Vec<ObjectKey> {
        let missing = self.versions.iter().filter(|(_, version)| **version <= revision);
        let mut missing: Vec<ObjectKey> = missing.map(|(key, _)| key.clone()).collect();
        missing.sort_unstable();
        for key in &missing {
            self.versions.remove(key);
        }
        missing
    }
}

/// Returns the version of an object as a number. Versions of one kind are ordered (KEP-5504).
pub(super) fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.parse().unwrap_or(0)
}
