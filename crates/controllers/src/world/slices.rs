//! Slices by Service, never older than what this process wrote itself.

use std::collections::{BTreeMap, HashMap};

use api::object::{EndpointSlice, ObjectKey, ObjectMeta};

use super::ahead::{Ahead, version};

/// A cache of slices that is written through: answers to our own writes are taken in at once, and what a
/// watch tells later of an earlier state is dropped. So a sync never acts on a state from before
/// its own last write.
#[derive(Default)]
pub struct Slices {
    by_service: BTreeMap<ObjectKey, BTreeMap<String, EndpointSlice>>,
    service_of: HashMap<ObjectKey, ObjectKey>,
    ahead: Ahead,
}

impl Slices {
    /// The watch tells of a slice; returns the Services whose slices changed, or none if this is old news.
    pub fn apply(&mut self, slice: EndpointSlice) -> Vec<ObjectKey> {
        self.ahead.told(&slice.metadata);
        self.insert(slice)
    }

    /// The watch tells that a slice is gone; returns the Service it belonged to.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        if self.ahead.is_untold(key) {
            return None;
        }
        self.bury(key)
    }

    /// The watch has told a complete list of this revision; returns the Services that lost slices by it.
    pub fn listed(&mut self, revision: u64) -> Vec<ObjectKey> {
        let missing = self.ahead.listed(revision);
        missing.iter().filter_map(|key| self.bury(key)).collect()
    }

    /// An answer says that this is the slice now.
    pub fn answered(&mut self, slice: EndpointSlice) {
        let meta = slice.metadata.clone();
        if !self.insert(slice).is_empty() {
            self.ahead.answered(&meta);
        }
    }

    /// An answer says that the slice is gone.
    pub fn deleted(&mut self, meta: &ObjectMeta) {
        self.forget(&meta.key());
        self.ahead.bury(meta);
    }

    /// An answer of this revision says that these are all slices of the Service.
    pub fn answered_all(&mut self, service: &ObjectKey, slices: Vec<EndpointSlice>, revision: u64) {
        let known = self.of(service);
        let gone = known.iter().filter(|slice| {
            version(&slice.metadata) <= revision
                && !slices.iter().any(|now| now.metadata.uid == slice.metadata.uid)
        });
        let gone: Vec<ObjectMeta> = gone.map(|slice| slice.metadata.clone()).collect();
        for meta in &gone {
            self.deleted(meta);
        }
        for slice in slices {
            self.answered(slice);
        }
    }

    /// The slices of a Service, by name.
    pub fn of(&self, service: &ObjectKey) -> Vec<&EndpointSlice> {
        self.by_service
            .get(service)
            .into_iter()
            .flat_map(BTreeMap::values)
            .collect()
    }

    /// All Services that have slices, in the order of their keys.
    pub fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_service.keys()
    }

    fn insert(&mut self, slice: EndpointSlice) -> Vec<ObjectKey> {
        let key = slice.metadata.key();
        if self.ahead.is_buried(&slice.metadata) {
            return Vec::new();
        }
        let service = slice
            .service_name()
            .map(|name| ObjectKey::new(&slice.metadata.namespace, name));
        let mut concerned = Vec::new();
        if let Some(before) = self.get(&key) {
            if version(&before.metadata) >= version(&slice.metadata) {
                return Vec::new();
            }
            concerned.extend(self.forget(&key));
        }
        if let Some(service) = service {
            self.service_of.insert(key.clone(), service.clone());
            self.by_service
                .entry(service.clone())
                .or_default()
                .insert(slice.metadata.name.clone(), slice);
            if !concerned.contains(&service) {
                concerned.push(service);
            }
        }
        concerned
    }

    fn bury(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        let meta = self.get(key)?.metadata.clone();
        self.ahead.bury(&meta);
        self.forget(key)
    }

    fn forget(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        let service = self.service_of.remove(key)?;
        if let Some(slices) = self.by_service.get_mut(&service) {
            slices.remove(&*key.name);
            if slices.is_empty() {
                self.by_service.remove(&service);
            }
        }
        Some(service)
    }

    fn get(&self, key: &ObjectKey) -> Option<&EndpointSlice> {
        self.by_service.get(self.service_of.get(key)?)?.get(&*key.name)
    }
}
