//! Services with egress, the Pods of their EndpointSlices, and Nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use api::object::{EndpointSlice, Node, ObjectKey, SERVICE_NAME_LABEL, Service};
use balancer::annotations;
use ipnet::IpNet;

use crate::NodeName;
use crate::desired_announcements::assigned;
use crate::desired_announcements::withheld::addresses_of;

#[cfg(test)]
mod tests;

/// Objects that decide about egress.
#[derive(Debug, Default)]
pub(crate) struct EgressObjects {
    services: BTreeMap<ObjectKey, EgressService>,
    slices: HashMap<ObjectKey, PodAddresses>,
    slices_of_services: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    nodes: BTreeMap<NodeName, EgressNode>,
    is_changed: bool,
}

/// Service with the annotation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EgressService {
    pub(crate) uid: String,
    /// Assigned load balancer IPs; none before the assignment.
    pub(crate) addresses: BTreeSet<IpAddr>,
}

/// Address of a Pod.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EgressPod {
    pub(crate) address: IpAddr,
    /// Node of the Pod; `None` if the EndpointSlice does not name it.
    pub(crate) node: Option<NodeName>,
}

/// Addresses of the Pods in an EndpointSlice.
#[derive(Debug, PartialEq, Eq)]
struct PodAddresses {
    service: ObjectKey,
    pods: Vec<EgressPod>,
}

/// Node, as far as egress needs it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EgressNode {
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// `spec.podCIDRs`.
    pub(crate) pod_ranges: Vec<IpNet>,
}

impl EgressObjects {
    /// Returns true if an object has changed since the last call, in a way that matters.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Returns the Services with egress.
    pub(crate) fn services(&self) -> impl Iterator<Item = (&ObjectKey, &EgressService)> {
        self.services.iter()
    }

    /// Returns a Service with egress.
    pub(crate) fn service(&self, key: &ObjectKey) -> Option<&EgressService> {
        self.services.get(key)
    }

    /// Returns the addresses of the Pods of a Service. The order is the same on all nodes with the same objects.
    pub(crate) fn pods_of(&self, service: &ObjectKey) -> impl Iterator<Item = &EgressPod> {
        let slices = self.slices_of_services.get(service).into_iter().flatten();
        let slices = slices.filter_map(|slice| self.slices.get(slice));
        slices.flat_map(|slice| &slice.pods)
    }

    /// Returns the Nodes.
    pub(crate) fn nodes(&self) -> &BTreeMap<NodeName, EgressNode> {
        &self.nodes
    }

    /// Adds or replaces a Service.
    pub(crate) fn apply_service(&mut self, service: &Service) {
        let key = service.metadata.key();
        let has_egress = service.spec.kind == "LoadBalancer"
            && service.metadata.deletion_timestamp.is_none()
            && annotations::read(service).is_egress;
        if !has_egress {
            return self.remove_service(&key);
        }
        let service = EgressService {
            uid: service.metadata.uid.clone(),
            addresses: assigned(service),
        };
        if self.services.get(&key) != Some(&service) {
            self.services.insert(key, service);
            self.is_changed = true;
        }
    }

    /// Removes a Service.
    pub(crate) fn remove_service(&mut self, key: &ObjectKey) {
        self.is_changed |= self.services.remove(key).is_some();
    }

    /// Adds or replaces an EndpointSlice.
    pub(crate) fn apply_slice(&mut self, slice: &EndpointSlice) {
        let key = slice.metadata.key();
        let Some(name) = slice.metadata.labels.get(SERVICE_NAME_LABEL) else {
            return self.remove_slice(&key);
        };
        let pods = PodAddresses {
            service: ObjectKey::new(&slice.metadata.namespace, name),
            pods: pods_in(slice),
        };
        if self.slices.get(&key) == Some(&pods) {
            return;
        }
        self.remove_slice(&key);
        self.is_changed |= self.services.contains_key(&pods.service);
        let slices = self.slices_of_services.entry(pods.service.clone()).or_default();
        slices.insert(key.clone());
        self.slices.insert(key, pods);
    }

    /// Removes an EndpointSlice.
    pub(crate) fn remove_slice(&mut self, key: &ObjectKey) {
        let Some(before) = self.slices.remove(key) else {
            return;
        };
        if let Some(slices) = self.slices_of_services.get_mut(&before.service) {
            slices.remove(key);
            if slices.is_empty() {
                self.slices_of_services.remove(&before.service);
            }
        }
        self.is_changed |= self.services.contains_key(&before.service);
    }

    /// Adds or replaces a Node.
    pub(crate) fn apply_node(&mut self, node: &Node) {
        let name = NodeName::from(node.metadata.name.as_str());
        let ranges = node.spec.pod_cidrs.iter().chain([&node.spec.pod_cidr]);
        let mut pod_ranges: Vec<IpNet> = ranges
            .filter_map(|range| range.parse::<IpNet>().ok())
            .map(|range| range.trunc())
            .collect();
        pod_ranges.sort_unstable();
        pod_ranges.dedup();
        let node = EgressNode {
            addresses: addresses_of(node),
            pod_ranges,
        };
        if self.nodes.get(&name) != Some(&node) {
            self.nodes.insert(name, node);
            self.is_changed = true;
        }
    }

    /// Removes a Node.
    pub(crate) fn remove_node(&mut self, name: &str) {
        self.is_changed |= self.nodes.remove(name).is_some();
    }
}

/// Returns the addresses of endpoints that are Pods of the slice's namespace, ready or not.
fn pods_in(slice: &EndpointSlice) -> Vec<EgressPod> {
    let pods = slice.endpoints.iter().filter(|endpoint| {
        let target = endpoint.target_ref.as_ref();
        target.is_some_and(|target| &*target.kind == "Pod" && *target.namespace == *slice.metadata.namespace)
    });
    let addresses =
        pods.flat_map(|endpoint| endpoint.addresses.iter().map(move |address| (endpoint, address)));
    addresses
        .filter_map(|(endpoint, address)| {
            Some(EgressPod {
                address: address.parse().ok()?,
                node: endpoint.node_name.clone(),
            })
        })
        .collect()
}
