//! A cache of owners and the objects that they own, for example ReplicaSets and Pods.

mod server_state;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Instant;

use api::object::{ObjectKey, ObjectMeta, OwnerReference, Resource};
use client::Event;
use reconcile::queue::Queue;
use serde_json::Value;

use crate::api_requests::ObjectList;
use crate::malformed_object::log_malformed;
use crate::owned_objects::{AffectedOwners, OwnedObjects, read_selector, selector_matches};

pub(crate) use server_state::{ServerState, read_current, write_owner_changes};

/// Labels, requirements and values in selectors that one change of an object without owner evaluates at most. An object
/// has room for tens of thousands of them, and changes are applied before the work of all namespaces.
const SELECTORS_SIZE_MAX: usize = 10_000;

/// Owners and owned objects. Changes add the affected owners to the queue.
///
/// Several controllers watch all Pods. Each keeps the Pods of owners of its kind, and the Pods without a controller
/// in a namespace with such owners. For the first owner in a namespace, it reads the Pods without a controller from
/// the server.
pub(crate) struct OwnerCache<O, T> {
    /// The owners, indexed by their own owners.
    pub(crate) objects: OwnedObjects<O>,
    /// The owned objects.
    pub(crate) owned: OwnedObjects<T>,
    /// Keys of the owners by UID.
    keys_by_uid: BTreeMap<String, ObjectKey>,
    selector_of: fn(&O) -> &Value,
    are_owners_synced: bool,
    are_owned_synced: bool,
    /// Owners whose last job has an unknown effect, and new owners that may adopt objects outside of the cache.
    needs_refresh: HashSet<ObjectKey>,
    /// Namespaces with objects without a controller that are not cached.
    namespaces_with_uncached: BTreeSet<String>,
}

impl<O: Resource, T: Resource> OwnerCache<O, T> {
    /// Creates an empty cache; `selector_of` returns the selector of an owner.
    pub(crate) fn new(selector_of: fn(&O) -> &Value) -> Self {
        Self {
            objects: OwnedObjects::default(),
            owned: OwnedObjects::default(),
            keys_by_uid: BTreeMap::new(),
            selector_of,
            are_owners_synced: false,
            are_owned_synced: false,
            needs_refresh: HashSet::new(),
            namespaces_with_uncached: BTreeSet::new(),
        }
    }

    /// Returns true if both initial lists are complete.
    pub(crate) fn are_synced(&self) -> bool {
        self.are_owners_synced && self.are_owned_synced
    }

    /// Applies an event about an owner; `revision` is that of a complete list.
    pub(crate) fn apply_owner_event(
        &mut self,
        event: Event<O>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        match event {
            Event::Applied(owner) => {
                let key = owner.metadata().key();
                let uid = owner.metadata().uid.clone();
                self.keys_by_uid.insert(uid, key.clone());
                if self.may_adopt_uncached(&key, &owner) {
                    self.needs_refresh.insert(key.clone());
                }
                self.objects.apply(owner);
                queue.add(key, now);
            }
            Event::Deleted(key) => {
                self.objects.remove(&key);
                self.remove_if_deleted(&key);
            }
            Event::Synced => {
                self.are_owners_synced = true;
                self.objects.complete_list(revision);
                let objects = &self.objects;
                self.keys_by_uid.retain(|_, key| objects.get(key).is_some());
                self.needs_refresh.retain(|key| objects.get(key).is_some());
                // Responses to jobs in progress may be older or newer than the list.
                self.needs_refresh.extend(queue.in_progress().cloned());
            }
            Event::Malformed { key, error } => log_malformed::<O>(&key, &error),
        }
    }

    /// Applies an event about an owned object; `revision` is that of a complete list.
    pub(crate) fn apply_owned_event(
        &mut self,
        event: Event<T>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        let affected = match event {
            Event::Applied(object) if !self.is_cacheable(object.metadata()) => {
                self.record_uncached(object.metadata());
                return;
            }
            Event::Applied(object) => vec![self.owned.apply(object)],
            Event::Deleted(key) => vec![self.owned.remove(&key)],
            Event::Synced => {
                self.are_owned_synced = true;
                self.needs_refresh.extend(queue.in_progress().cloned());
                self.owned.complete_list(revision)
            }
            Event::Malformed { key, error } => {
                log_malformed::<T>(&key, &error);
                Vec::new()
            }
        };
        for affected in affected {
            self.enqueue_affected(&affected, queue, now);
        }
    }

    /// Returns true if an object of the watch belongs into the cache.
    fn is_cacheable(&self, meta: &ObjectMeta) -> bool {
        // A finalizer may be that of this controller.
        if self.owned.get(&meta.key()).is_some() || !meta.finalizers.is_empty() {
            return true;
        }
        if let Some(owner) = meta.controller() {
            return may_be_of_kind::<O>(owner);
        }
        let has_owner = self.objects.in_namespace(&meta.namespace).next().is_some();
        has_owner || !self.are_owners_synced
    }

