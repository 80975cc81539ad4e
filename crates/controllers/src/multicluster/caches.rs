//! Caches of the clusters of a set.

use std::collections::{BTreeMap, BTreeSet};

use api::multicluster::SERVICE_NAME_LABEL;
use api::names::dns_label;
use api::object::{EndpointSlice, ObjectKey, Resource, Service, ServiceExport};
use client::Event;

use super::cluster_id::ClusterId;
use super::desired::{Availability, ClusterState, Reachability};
use crate::malformed_object::log_malformed;

/// Maximum number of exports of each other cluster. Each may use a cluster IP of this one, and the smallest usual
/// range, a /20, has 4,094 of them.
pub(super) const EXPORTS_MAX: usize = 1_000;

/// Objects of one kind by key, and the state of their initial list.
pub(super) struct CachedObjects<T> {
    by_key: BTreeMap<ObjectKey, T>,
    is_synced: bool,
}

impl<T> Default for CachedObjects<T> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            is_synced: false,
        }
    }
}

impl<T: Resource> CachedObjects<T> {
    /// Applies an event. Returns the key of the changed object, with the object before the change.
    pub(super) fn apply(&mut self, event: Event<T>) -> Option<(ObjectKey, Option<T>)> {
        match event {
            Event::Applied(object) => {
                let key = object.metadata().key();
                let before = self.by_key.insert(key.clone(), object);
                Some((key, before))
            }
            Event::Deleted(key) => {
                let before = self.by_key.remove(&key);
                Some((key, before))
            }
            Event::Synced => {
                self.is_synced = true;
                None
            }
            Event::Malformed { key, error } => {
                log_malformed::<T>(&key, &error);
                None
            }
        }
    }

    /// Returns the object with this key.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&T> {
        self.by_key.get(key)
    }

    /// Iterates over the keys of all objects.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_key.keys()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.is_synced
    }
}

/// EndpointSlices, by the value of a label with the name of their Service.
pub(super) struct SlicesByService {
    label: &'static str,
    slices: CachedObjects<EndpointSlice>,
    by_service: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

impl SlicesByService {
    pub(super) fn new(label: &'static str) -> Self {
        Self {
            label,
            slices: CachedObjects::default(),
            by_service: BTreeMap::new(),
        }
    }

    /// Applies an event; returns the Services before and after the change.
    pub(super) fn apply(&mut self, event: Event<EndpointSlice>) -> BTreeSet<ObjectKey> {
        let Some((key, before)) = self.slices.apply(event) else {
            return BTreeSet::new();
        };
        let before = before.and_then(|slice| self.service_of(&slice));
        let after = self.slices.get(&key).and_then(|slice| self.service_of(slice));
        if let Some(service) = &before
            && let Some(keys) = self.by_service.get_mut(service)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_service.remove(service);
            }
        }
        if let Some(service) = &after {
            self.by_service.entry(service.clone()).or_default().insert(key);
        }
        before.into_iter().chain(after).collect()
    }

    /// Returns the slices of a Service.
    pub(super) fn of(&self, service: &ObjectKey) -> Vec<&EndpointSlice> {
        let keys = self.by_service.get(service).into_iter().flatten();
        keys.filter_map(|key| self.slices.get(key)).collect()
    }

    /// Returns the Services with slices.
    pub(super) fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_service.keys()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.slices.is_synced()
    }

    fn service_of(&self, slice: &EndpointSlice) -> Option<ObjectKey> {
        let name = slice.metadata.labels.get(self.label)?;
        Some(ObjectKey::new(&slice.metadata.namespace, name))
    }
}

/// Exports of one cluster, with their Services and slices.
pub(super) struct ClusterCache {
    pub(super) id: ClusterId,
    exports_max: usize,
    /// Exports that count, at most `exports_max`.
    counted: BTreeSet<ObjectKey>,
    pub(super) exports: CachedObjects<ServiceExport>,
    pub(super) services: CachedObjects<Service>,
    pub(super) slices: SlicesByService,
    pub(super) reachability: Reachability,
}

impl ClusterCache {
    /// Creates the cache of a cluster, of which at most `exports_max` exports count.
    pub(super) fn new(id: ClusterId, exports_max: usize) -> Self {
        Self {
            id,
            exports_max,
            counted: BTreeSet::new(),
            exports: CachedObjects::default(),
            services: CachedObjects::default(),
            slices: SlicesByService::new(api::object::SERVICE_NAME_LABEL),
            reachability: Reachability::default(),
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.exports.is_synced() && self.services.is_synced() && self.slices.is_synced()
    }

    /// Applies an event of an export; returns the exports whose state changed. Exports beyond the bound count when
    /// others are deleted.
    pub(super) fn apply_export(&mut self, event: Event<ServiceExport>) -> BTreeSet<ObjectKey> {
        let Some((key, _)) = self.exports.apply(event) else {
            return BTreeSet::new();
        };
        let mut changed = BTreeSet::from([key.clone()]);
        if self.exports.get(&key).is_none() {
            let has_counted = self.counted.remove(&key);
            let next = self.exports.keys().find(|key| self.is_waiting(key)).cloned();
            if let Some(next) = next.filter(|_| has_counted) {
                self.counted.insert(next.clone());
                changed.insert(next);
            }
        } else if self.is_waiting(&key) {
            if self.counted.len() < self.exports_max {
                self.counted.insert(key);
            } else {
                let (cluster, max) = (&self.id, self.exports_max);
                tracing::warn!(%cluster, export = %key, max, "too many ServiceExports of a cluster; one is ignored");
            }
        }
        changed
    }

    /// Returns true if an export could count and does not. Names reach selectors and paths, so a name that no Service
    /// can have never counts.
    fn is_waiting(&self, key: &ObjectKey) -> bool {
        dns_label(&key.name).is_empty() && !self.counted.contains(key)
    }

    /// Returns the state of a Service.
    pub(super) fn state(&self, key: &ObjectKey) -> ClusterState<'_> {
        ClusterState {
            cluster: &self.id,
            availability: Availability {
                is_known: self.is_synced(),
                reachability: self.reachability,
            },
            export: self.exports.get(key).filter(|_| self.counted.contains(key)),
            service: self.services.get(key),
            slices: self.slices.of(key),
        }
    }
}

/// Returns the import of a derived Service.
pub(super) fn import_of(service: &Service) -> Option<ObjectKey> {
    let name = service.metadata.labels.get(SERVICE_NAME_LABEL)?;
    Some(ObjectKey::new(&service.metadata.namespace, name))
}

#[cfg(test)]
mod tests;
