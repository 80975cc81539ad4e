//! The caches: what the controllers know, indexed by how they ask for it.

mod endpoints;
mod pods;
mod selectors;
mod slices;

use std::collections::HashMap;

use api::object::{Labels, Node, ObjectKey, Pod, Service};

pub use endpoints::EndpointsByKey;
pub use pods::Pods;
pub use selectors::Selectors;
pub use slices::Slices;

/// Everything the controllers know. Methods that take a change return the Services it concerns.
#[derive(Default)]
pub struct World {
    /// Services by key.
    pub services: HashMap<ObjectKey, Service>,
    /// Pods, findable by label.
    pub pods: Pods,
    /// What matters of each Node, by name.
    pub nodes: HashMap<String, NodeFacts>,
    /// Slices that say what Pods say, by Service.
    pub slices: Slices,
    /// Slices that mirror Endpoints, by Service.
    pub mirrored: Slices,
    /// Endpoints by key.
    pub endpoints: EndpointsByKey,
    selectors: Selectors,
}

/// What the controllers need of a Node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Its zone, if it has one.
    pub zone: Option<String>,
    /// Whether new Pods may be put on it: ready, not cordoned, without taints that keep Pods away.
    pub accepts_pods: bool,
}

impl World {
    /// A Service is new or changed; whether anything that matters to its slices did.
    pub fn apply_service(&mut self, mut service: Service) -> bool {
        slim(&mut service.metadata);
        service.status = Default::default();
        let key = service.metadata.key();
        self.selectors.set(&key, &service.spec.selector);
        let before = self.services.insert(key.clone(), service);
        let (Some(before), Some(now)) = (before, self.services.get(&key)) else {
            return true;
        };
        before.spec != now.spec
            || before.metadata.labels != now.metadata.labels
            || before.metadata.uid != now.metadata.uid
            || before.metadata.deletion_timestamp != now.metadata.deletion_timestamp
    }

    /// A Service is gone.
    pub fn remove_service(&mut self, key: &ObjectKey) {
        self.services.remove(key);
        self.selectors.remove(key);
    }

    /// A Pod is new or changed; the Services that chose it before or choose it now, if a change
    /// concerns them (EPS-24).
    pub fn apply_pod(&mut self, mut pod: Pod) -> Vec<ObjectKey> {
        slim(&mut pod.metadata);
        let key = pod.metadata.key();
        let after = self.selectors.matching(&key.namespace, &pod.metadata.labels);
        let Some(before) = self.pods.insert(pod) else {
            return after;
        };
        let unchanged = self
            .pods
            .get(&key)
            .is_some_and(|now| same_for_endpoints(&before, now));
        if unchanged {
            return Vec::new();
        }
        let mut concerned = self.selectors.matching(&key.namespace, &before.metadata.labels);
        concerned.extend(after);
        concerned
    }

    /// A Pod is gone; the Services that chose it.
    pub fn remove_pod(&mut self, key: &ObjectKey) -> Vec<ObjectKey> {
        let Some(before) = self.pods.remove(key) else {
            return Vec::new();
        };
        self.selectors.matching(&key.namespace, &before.metadata.labels)
    }

    /// A Node is new or changed; the Services with Pods on it, if its zone changed or it is new.
    pub fn apply_node(&mut self, node: &Node) -> Vec<ObjectKey> {
        let keeps_away = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
        let facts = NodeFacts {
            zone: node.zone().map(str::to_owned),
            accepts_pods: node.is_ready()
                && !node.spec.unschedulable
                && !node.spec.taints.iter().any(|taint| keeps_away(&taint.effect)),
        };
        let name = &node.metadata.name;
        let before = self.nodes.insert(name.clone(), facts);
        let same_zone = before.as_ref().map(|b| &b.zone) == self.nodes.get(name).map(|n| &n.zone);
        if before.is_some() && same_zone {
            Vec::new()
        } else {
            self.services_on(name)
        }
    }

    /// A Node is gone; the Services with Pods on it.
    pub fn remove_node(&mut self, name: &str) -> Vec<ObjectKey> {
        match self.nodes.remove(name) {
            Some(_) => self.services_on(name),
            None => Vec::new(),
        }
    }

    /// The Pods that a selector chooses in a namespace.
    pub fn pods_of(&self, namespace: &str, selector: &Labels) -> Vec<&Pod> {
        self.pods.matching(namespace, selector)
    }

    fn services_on(&self, node: &str) -> Vec<ObjectKey> {
        let pods = self.pods.iter().filter(|pod| pod.spec.node_name == node);
        pods.flat_map(|pod| {
            self.selectors
                .matching(&pod.metadata.namespace, &pod.metadata.labels)
        })
        .collect()
    }
}

/// Drops what no controller reads: annotations, owners and finalizers of cached objects.
fn slim(metadata: &mut api::object::ObjectMeta) {
    metadata.annotations.clear();
    metadata.owner_references.clear();
    metadata.finalizers.clear();
}

fn same_for_endpoints(a: &Pod, b: &Pod) -> bool {
    a.metadata.labels == b.metadata.labels
        && a.metadata.uid == b.metadata.uid
        && a.metadata.deletion_timestamp == b.metadata.deletion_timestamp
        && a.spec == b.spec
        && a.status == b.status
}

#[cfg(test)]
mod tests;
