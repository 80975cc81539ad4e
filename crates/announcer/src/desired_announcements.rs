//! Which addresses are to be answered for, and which nodes may: from Services, EndpointSlices, Nodes and AddressPools.
//!
//! Addresses are those that lie in an AddressPool and that the assigner has recorded in the Service's status; what a cloud's
//! controller has assigned is not announced. Portolan's API server lets only users with the right to write
//! `addresspools/status` record them. Some are withheld nevertheless ([`withheld`]). With
//! `externalTrafficPolicy: Local` nodes with ready endpoints may answer, or, if there are none, those whose endpoints
//! still serve while they end (KEP-1669); with `Cluster` all may, also without any endpoint: then clients are refused
//! at once instead of looking for the address in vain. Annotations (LBC-13) and the address's pools may name the nodes; pools
//! may name links too. All of it holds together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::address_pool::{AddressBlock, LinkPattern};
use api::object::{
    AddressPool, Condition, EndpointSlice, Labels, Node, ObjectKey, SERVICE_NAME_LABEL, Service,
};
use api::selector::LabelSelector;

use crate::NodeName;
use crate::election::Candidates;
use crate::election::capabilities::{LinksId, Needs};
use crate::l2::links::AddressLinks;
use balancer::annotations;
use balancer::core::{CONDITION, IngressMode, takes_traffic};
use balancer::pools::{Placement, Placements};

pub mod withheld;

