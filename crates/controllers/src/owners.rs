//! Objects of one kind and what they own of another, for controllers that keep so many of the one for each of the other.

mod exchange;

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use api::object::{ObjectKey, Resource};
use client::Event;
use serde_json::Value;

use crate::malformed;
use crate::owned::{Concerned, Owned, read_selector, selects};
use crate::queue::Queue;
use crate::write::Listed;

pub(crate) use exchange::{Answer, read_anew, write_claims};

/// Both kinds. What arrives puts the owners that it concerns into the queue.
pub(crate) struct Owners<O, T> {
    /// The owners, by the controllers that own them in turn.
    pub(crate) objects: Owned<O>,
    /// What they own.
    pub(crate) owned: Owned<T>,
    keys: BTreeMap<String, ObjectKey>,
    selector_of: fn(&O) -> &Value,
    are_owners_synced: bool,
    are_owned_synced: bool,
    /// Owners of which it is open what the last job on them did.
    doubtful: HashSet<ObjectKey>,
}

impl<O: Resource, T: Resource> Owners<O, T> {
    /// None of either; `selector_of` finds an owner's selector.
    pub(crate) fn new(selector_of: fn(&O) -> &Value) -> Self {
        Self {
            objects: Owned::default(),
            owned: Owned::default(),
            keys: BTreeMap::new(),
            selector_of,
            are_owners_synced: false,
            are_owned_synced: false,
            doubtful: HashSet::new(),
        }
    }

    /// Whether everything that was there at one moment has been told.
    pub(crate) fn are_synced(&self) -> bool {
        self.are_owners_synced && self.are_owned_synced
    }

    /// News of an owner; a complete list comes with its revision.
    pub(crate) fn take(
        &mut self,
        event: Event<O>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        match event {
            Event::Applied(owner) => {
                let key = owner.metadata().key();
                self.keys.insert(owner.metadata().uid.clone(), key.clone());
                self.objects.apply(owner);
                queue.add(key, now);
            }
            Event::Deleted(key) => {
                self.objects.remove(&key);
                self.forget(&key);
            }
            Event::Synced => {
                self.are_owners_synced = true;
                self.objects.listed(revision);
                let objects = &self.objects;
                self.keys.retain(|_, key| objects.get(key).is_some());
                self.doubtful.retain(|key| objects.get(key).is_some());
                // Their jobs under way may have been answered before the list was, or not.
                self.doubtful.extend(queue.under_way().cloned());
            }
            Event::Malformed { key, error } => malformed::skip::<O>(&key, &error),
        }
    }

    /// News of what may be owned; a complete list comes with its revision.
    pub(crate) fn take_owned(
        &mut self,
        event: Event<T>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        let concerned = match event {
            Event::Applied(object) => vec![self.owned.apply(object)],
            Event::Deleted(key) => vec![self.owned.remove(&key)],
            Event::Synced => {
                self.are_owned_synced = true;
                self.doubtful.extend(queue.under_way().cloned());
                self.owned.listed(revision)
            }
            Event::Malformed { key, error } => {
                malformed::skip::<T>(&key, &error);
                Vec::new()
            }
        };
        for concerned in concerned {
            self.look_at(&concerned, queue, now);
        }
    }

    /// What an owner owns, and what it may take.
    pub(crate) fn owned_by(&self, owner: &O) -> Vec<&T> {
        let meta = owner.metadata();
        let mut objects: Vec<&T> = self.owned.of(&meta.uid).collect();
        if let Some(selector) = read_selector((self.selector_of)(owner)) {
            objects.extend(self.owned.orphans(&meta.namespace, &selector));
        }
        objects
    }

    /// Whether it is open what the last job on an owner did.
    pub(crate) fn is_doubtful(&self, key: &ObjectKey) -> bool {
        self.doubtful.contains(key)
    }

    /// A job on an owner failed.
    pub(crate) fn doubt(&mut self, key: &ObjectKey) {
        self.doubtful.insert(key.clone());
    }

    /// Takes in what the server said of an owner and its objects.
    pub(crate) fn answered(&mut self, key: &ObjectKey, answer: Answer<O, T>) {
        if answer.is_gone {
            self.is_gone(key);
        }
        if let Some(owner) = answer.owner {
            self.objects.answered(*owner);
        }
        if let Some(listed) = answer.listed {
            self.listed(key, listed);
        }
        for object in answer.objects {
            self.owned.answered(object);
        }
        for meta in answer.gone {
            self.owned.deleted(&meta);
        }
    }

    fn is_gone(&mut self, key: &ObjectKey) {
        if let Some(owner) = self.objects.get(key) {
            let meta = owner.metadata().clone();
            self.objects.deleted(&meta);
        }
        self.forget(key);
    }

    /// What an owner's selector chooses was read: nothing about it is open any more.
    fn listed(&mut self, key: &ObjectKey, listed: Listed<T>) {
        if let Some(owner) = self.objects.get(key) {
            let selector = read_selector((self.selector_of)(owner)).unwrap_or_default();
            self.owned.answered_all(&owner.metadata().uid, &selector, listed);
            self.doubtful.remove(key);
        }
    }

    fn look_at(&self, concerned: &Concerned, queue: &mut Queue<ObjectKey>, now: Instant) {
        let keys = concerned.owners.iter().filter_map(|owner| self.keys.get(owner));
        for key in keys {
            queue.add(key.clone(), now);
        }
        let Some((object, labels)) = &concerned.orphan else {
            return;
        };
        for (key, owner) in self.objects.in_namespace(&object.namespace) {
            let selector = read_selector((self.selector_of)(owner));
            if selector.is_some_and(|selector| selects(&selector, labels)) {
                queue.add(key.clone(), now);
            }
        }
    }

    /// The owner of a key may be gone.
    fn forget(&mut self, key: &ObjectKey) {
        if self.objects.get(key).is_none() {
            self.keys.retain(|_, known| known != key);
            self.doubtful.remove(key);
        }
    }
}
