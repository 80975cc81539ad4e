//! A cache of EndpointSlices by Service that is never older than this process's own writes.

use std::collections::{BTreeMap, HashMap};

use api::object::{EndpointSlice, ObjectKey, ObjectMeta};

use super::pending_writes::{PendingWrites, version};

/// A cache of slices. Responses to writes update it at once, and older watch events are dropped. A sync therefore does
/// not use a state from before its own last write. See [`super::pending_writes`].
#[derive(Default)]
pub(crate) struct SliceCache {
    /// The slices of each Service in the order of their names.
    #[expect(
        clippy::vec_box,
        reason = "a vector of one slice has room for four, of 400 bytes each"
    )]
    by_service: BTreeMap<ObjectKey, Vec<Box<EndpointSlice>>>,
    service_of: HashMap<ObjectKey, ObjectKey>,
    pending: PendingWrites,
}

impl SliceCache {
    /// Applies a slice from the watch; returns the affected Services, none if the event is outdated.
    pub(crate) fn apply(&mut self, slice: EndpointSlice) -> Vec<ObjectKey> {
        let meta = &slice.metadata;
        self.pending.observe(&meta.key(), version(meta));
        self.insert(slice)
    }

    /// Applies a deletion from the watch; returns the Service of the slice.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        if self.pending.is_pending(key) {
            return None;
        }
        self.discard(key)
    }

    /// Records that the watch has delivered a complete list of this revision; returns the Services of removed slices.
    pub(crate) fn complete_list(&mut self, revision: u64) -> Vec<ObjectKey> {
        let missing = self.pending.complete_list(revision);
        missing.iter().filter_map(|key| self.discard(key)).collect()
    }

    /// Applies a slice from a response.
    pub(crate) fn apply_response(&mut self, slice: EndpointSlice) {
        let (key, version) = (slice.metadata.key(), version(&slice.metadata));
        if !self.insert(slice).is_empty() {
            self.pending.add(key, version);
        }
    }

    /// Applies a response that confirms the deletion of a slice.
    pub(crate) fn confirm_deletion(&mut self, meta: &ObjectMeta) {
        let key = meta.key();
        self.forget(&key);
        self.pending.mark_deleted(&key, &meta.uid);
    }

    /// Applies the complete list of a Service's slices at this revision.
    pub(crate) fn apply_list(&mut self, service: &ObjectKey, slices: Vec<EndpointSlice>, revision: u64) {
        let cached = self.of(service);
        let deleted = cached.iter().filter(|slice| {
            version(&slice.metadata) <= revision
                && !slices.iter().any(|now| now.metadata.uid == slice.metadata.uid)
        });
        let deleted: Vec<ObjectMeta> = deleted.map(|slice| slice.metadata.clone()).collect();
        for meta in &deleted {
            self.confirm_deletion(meta);
        }
        for slice in slices {
            self.apply_response(slice);
        }
    }

    /// Returns the slices of a Service in the order of their names.
    pub(crate) fn of(&self, service: &ObjectKey) -> Vec<&EndpointSlice> {
        self.by_service
            .get(service)
            .into_iter()
            .flatten()
            .map(Box::as_ref)
            .collect()
    }

    /// Iterates over the Services that have slices, in the order of their keys.
    pub(crate) fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_service.keys()
    }

    fn insert(&mut self, slice: EndpointSlice) -> Vec<ObjectKey> {
        let key = slice.metadata.key();
        if self.pending.is_deleted(&slice.metadata.uid) {
            return Vec::new();
        }
        let service = slice
            .service_name()
            .map(|name| ObjectKey::new(&slice.metadata.namespace, name));
        let mut affected = Vec::new();
        if let Some(before) = self.get(&key) {
            if version(&before.metadata) >= version(&slice.metadata) {
                return Vec::new();
            }
            affected.extend(self.forget(&key));
        }
        if let Some(service) = service {
            self.service_of.insert(key.clone(), service.clone());
            let slices = self.by_service.entry(service.clone()).or_default();
            let place = slices.partition_point(|other| other.metadata.name < slice.metadata.name);
            slices.insert(place, Box::new(slice));
            if !affected.contains(&service) {
                affected.push(service);
            }
        }
        affected
    }

    fn discard(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        let uid = self.get(key)?.metadata.uid.clone();
        self.pending.mark_deleted(key, &uid);
        self.forget(key)
    }

    fn forget(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        let service = self.service_of.remove(key)?;
        if let Some(slices) = self.by_service.get_mut(&service) {
            slices.retain(|slice| *slice.metadata.name != *key.name);
            if slices.is_empty() {
                self.by_service.remove(&service);
            }
        }
        Some(service)
    }

    fn get(&self, key: &ObjectKey) -> Option<&EndpointSlice> {
        let slices = self.by_service.get(self.service_of.get(key)?)?;
        let place = slices.binary_search_by(|slice| (*slice.metadata.name).cmp(&*key.name));
        slices.get(place.ok()?).map(Box::as_ref)
    }
}
