//! Which addresses are to be answered for, and which nodes may: from Services, EndpointSlices and Nodes.
//!
//! Addresses are those that the balancer has assigned; what a cloud's controller has assigned is not announced. With
//! `externalTrafficPolicy: Local` nodes with ready endpoints may answer, or, if there are none, those whose endpoints
//! still serve while they end (KEP-1669); with `Cluster` all may, also without any endpoint: then clients are refused
//! at once instead of looking for the address in vain. Annotations may name the nodes (LBC-13).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{Condition, EndpointSlice, Labels, Node, ObjectKey, SERVICE_NAME_LABEL, Service};
use api::selector::LabelSelector;

use super::NodeName;
use super::core::Candidates;
use crate::annotations;
use crate::core::{CONDITION, IngressMode, takes_traffic};

#[cfg(test)]
mod tests;

/// Everything that decides about addresses.
#[derive(Debug, Default)]
pub struct Demand {
    services: HashMap<ObjectKey, Announced>,
    /// The Services of an address: several may share one.
    holders: BTreeMap<IpAddr, BTreeSet<ObjectKey>>,
    slices: HashMap<ObjectKey, HashMap<ObjectKey, Ready>>,
    /// The Service of a slice.
    slice_owners: HashMap<ObjectKey, ObjectKey>,
    /// The nodes that take traffic.
    nodes: BTreeMap<NodeName, Host>,
    all: Arc<Candidates>,
}

/// A Service with addresses.
#[derive(Debug, PartialEq, Eq)]
struct Announced {
    uid: String,
    addresses: BTreeSet<IpAddr>,
    is_local: bool,
    /// Whether the edge takes its traffic.
    needs_edge: bool,
    /// What all nodes that take its traffic match (LBC-13).
    nodes: Vec<LabelSelector>,
}

/// A node that takes traffic.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    is_cordoned: bool,
    labels: Labels,
}

/// The nodes of a slice's endpoints.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ready {
    ready: BTreeSet<NodeName>,
    serving: BTreeSet<NodeName>,
}

impl Demand {
    /// A Service is there; the addresses that are concerned.
    pub fn service_applied(&mut self, service: &Service) -> BTreeSet<IpAddr> {
        let key = service.metadata.key();
        let addresses = assigned(service);
        if addresses.is_empty() {
            return self.service_deleted(&key);
        }
        let announced = Announced {
            uid: service.metadata.uid.clone(),
            addresses,
            is_local: service.spec.external_traffic_policy == "Local",
            needs_edge: needs_edge(service),
            nodes: annotations::read(service).nodes,
        };
        if self.services.get(&key) == Some(&announced) {
            return BTreeSet::new();
        }
        let mut touched = self.service_deleted(&key);
        touched.extend(&announced.addresses);
        for address in &announced.addresses {
            self.holders.entry(*address).or_default().insert(key.clone());
        }
        self.services.insert(key, announced);
        touched
    }

    /// A Service is gone; the addresses that are concerned.
    pub fn service_deleted(&mut self, key: &ObjectKey) -> BTreeSet<IpAddr> {
        let addresses = self.services.remove(key).map(|service| service.addresses);
        let addresses = addresses.unwrap_or_default();
        for address in &addresses {
            if let Some(holders) = self.holders.get_mut(address) {
                holders.remove(key);
                if holders.is_empty() {
                    self.holders.remove(address);
                }
            }
        }
        addresses
    }

    /// A slice is there; the addresses that are concerned.
    pub fn slice_applied(&mut self, slice: &EndpointSlice) -> BTreeSet<IpAddr> {
        let key = slice.metadata.key();
        let Some(name) = slice.metadata.labels.get(SERVICE_NAME_LABEL) else {
            return self.slice_deleted(&key);
        };
        let owner = ObjectKey::new(&slice.metadata.namespace, name);
        let mut ready = Ready::default();
        for endpoint in &slice.endpoints {
            let Some(node) = &endpoint.node_name else { continue };
            let conditions = &endpoint.conditions;
            if conditions.ready != Some(false) {
                ready.ready.insert(Arc::clone(node));
            }
            if conditions.serving.or(conditions.ready) != Some(false) {
                ready.serving.insert(Arc::clone(node));
            }
        }
        let mut touched = BTreeSet::new();
        if self.slice_owners.get(&key).is_some_and(|before| *before != owner) {
            touched = self.slice_deleted(&key);
        }
        self.slice_owners.insert(key.clone(), owner.clone());
        let slices = self.slices.entry(owner.clone()).or_default();
        if slices.get(&key) != Some(&ready) {
            slices.insert(key, ready);
            touched.extend(self.local_addresses(&owner));
        }
        touched
    }

    /// A slice is gone; the addresses that are concerned.
    pub fn slice_deleted(&mut self, key: &ObjectKey) -> BTreeSet<IpAddr> {
        let Some(owner) = self.slice_owners.remove(key) else {
            return BTreeSet::new();
        };
        if let Some(slices) = self.slices.get_mut(&owner) {
            slices.remove(key);
            if slices.is_empty() {
                self.slices.remove(&owner);
            }
        }
        self.local_addresses(&owner)
    }

