//! Endpoints by key, never older than what this process wrote itself.

use std::collections::BTreeMap;

use api::object::{Endpoints, ObjectKey, ObjectMeta};

use super::ahead::{Ahead, version};

/// A cache of Endpoints that is written through, as [`super::Slices`] is.
#[derive(Default)]
pub struct EndpointsByKey {
    by_key: BTreeMap<ObjectKey, Endpoints>,
    ahead: Ahead,
}

impl EndpointsByKey {
    /// The watch tells of Endpoints; whether they are news.
    pub fn apply(&mut self, endpoints: Endpoints) -> bool {
        self.ahead.told(&endpoints.metadata);
        self.insert(endpoints)
    }

    /// The watch tells that the Endpoints of a key are gone; whether that is news.
    pub fn remove(&mut self, key: &ObjectKey) -> bool {
        !self.ahead.is_untold(key) && self.bury(key)
    }

    /// The watch has told a complete list of this revision; returns the keys that are gone by it.
    pub fn listed(&mut self, revision: u64) -> Vec<ObjectKey> {
        let mut missing = self.ahead.listed(revision);
        missing.retain(|key| self.bury(key));
        missing
    }

    /// An answer says that these are the Endpoints now.
    pub fn answered(&mut self, endpoints: Endpoints) {
        let meta = endpoints.metadata.clone();
        if self.insert(endpoints) {
            self.ahead.answered(&meta);
        }
    }

    /// An answer says that the Endpoints are gone.
    pub fn deleted(&mut self, meta: &ObjectMeta) {
        let key = meta.key();
        if self.get(&key).is_some_and(|known| known.metadata.uid == meta.uid) {
            self.by_key.remove(&key);
        }
        self.ahead.bury(meta);
    }

    /// An answer says that there were no Endpoints of this key, of which `known_uid` was known when it was asked for.
    /// Others that are known by now came after the question.
    pub fn answered_none(&mut self, key: &ObjectKey, known_uid: Option<&str>) {
        if self
            .get(key)
            .is_some_and(|now| Some(&*now.metadata.uid) == known_uid)
        {
            self.bury(key);
        }
    }

    /// The Endpoints of a key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Endpoints> {
        self.by_key.get(key)
    }

    /// All Endpoints, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Endpoints)> {
        self.by_key.iter()
    }

    fn insert(&mut self, endpoints: Endpoints) -> bool {
        let key = endpoints.metadata.key();
        let known = self.get(&key);
        if self.ahead.is_buried(&endpoints.metadata)
            || known.is_some_and(|known| version(&known.metadata) >= version(&endpoints.metadata))
        {
            return false;
        }
        self.by_key.insert(key, endpoints);
        true
    }

    fn bury(&mut self, key: &ObjectKey) -> bool {
        let Some(gone) = self.by_key.remove(key) else {
            return false;
        };
        self.ahead.bury(&gone.metadata);
        true
    }
}