use withheld::{Foreign, Withheld};

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
    /// What pools say of nodes and links.
    placements: Placements,
    /// The addresses that belong to machines.
    foreign: Foreign,
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
        let changed = self.foreign.set_node(&name, withheld::addresses_of(node));
        let mut touched = self.announced_among(changed);
        touched.extend(self.host_applied(name, node));
        touched
    }

    fn host_applied(&mut self, name: NodeName, node: &Node) -> BTreeSet<IpAddr> {
        if !takes_traffic(node) {
            return self.host_deleted(&name);
        }
        let host = Host {
            is_cordoned: node.spec.unschedulable,
            labels: node.metadata.labels.clone(),
        };
        let before = self.nodes.get(&name);
        let is_as_before = before == Some(&host);
        let is_cordoned_as_before = before.is_some_and(|before| before.is_cordoned == host.is_cordoned);
        if is_as_before {
            return BTreeSet::new();
        }
        self.nodes.insert(name, host);
        match is_cordoned_as_before {
            true => self.chosen_by_labels(),
            false => self.nodes_changed(true),
        }
    }

    /// A Node is gone; the addresses that are concerned.
    pub fn node_deleted(&mut self, name: &str) -> BTreeSet<IpAddr> {
        let changed = self.foreign.set_node(name, BTreeSet::new());
        let mut touched = self.announced_among(changed);
        touched.extend(self.host_deleted(name));
        touched
    }

    fn host_deleted(&mut self, name: &str) -> BTreeSet<IpAddr> {
        let is_changed = self.nodes.remove(name).is_some();
        self.nodes_changed(is_changed)
    }

    /// The addresses of this machine's links and its gateways are these; the addresses that are concerned.
    pub fn own_applied(&mut self, own: BTreeSet<IpAddr>, gateways: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        let changed = self.foreign.set_own(own, gateways);
        self.announced_among(changed)
    }

    /// The reason why an address is not announced although the assigner recorded it; `None` if it is.
    pub fn withheld(&self, address: IpAddr) -> Option<Withheld> {
        match self.placements.have(address) {
            true => self.foreign.reason(address),
            false => Some(Withheld::NoPool),
        }
    }

    /// A pool is there; the addresses that are concerned, nothing if its addresses, nodes and links are those of before.
    pub fn pool_applied(&mut self, pool: &AddressPool) -> Option<BTreeSet<IpAddr>> {
        let placement = Placement::read(pool).map_err(|error| {
            tracing::error!(%error, "addresses of the pool are not announced until it is changed");
        });
        let concerned = self.placements.set(&pool.metadata.name, placement.ok());
        (!concerned.is_empty()).then(|| self.in_blocks(&concerned))
    }

    /// A pool is gone; the addresses that are concerned, nothing if it was not known.
    pub fn pool_deleted(&mut self, name: &str) -> Option<BTreeSet<IpAddr>> {
        let concerned = self.placements.set(name, None);
        (!concerned.is_empty()).then(|| self.in_blocks(&concerned))
    }

    /// The links that an address is announced on.
    pub fn links(&self, address: IpAddr) -> AddressLinks {
        AddressLinks::of(self.placements.of(address).map(Placement::links))
    }

    /// All links that pools name.
    pub fn named_links(&self) -> Vec<LinkPattern> {
        self.placements.links().cloned().collect()
    }

    /// The links that pools name for addresses that there are.
    pub fn needed_links(&self) -> BTreeMap<LinksId, AddressLinks> {
        if self.placements.links().next().is_none() {
            return BTreeMap::new();
        }
        let links = self.addresses().map(|address| self.links(address));
        links.filter_map(|links| Some((links.id()?, links))).collect()
    }

    /// Who may answer for an address; `None` if no Service has it, or if it is withheld.
    pub fn candidates(&self, address: IpAddr) -> Option<Arc<Candidates>> {
        let holders = self.holders.get(&address)?;
        if self.withheld(address).is_some() {
            return None;
        }
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
                narrow(self.nodes_with(|labels| selector.matches(|key| labels.get(key).map(String::as_str))));
            }
        }
        for placement in self
            .placements
            .of(address)
            .filter(|placement| placement.names_nodes())
        {
            narrow(self.nodes_with(|labels| placement.is_for_node(labels)));
        }
        let needs = Needs {
            edge: self.needs_edge(address),
            links: self.links(address).id(),
        };
        if able.is_none() && needs.are_none() {
            return Some(Arc::clone(&self.all));
        }
        let keep = |names: &BTreeSet<NodeName>| match &able {
            Some(able) => names.intersection(able).cloned().collect(),
            None => names.clone(),
        };
        Some(Arc::new(Candidates {
            preferred: keep(&self.all.preferred),
            otherwise: keep(&self.all.otherwise),
            needs,
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

    /// The nodes that take traffic and are not cordoned.
    pub fn uncordoned(&self) -> &BTreeSet<NodeName> {
        &self.all.preferred
    }

    /// All addresses that the assigner recorded.
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

    /// The nodes with such labels.
    fn nodes_with(&self, is_meant: impl Fn(&Labels) -> bool) -> BTreeSet<NodeName> {
        let matching = self.nodes.iter().filter(|(_, host)| is_meant(&host.labels));
        matching.map(|(name, _)| NodeName::clone(name)).collect()
    }

    /// The addresses whose Services or pools name nodes by their labels.
    fn chosen_by_labels(&self) -> BTreeSet<IpAddr> {
        let choosing = self.services.values().filter(|service| !service.nodes.is_empty());
        let by_services = choosing.flat_map(|service| &service.addresses).copied();
        let by_pools = self
            .addresses()
            .filter(|address| self.placements.of(*address).any(Placement::names_nodes));
        by_services.chain(by_pools).collect()
    }

    /// Those of some addresses that Services have.
    fn announced_among(&self, addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        let mut addresses = addresses;
        addresses.retain(|address| self.holders.contains_key(address));
        addresses
    }

    fn in_blocks(&self, blocks: &[AddressBlock]) -> BTreeSet<IpAddr> {
        self.addresses()
            .filter(|address| blocks.iter().any(|block| block.contains(*address)))
            .collect()
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
            needs: Needs::default(),
        });
        self.addresses().collect()
    }
}

/// Whether the assigner left the Service to the edge.
fn needs_edge(service: &Service) -> bool {
    let mut ingress = service.status.load_balancer.ingress.iter();
    ingress.any(|ingress| IngressMode::of(ingress) == IngressMode::Proxy)
}

/// The addresses that the assigner has recorded.
fn assigned(service: &Service) -> BTreeSet<IpAddr> {
    let is_ours = |condition: &Condition| condition.kind == CONDITION && condition.status == "True";
    let is_served = service.spec.kind == "LoadBalancer" && service.status.conditions.iter().any(is_ours);
    if !is_served || service.metadata.deletion_timestamp.is_some() {
        return BTreeSet::new();
    }
    let ingress = service.status.load_balancer.ingress.iter();
    ingress.filter_map(|ingress| ingress.ip.parse().ok()).collect()
}