    /// A Node is there; the addresses that are concerned.
    pub fn node_applied(&mut self, node: &Node) -> BTreeSet<IpAddr> {
        let name = NodeName::from(node.metadata.name.as_str());
        if !takes_traffic(node) {
            return self.node_deleted(&name);
        }
        let host = Host {
            is_cordoned: node.spec.unschedulable,
            labels: node.metadata.labels.clone(),
        };
        let is_cordoned = host.is_cordoned;
        match self.nodes.insert(name, host) {
            Some(before) if before.is_cordoned == is_cordoned => self.chosen_by_labels(),
            _ => self.nodes_changed(true),
        }
    }

    /// A Node is gone; the addresses that are concerned.
    pub fn node_deleted(&mut self, name: &str) -> BTreeSet<IpAddr> {
        let is_changed = self.nodes.remove(name).is_some();
        self.nodes_changed(is_changed)
    }

    /// Who may answer for an address; `None` if no Service has it.
    pub fn candidates(&self, address: IpAddr) -> Option<Arc<Candidates>> {
        let holders = self.holders.get(&address)?;
        let services = holders
            .iter()
            .filter_map(|key| Some((key, self.services.get(key)?)));
        // Services that share an address with policy Local have the same endpoints.
        let mut able: Option<BTreeSet<NodeName>> = None;
        let mut narrow = |of_one: BTreeSet<NodeName>| match &mut able {
            None => able = Some(of_one),
            Some(able) => able.retain(|name| of_one.contains(name)),
        };
        for (key, service) in services {
            if service.is_local {
                narrow(self.nodes_of(key));
            }
            for selector in &service.nodes {
                narrow(self.nodes_with(selector));
            }
        }
        let Some(able) = able else {
            return Some(Arc::clone(&self.all));
        };
        let keep = |names: &BTreeSet<NodeName>| names.intersection(&able).cloned().collect();
        Some(Arc::new(Candidates {
            preferred: keep(&self.all.preferred),
            otherwise: keep(&self.all.otherwise),
        }))
    }

    /// Whether the edge takes the traffic of an address, or some of it.
    pub fn needs_edge(&self, address: IpAddr) -> bool {
        let mut holders = self.holders.get(&address).into_iter().flatten();
        holders.any(|key| self.services.get(key).is_some_and(|service| service.needs_edge))
    }

    /// The Services that have an address, with their UIDs.
    pub fn services_of(&self, address: IpAddr) -> impl Iterator<Item = (&ObjectKey, &str)> {
        let holders = self.holders.get(&address).into_iter().flatten();
        holders.filter_map(|key| self.services.get(key).map(|service| (key, service.uid.as_str())))
    }

    /// All addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.holders.keys().copied()
    }

    /// The nodes whose endpoints of a Service take traffic.
    fn nodes_of(&self, service: &ObjectKey) -> BTreeSet<NodeName> {
        let slices = || {
            self.slices
                .get(service)
                .into_iter()
                .flatten()
                .map(|(_, nodes)| nodes)
        };
        let ready: BTreeSet<NodeName> = slices().flat_map(|nodes| &nodes.ready).cloned().collect();
        if ready.is_empty() {
            return slices().flat_map(|nodes| &nodes.serving).cloned().collect();
        }
        ready
    }

    /// The nodes whose labels match.
    fn nodes_with(&self, selector: &LabelSelector) -> BTreeSet<NodeName> {
        let matching = self
            .nodes
            .iter()
            .filter(|(_, host)| selector.matches(|key| host.labels.get(key).map(String::as_str)));
        matching.map(|(name, _)| NodeName::clone(name)).collect()
    }

    /// The addresses of Services that name nodes by their labels.
    fn chosen_by_labels(&self) -> BTreeSet<IpAddr> {
        let choosing = self.services.values().filter(|service| !service.nodes.is_empty());
        choosing.flat_map(|service| &service.addresses).copied().collect()
    }

    fn local_addresses(&self, service: &ObjectKey) -> BTreeSet<IpAddr> {
        let service = self.services.get(service).filter(|service| service.is_local);
        service
            .map(|service| service.addresses.clone())
            .unwrap_or_default()
    }

    fn nodes_changed(&mut self, is_changed: bool) -> BTreeSet<IpAddr> {
        if !is_changed {
            return BTreeSet::new();
        }
        let of = |is_cordoned: bool| {
            let nodes = self
                .nodes
                .iter()
                .filter(|(_, host)| host.is_cordoned == is_cordoned);
            nodes.map(|(name, _)| NodeName::clone(name)).collect()
        };
        self.all = Arc::new(Candidates {
            preferred: of(false),
            otherwise: of(true),
        });
        self.addresses().collect()
    }
}

/// Whether the assigner left the Service to the edge.
fn needs_edge(service: &Service) -> bool {
    let mut ingress = service.status.load_balancer.ingress.iter();
    ingress.any(|ingress| IngressMode::of(ingress) == IngressMode::Proxy)
}

/// The addresses that the balancer has assigned.
fn assigned(service: &Service) -> BTreeSet<IpAddr> {
    let is_ours = |condition: &Condition| condition.kind == CONDITION && condition.status == "True";
    let is_served = service.spec.kind == "LoadBalancer" && service.status.conditions.iter().any(is_ours);
    if !is_served || service.metadata.deletion_timestamp.is_some() {
        return BTreeSet::new();
    }
    let ingress = service.status.load_balancer.ingress.iter();
    ingress.filter_map(|ingress| ingress.ip.parse().ok()).collect()
}
