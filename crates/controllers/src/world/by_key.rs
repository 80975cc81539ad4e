//! Objects by key, never older than what this process wrote itself.

use std::collections::BTreeMap;

use api::object::{ObjectKey, ObjectMeta, Resource};

use super::ahead::{Ahead, version};

/// A cache of a kind that is written through, as [`super::Slices`] is.
pub struct ByKey<T> {
    by_key: BTreeMap<ObjectKey, T>,
    ahead: Ahead,
}

impl<T> Default for ByKey<T> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            ahead: Ahead::default(),
        }
    }
}

impl<T: Resource> ByKey<T> {
    /// The watch tells of an object; whether it is news.
    pub fn apply(&mut self, object: T) -> bool {
        self.ahead.told(object.metadata());
        self.insert(object)
    }

    /// The watch tells that the object of a key is gone; whether that is news.
    pub fn remove(&mut self, key: &ObjectKey) -> bool {
        !self.ahead.is_untold(key) && self.bury(key)
    }

    /// The watch has told a complete list of this revision; returns the keys that are gone by it.
    pub fn listed(&mut self, revision: u64) -> Vec<ObjectKey> {
        let mut missing = self.ahead.listed(revision);
        missing.retain(|key| self.bury(key));
        missing
    }

    /// An answer says that this is the object now; whether it is news.
    pub fn answered(&mut self, object: T) -> bool {
        let meta = object.metadata().clone();
        let is_news = self.insert(object);
        if is_news {
            self.ahead.answered(&meta);
        }
        is_news
    }

    /// An answer says that the object is gone.
    pub fn deleted(&mut self, meta: &ObjectMeta) {
        let key = meta.key();
        if self
            .get(&key)
            .is_some_and(|known| known.metadata().uid == meta.uid)
        {
            self.by_key.remove(&key);
        }
        self.ahead.bury(meta);
    }

    /// An answer says that there was no object of this key, of which `known_uid` was known when it was asked for.
    /// Another that is known by now came after the question.
    pub fn answered_none(&mut self, key: &ObjectKey, known_uid: Option<&str>) {
        if self
            .get(key)
            .is_some_and(|now| Some(&*now.metadata().uid) == known_uid)
        {
            self.bury(key);
        }
    }

    /// The object of a key.
    pub fn get(&self, key: &ObjectKey) -> Option<&T> {
        self.by_key.get(key)
    }

    /// All objects, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &T)> {
        self.by_key.iter()
    }

    /// The objects of a namespace, in the order of their names.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a T)> {
        let all = self.by_key.range(ObjectKey::new(namespace, "")..);
        all.take_while(move |(key, _)| &*key.namespace == namespace)
    }

    fn insert(&mut self, object: T) -> bool {
        let key = object.metadata().key();
        let known = self.get(&key);
        if self.ahead.is_buried(object.metadata())
            || known.is_some_and(|known| version(known.metadata()) >= version(object.metadata()))
        {
            return false;
        }
        self.by_key.insert(key, object);
        true
    }

    fn bury(&mut self, key: &ObjectKey) -> bool {
        let Some(gone) = self.by_key.remove(key) else {
            return false;
        };
        self.ahead.bury(gone.metadata());
        true
    }
}
