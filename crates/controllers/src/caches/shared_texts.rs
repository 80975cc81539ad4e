//! Values that the cached Pods share with the slices and Endpoints that name them.
//!
//! A response and an event are decoded with values of their own. Most memory of a cached endpoint are the values of its
//! Pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::object::{EndpointSlice, Endpoints, ObjectKey, TargetRef};

use super::pods::{PodFacts, Pods};

impl PodFacts {
    /// Replaces equal values by those of an earlier state of the Pod.
    pub(super) fn share_with(&mut self, before: &Self) {
        if self.target != before.target {
            return;
        }
        self.target = Arc::clone(&before.target);
        for address in &mut self.addresses {
            before.share_address(address);
        }
    }

    fn share_address(&self, address: &mut Arc<str>) {
        if let Some(same) = self.addresses.iter().find(|own| **own == *address) {
            *address = Arc::clone(same);
        }
    }

    fn share_node(&self, node: &mut Option<Arc<str>>) {
        if let Some(node) = node.as_mut().filter(|node| **node == self.node_name) {
            *node = Arc::clone(&self.node_name);
        }
    }
}

impl Pods {
    /// Replaces values of a slice by those of the cached Pods, and frees the unused capacity of its lists. Endpoints of
    /// one zone share its name.
    pub(crate) fn share_with_slice(&self, slice: &mut EndpointSlice) {
        let mut zones = BTreeSet::new();
        slice.endpoints.shrink_to_fit();
        for endpoint in &mut slice.endpoints {
            endpoint.addresses.shrink_to_fit();
            if let Some(zone) = &mut endpoint.zone {
                share_equal(&mut zones, zone);
            }
            let target = endpoint.target_ref.as_mut();
            let Some(pod) = target.and_then(|target| self.share_with_target(target)) else {
                continue;
            };
            pod.share_node(&mut endpoint.node_name);
            for address in &mut endpoint.addresses {
                pod.share_address(address);
            }
        }
    }

    /// Replaces values of Endpoints by those of the cached Pods, and frees the unused capacity of their lists.
    pub(crate) fn share_with_endpoints(&self, endpoints: &mut Endpoints) {
        for subset in &mut endpoints.subsets {
            subset.addresses.shrink_to_fit();
            subset.not_ready_addresses.shrink_to_fit();
            let all = subset.addresses.iter_mut().chain(&mut subset.not_ready_addresses);
            for address in all {
                let target = address.target_ref.as_mut();
                if let Some(pod) = target.and_then(|target| self.share_with_target(target)) {
                    pod.share_node(&mut address.node_name);
                    pod.share_address(&mut address.ip);
                }
            }
        }
    }

    /// Replaces a reference to a cached Pod by the one of the Pod, and returns the Pod.
    fn share_with_target(&self, target: &mut Arc<TargetRef>) -> Option<&PodFacts> {
        let pod = self.get(&ObjectKey::new(&target.namespace, &target.name))?;
        if *target != pod.target {
            return None;
        }
        *target = Arc::clone(&pod.target);
        Some(pod)
    }
}

/// Replaces a text by an equal one of the set, or adds it.
fn share_equal(known: &mut BTreeSet<Arc<str>>, text: &mut Arc<str>) {
    match known.get(&**text) {
        Some(same) => *text = Arc::clone(same),
        None => _ = known.insert(Arc::clone(text)),
    }
}

#[cfg(test)]
mod tests;
