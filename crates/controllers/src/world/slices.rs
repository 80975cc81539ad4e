//! Slices by Service, never older than what this process wrote itself.

use std::collections::{BTreeMap, HashMap};

use api::object::{EndpointSlice, ObjectKey};

/// A cache of slices that is written through: answers to our own writes are taken in at once, and a
/// watch event that is older than what is known is dropped. So a sync never acts on a state from before
/// its own last write. Resource versions of one kind compare as numbers (KEP-5504).
#[derive(Default)]
pub struct Slices {
    by_service: HashMap<ObjectKey, BTreeMap<String, EndpointSlice>>,
    service_of: HashMap<ObjectKey, ObjectKey>,
}

impl Slices {
    /// Takes in a slice from a watch or an answer; returns the Services whose slices changed, or none
    /// if this is old news.
    pub fn apply(&mut self, slice: EndpointSlice) -> Vec<ObjectKey> {
        let key = slice.metadata.key();
        let service = slice
            .service_name()
            .map(|name| ObjectKey::new(&slice.metadata.namespace, name));
        let mut concerned = Vec::new();
        if let Some(before) = self.get(&key) {
            if version(before) >= version(&slice) {
                return Vec::new();
            }
            concerned.extend(self.remove(&key));
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

    /// Removes a slice; returns the Service it belonged to.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        let service = self.service_of.remove(key)?;
        if let Some(slices) = self.by_service.get_mut(&service) {
            slices.remove(&*key.name);
            if slices.is_empty() {
                self.by_service.remove(&service);
            }
        }
        Some(service)
    }

    /// The slices of a Service, by name.
    pub fn of(&self, service: &ObjectKey) -> Vec<&EndpointSlice> {
        self.by_service
            .get(service)
            .into_iter()
            .flat_map(BTreeMap::values)
            .collect()
    }

    /// All Services that have slices.
    pub fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_service.keys()
    }

    fn get(&self, key: &ObjectKey) -> Option<&EndpointSlice> {
        self.by_service.get(self.service_of.get(key)?)?.get(&*key.name)
    }
}

fn version(slice: &EndpointSlice) -> u64 {
    slice.metadata.resource_version.parse().unwrap_or(0)
}
