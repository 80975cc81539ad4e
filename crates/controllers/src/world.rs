//! The caches: what the controllers know, indexed by how they ask for it.

mod ahead;
mod by_key;
mod graves;
pub mod interner;
mod nodes;
pub mod pods;
mod selectors;
mod slices;

use std::collections::BTreeMap;

use api::object::{Endpoints, Labels, Node, ObjectKey, Pod, Service};

use self::interner::Interner;

use crate::endpointslice::topology::{TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE, ZoneCpus, is_auto};

pub use by_key::ByKey;
pub(crate) use graves::Graves;
pub use nodes::NodeFacts;
pub use pods::{PodFacts, Pods};
pub use selectors::Selectors;
pub use slices::Slices;

/// Everything the controllers know. Methods that take a change return the Services it concerns.
#[derive(Default)]
pub struct World {
    /// Services by key.
    pub services: BTreeMap<ObjectKey, Service>,
    /// Pods, findable by label.
    pub pods: Pods,
    /// What matters of each Node, by name.
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Slices that say what Pods say, by Service.
    pub slices: Slices,
    /// Slices that mirror Endpoints, by Service.
    pub mirrored: Slices,
    /// Endpoints by key.
    pub endpoints: ByKey<Endpoints>,
    /// The CPUs of the zones, from the Nodes.
    pub zone_cpus: ZoneCpus,
    selectors: Selectors,
    interner: Interner,
}

impl World {
    /// A Service is new or changed; whether anything that matters to its slices did.
    pub fn apply_service(&mut self, mut service: Service) -> bool {
        let mut annotations = std::mem::take(&mut service.metadata.annotations);
        annotations.retain(|key, _| key == TOPOLOGY_MODE || key == TOPOLOGY_AWARE_HINTS);
        slim(&mut service.metadata);
        service.metadata.annotations = annotations;
        service.status = Default::default();
        let key = service.metadata.key();
        let selector_before = self.selectors.set(&key, &service.spec.selector);
        if selector_before.as_ref() != Some(&service.spec.selector) {
            self.select(&service.spec.selector);
            self.unselect(selector_before);
        }
        let before = self.services.insert(key.clone(), service);
        let (Some(before), Some(now)) = (before, self.services.get(&key)) else {
            return true;
        };
        before.spec != now.spec
            || before.metadata.labels != now.metadata.labels
            || before.metadata.annotations != now.metadata.annotations
            || before.metadata.uid != now.metadata.uid
            || before.metadata.deletion_timestamp != now.metadata.deletion_timestamp
    }

    /// A Service is gone.
    pub fn remove_service(&mut self, key: &ObjectKey) {
        self.services.remove(key);
        let selector = self.selectors.remove(key);
        self.unselect(selector);
    }

    /// A Pod is new or changed; the Services that chose it before or choose it now, if a change
    /// concerns them (EPS-24).
    pub fn apply_pod(&mut self, pod: &Pod) -> Vec<ObjectKey> {
        let pod = PodFacts::of(pod, &mut self.interner);
        let key = pod.key();
        let after = self.selectors.matching(&pod.namespace, &pod.labels);
        let Some(before) = self.pods.insert(pod) else {
            return after;
        };
        let now = self.pods.get(&key);
        if now.is_some_and(|now| before.is_same_endpoint(now)) {
            return Vec::new();
        }
        let mut concerned = self.selectors.matching(&before.namespace, &before.labels);
        concerned.extend(after);
        concerned
    }

    /// A Pod is gone; the Services that chose it.
    pub fn remove_pod(&mut self, key: &ObjectKey) -> Vec<ObjectKey> {
        let Some(before) = self.pods.remove(key) else {
            return Vec::new();
        };
        self.selectors.matching(&before.namespace, &before.labels)
    }

    /// A Node is new or changed; the Services with Pods on it, if its zone changed or it is new, and
    /// those that care for the CPUs of zones, if these changed.
    pub fn apply_node(&mut self, node: &Node) -> Vec<ObjectKey> {
        let name = &node.metadata.name;
        let facts = NodeFacts::of(node);
        let before = self.nodes.insert(name.clone(), facts.clone());
        if before.as_ref() == Some(&facts) {
            return Vec::new();
        }
        let mut concerned = self.update_zone_cpus();
        if before.is_none_or(|before| before.zone != facts.zone) {
            concerned.extend(self.services_on(name));
        }
        concerned
    }

    /// A Node is gone; the Services that this concerns.
    pub fn remove_node(&mut self, name: &str) -> Vec<ObjectKey> {
        if self.nodes.remove(name).is_none() {
            return Vec::new();
        }
        let mut concerned = self.update_zone_cpus();
        concerned.extend(self.services_on(name));
        concerned
    }

    /// The Pods that a selector chooses in a namespace.
    pub fn pods_of(&self, namespace: &str, selector: &Labels) -> Vec<&PodFacts> {
        self.pods.matching(namespace, selector)
    }

    /// Counts the zones' CPUs anew; the Services that share out endpoints by them, if they changed.
    fn update_zone_cpus(&mut self) -> Vec<ObjectKey> {
        let cpus = nodes::zone_cpus(&self.nodes);
        if self.zone_cpus == cpus {
            return Vec::new();
        }
        self.zone_cpus = cpus;
        let auto = self.services.iter().filter(|(_, service)| is_auto(service));
        auto.map(|(key, _)| key.clone()).collect()
    }

    fn services_on(&self, node: &str) -> Vec<ObjectKey> {
        let pods = self.pods.iter().filter(|pod| *pod.node_name == *node);
        pods.flat_map(|pod| self.selectors.matching(&pod.namespace, &pod.labels))
            .collect()
    }

    /// Pods are to be found by the keys of a selector.
    fn select(&mut self, selector: &Labels) {
        for key in selector.keys() {
            let key = self.interner.text(key);
            self.pods.select(&key);
        }
    }

    fn unselect(&mut self, selector: Option<Labels>) {
        for key in selector.iter().flat_map(Labels::keys) {
            let key = self.interner.text(key);
            self.pods.unselect(&key);
        }
    }
}

/// Drops what no controller reads: annotations, owners and finalizers of cached objects.
fn slim(metadata: &mut api::object::ObjectMeta) {
    metadata.annotations.clear();
    metadata.owner_references.clear();
    metadata.finalizers.clear();
}

#[cfg(test)]
mod tests;
