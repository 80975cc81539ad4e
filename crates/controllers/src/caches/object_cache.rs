//! A cache of objects by key that is never older than this process's own writes.

use std::borrow::Cow;

use api::object::{ObjectKey, ObjectMeta, Resource};

use super::keyed_set::{Keyed, KeyedSet};
use super::pending_writes::{PendingWrites, version};

/// An object of an [`ObjectCache`]: a view of the API, or a smaller type with a part of its fields.
pub(crate) trait Cached: Keyed {
    /// Returns the namespace and name.
    fn key(&self) -> ObjectKey;
    /// Returns the UID.
    fn uid(&self) -> Cow<'_, str>;
    /// Returns the version as a number; versions of one kind are ordered.
    fn version(&self) -> u64;
}

impl<T: Resource> Cached for T {
    fn key(&self) -> ObjectKey {
        self.metadata().key()
    }

    fn uid(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.metadata().uid)
    }

    fn version(&self) -> u64 {
        version(self.metadata())
    }
}

/// A cache of one kind. Responses to writes and reads update it at once; older watch events are dropped. See
/// [`super::pending_writes`].
pub(crate) struct ObjectCache<T> {
    objects: KeyedSet<T>,
    pending: PendingWrites,
}

impl<T> Default for ObjectCache<T> {
    fn default() -> Self {
        Self {
            objects: KeyedSet::default(),
            pending: PendingWrites::default(),
        }
    }
}

impl<T: Cached> ObjectCache<T> {
    /// Applies an object from the watch; returns true if it is newer than the cached one.
    pub(crate) fn apply(&mut self, object: T) -> bool {
        let key = object.key();
        self.pending.observe(&key, object.version());
        self.insert(&key, object)
    }

    /// Applies a deletion from the watch; returns true if the object was cached.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> bool {
        !self.pending.is_pending(key) && self.discard(key)
    }

    /// Records that the watch has delivered a complete list of this revision; returns the removed keys.
    pub(crate) fn complete_list(&mut self, revision: u64) -> Vec<ObjectKey> {
        let mut missing = self.pending.complete_list(revision);
        missing.retain(|key| self.discard(key));
        missing
    }

    /// Applies an object from a response; returns true if it is newer than the cached one.
    pub(crate) fn apply_response(&mut self, object: T) -> bool {
        let (key, version) = (object.key(), object.version());
        let is_newer = self.insert(&key, object);
        if is_newer {
            self.pending.add(key, version);
        }
        is_newer
    }

    /// Applies a response that confirms the deletion of an object.
    pub(crate) fn confirm_deletion(&mut self, meta: &ObjectMeta) {
        let key = meta.key();
        if self.get(&key).is_some_and(|cached| cached.uid() == meta.uid) {
            self.objects.remove(&key);
        }
        self.pending.mark_deleted(&key, &meta.uid);
    }

    /// Applies the response of a read that returns no object. `known_uid` is the UID of the cached object at the
    /// start of the read. An object with another UID is newer than the read, and stays.
    pub(crate) fn confirm_absence(&mut self, key: &ObjectKey, known_uid: Option<&str>) {
        let is_known = |now: &T| known_uid.is_some_and(|known| now.uid() == known);
        if self.get(key).is_some_and(is_known) {
            self.discard(key);
        }
    }

    /// Returns the object with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&T> {
        self.objects.get(key)
    }

    /// Iterates over all objects in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.objects.iter()
    }

    /// Iterates over the objects of a namespace in the order of their names.
    pub(crate) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a T> {
        self.objects.in_namespace(namespace)
    }

    fn insert(&mut self, key: &ObjectKey, object: T) -> bool {
        let cached = self.get(key);
        if self.pending.is_deleted(&object.uid())
            || cached.is_some_and(|cached| cached.version() >= object.version())
        {
            return false;
        }
        self.objects.insert(object);
        true
    }

    fn discard(&mut self, key: &ObjectKey) -> bool {
        let Some(gone) = self.objects.remove(key) else {
            return false;
        };
        self.pending.mark_deleted(key, &gone.uid());
        true
    }
}
