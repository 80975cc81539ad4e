//! Caches of the endpoint controllers, indexed for their queries.
//!
//! - `pods`, `nodes`, `slices`, `selectors`, `object_cache`: objects by kind
//! - `pending_writes`, `tombstones`: a cache is never older than the writes of this process
//! - `compact_set`, `keyed_set`, `interner`, `shared_texts`, `time`, `uid`: values in little memory

mod compact_set;
pub(crate) mod interner;
mod keyed_set;
mod nodes;
mod object_cache;
mod pending_writes;
pub(crate) mod pods;
mod selectors;
mod shared_texts;
mod slices;
mod time;
mod tombstones;
mod uid;

use std::collections::BTreeMap;

use api::object::{Endpoints, Labels, Node, ObjectKey, ObjectMeta, Pod, Service};

use self::interner::Interner;
use self::pods::INDEXED_KEYS_MAX;

use crate::endpoint_slice::TRIGGER_TIME;
use crate::topology_mode::{TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE, ZoneCpus, is_auto};

pub(crate) use compact_set::CompactSet;
pub(crate) use interner::InternedValues;
pub(crate) use keyed_set::{Keyed, KeyedSet};
pub(crate) use nodes::NodeFacts;
pub(crate) use object_cache::{Cached, ObjectCache};
pub(crate) use pods::{PodFacts, Pods};
pub(crate) use selectors::Selectors;
pub(crate) use slices::SliceCache;
pub(crate) use time::Time;
pub(crate) use tombstones::Tombstones;
pub(crate) use uid::Uid;

/// Objects that the endpoint controllers read. Methods that apply a change return the affected Services.
#[derive(Default)]
pub(crate) struct Caches {
    services: KeyedSet<Service>,
    /// Pods, indexed by label.
    pub pods: Pods,
    /// Facts about each Node, by name.
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Slices of the EndpointSlice controller, by Service.
    pub slices: SliceCache,
    /// Slices of the mirroring controller, by Endpoints.
    pub mirrored: SliceCache,
    /// Endpoints by key.
    pub endpoints: ObjectCache<Endpoints>,
    /// Allocatable CPUs of each zone.
    pub zone_cpus: ZoneCpus,
    selectors: Selectors,
    interner: Interner,
}

impl Caches {
    /// Returns the Service with this key.
    pub(crate) fn service(&self, key: &ObjectKey) -> Option<&Service> {
        self.services.get(key)
    }

    /// Applies a Service; returns true if anything changed that its slices depend on.
    pub(crate) fn apply_service(&mut self, mut service: Service) -> bool {
        let mut annotations = std::mem::take(&mut service.metadata.annotations);
        annotations.retain(|key, _| key == TOPOLOGY_MODE || key == TOPOLOGY_AWARE_HINTS);
        drop_unused_metadata(&mut service.metadata);
        if !annotations.is_empty() {
            service.metadata.annotations = annotations;
        }
        service.status = Default::default();
        let key = service.metadata.key();
        let selector = &service.spec.selector;
        let before = self.service(&key).map(|before| &before.spec.selector);
        if before != Some(selector) {
            let before = before.cloned().unwrap_or_default();
            self.replace_selector(&key, &before, selector);
        }
        let before = self.services.insert(service);
        let (Some(before), Some(now)) = (before, self.services.get(&key)) else {
            return true;
        };
        before.spec != now.spec
            || before.metadata.labels != now.metadata.labels
            || before.metadata.annotations != now.metadata.annotations
            || before.metadata.uid != now.metadata.uid
            || before.metadata.deletion_timestamp != now.metadata.deletion_timestamp
    }

    /// Removes a Service.
    pub(crate) fn remove_service(&mut self, key: &ObjectKey) {
        if let Some(before) = self.services.remove(key) {
            self.replace_selector(key, &before.spec.selector, &Labels::new());
        }
    }