    /// Records the namespace of an object that is not cached, if later owners may adopt it.
    fn record_uncached(&mut self, meta: &ObjectMeta) {
        let namespaces = &mut self.namespaces_with_uncached;
        if meta.controller().is_none() && !namespaces.contains(&meta.namespace) {
            namespaces.insert(meta.namespace.clone());
        }
    }

    /// Returns true if an owner is new, or has another selector, and its namespace has objects without a controller that
    /// are not cached.
    fn may_adopt_uncached(&self, key: &ObjectKey, owner: &O) -> bool {
        let has_same_selector = |known: &O| (self.selector_of)(known) == (self.selector_of)(owner);
        self.namespaces_with_uncached.contains(&*key.namespace)
            && !self.objects.get(key).is_some_and(has_same_selector)
    }

    /// Returns the objects that an owner owns, and those that it may adopt.
    pub(crate) fn owned_by(&self, owner: &O) -> Vec<&T> {
        let meta = owner.metadata();
        let mut objects: Vec<&T> = self.owned.of(&meta.namespace, &meta.uid).collect();
        if let Some(selector) = read_selector((self.selector_of)(owner)) {
            objects.extend(self.owned.orphans(&meta.namespace, &selector));
        }
        objects
    }

    /// Returns true if the last job of an owner has an unknown effect, so that its objects have to be read.
    pub(crate) fn needs_refresh(&self, key: &ObjectKey) -> bool {
        self.needs_refresh.contains(key)
    }

    /// Records that a job of an owner failed.
    pub(crate) fn mark_for_refresh(&mut self, key: &ObjectKey) {
        self.needs_refresh.insert(key.clone());
    }

    /// Applies the responses of a job.
    pub(crate) fn apply_response(&mut self, key: &ObjectKey, state: ServerState<O, T>) {
        if state.is_deleted {
            self.confirm_owner_deletion(key);
        }
        if let Some(owner) = state.owner {
            self.objects.apply_response(*owner);
        }
        if let Some(listed) = state.listed {
            self.apply_list(key, listed);
        }
        for object in state.objects {
            self.owned.apply_response(object);
        }
        for meta in state.deleted {
            self.owned.confirm_deletion(&meta);
        }
    }

    /// Applies a response that confirms the deletion of an owner.
    fn confirm_owner_deletion(&mut self, key: &ObjectKey) {
        if let Some(owner) = self.objects.get(key) {
            let meta = owner.metadata().clone();
            self.objects.confirm_deletion(&meta);
        }
        self.remove_if_deleted(key);
    }

    /// Applies a complete list of the objects that match an owner's selector, which completes the refresh.
    fn apply_list(&mut self, key: &ObjectKey, listed: ObjectList<T>) {
        if let Some(owner) = self.objects.get(key) {
            let selector = read_selector((self.selector_of)(owner)).unwrap_or_default();
            self.owned.apply_list(owner.metadata(), &selector, listed);
            self.needs_refresh.remove(key);
        }
    }

    /// Adds the owners that a change affects to the queue, and those that may adopt the changed object. If their
    /// selectors are too large, all further owners of the namespace are added: their reconciliation decides.
    pub(crate) fn enqueue_affected(
        &self,
        affected: &AffectedOwners,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        let keys = affected
            .owners
            .iter()
            .filter_map(|owner| self.keys_by_uid.get(owner));
        for key in keys {
            queue.add(key.clone(), now);
        }
        let Some((object, labels)) = &affected.orphan else {
            return;
        };
        let mut size_left = Some(SELECTORS_SIZE_MAX);
        for owner in self.objects.in_namespace(&object.namespace) {
            let selector = (self.selector_of)(owner);
            size_left = size_left.and_then(|left| left.checked_sub(size_of_selector(selector)));
            let may_adopt = size_left.is_none()
                || read_selector(selector).is_some_and(|selector| selector_matches(&selector, labels));
            if may_adopt {
                queue.add(owner.metadata().key(), now);
            }
        }
    }

    /// Adds all owners to the queue.
    pub(crate) fn enqueue_all(&self, queue: &mut Queue<ObjectKey>, now: Instant) {
        for key in self.keys_by_uid.values() {
            queue.add(key.clone(), now);
        }
    }

    /// Drops the state of an owner that is deleted.
    fn remove_if_deleted(&mut self, key: &ObjectKey) {
        if self.objects.get(key).is_none() {
            self.keys_by_uid.retain(|_, known| known != key);
            self.needs_refresh.remove(key);
        }
    }
}

/// Returns the number of labels, requirements and values in a selector.
fn size_of_selector(selector: &Value) -> usize {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let requirements = selector.get("matchExpressions").and_then(Value::as_array);
    let values = |requirement: &Value| {
        requirement
            .get("values")
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    let sizes = requirements
        .into_iter()
        .flatten()
        .map(|requirement| 1 + values(requirement));
    1 + labels.map_or(0, serde_json::Map::len) + sizes.sum::<usize>()
}

/// Returns false if the reference is to another kind.
fn may_be_of_kind<O: Resource>(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    owner.kind == O::KIND && group == O::GROUP
}

#[cfg(test)]
mod tests;