    /// Applies a Pod; returns the Services that select it now or selected it before, if its endpoints change
    /// (EPS-24).
    pub(crate) fn apply_pod(&mut self, pod: &Pod) -> Vec<ObjectKey> {
        let mut pod = PodFacts::of(pod, &mut self.interner);
        let key = pod.key();
        if let Some(before) = self.pods.get(&key) {
            pod.share_with(before);
        }
        let after = self.services_of(&pod);
        let Some(before) = self.pods.insert(pod) else {
            return after;
        };
        let now = self.pods.get(&key);
        if now.is_some_and(|now| before.is_same_endpoint(now)) {
            return Vec::new();
        }
        let mut affected = self.services_of(&before);
        affected.extend(after);
        affected
    }

    /// Removes a Pod; returns the Services that selected it.
    pub(crate) fn remove_pod(&mut self, key: &ObjectKey) -> Vec<ObjectKey> {
        let Some(before) = self.pods.remove(key) else {
            return Vec::new();
        };
        self.services_of(&before)
    }

    /// Applies a Node. Returns the Services with Pods on it if its zone is new, and Services in topology mode Auto if
    /// the CPUs of the zones changed.
    pub(crate) fn apply_node(&mut self, node: &Node) -> Vec<ObjectKey> {
        let name = &node.metadata.name;
        let facts = NodeFacts::of(node);
        let before = self.nodes.insert(name.clone(), facts.clone());
        if before.as_ref() == Some(&facts) {
            return Vec::new();
        }
        let mut affected = self.update_zone_cpus();
        if before.is_none_or(|before| before.zone != facts.zone) {
            affected.extend(self.services_on(name));
        }
        affected
    }

    /// Removes a Node; returns the affected Services.
    pub(crate) fn remove_node(&mut self, name: &str) -> Vec<ObjectKey> {
        if self.nodes.remove(name).is_none() {
            return Vec::new();
        }
        let mut affected = self.update_zone_cpus();
        affected.extend(self.services_on(name));
        affected
    }

    /// Returns the Pods of a namespace that match a selector.
    pub(crate) fn pods_of(&self, namespace: &str, selector: &Labels) -> Vec<&PodFacts> {
        self.pods.matching(namespace, selector)
    }

    /// Recomputes the CPUs of the zones; returns the Services in topology mode Auto if they changed.
    fn update_zone_cpus(&mut self) -> Vec<ObjectKey> {
        let cpus = nodes::zone_cpus(&self.nodes);
        if self.zone_cpus == cpus {
            return Vec::new();
        }
        self.zone_cpus = cpus;
        let auto = self.services.iter().filter(|service| is_auto(service));
        auto.map(|service| service.metadata.key()).collect()
    }

    fn services_on(&self, node: &str) -> Vec<ObjectKey> {
        let pods = self.pods.iter().filter(|pod| *pod.node_name == *node);
        pods.flat_map(|pod| self.services_of(pod)).collect()
    }

    /// Replaces the selector of a Service in the index of Services, and the index of Pods by its first keys.
    fn replace_selector(&mut self, service: &ObjectKey, before: &Labels, now: &Labels) {
        self.selectors.remove(service, before, &mut self.interner);
        self.selectors.add(service, now, &mut self.interner);
        for key in now.keys().take(INDEXED_KEYS_MAX) {
            let key = self.interner.text(key);
            self.pods.add_selector_key(&service.namespace, &key);
        }
        for key in before.keys().take(INDEXED_KEYS_MAX) {
            let key = self.interner.text(key);
            self.pods.remove_selector_key(&service.namespace, &key);
        }
    }

    /// Returns the Services that select a Pod.
    fn services_of(&self, pod: &PodFacts) -> Vec<ObjectKey> {
        self.selectors
            .matching(&self.services, pod.namespace(), &pod.labels)
    }
}

/// Drops annotations, owners and finalizers, which no endpoint controller reads.
fn drop_unused_metadata(metadata: &mut ObjectMeta) {
    metadata.annotations.clear();
    metadata.owner_references.clear();
    metadata.finalizers.clear();
}

/// Drops the trigger time of a slice or of Endpoints. Each write sets it anew.
pub(crate) fn drop_trigger_time(metadata: &mut ObjectMeta) {
    metadata.annotations.remove(TRIGGER_TIME);
    if metadata.annotations.is_empty() {
        // An emptied map keeps a node.
        metadata.annotations = Labels::new();
    }
}

#[cfg(test)]
mod tests;
