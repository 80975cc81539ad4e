//! Desired announcements: addresses and their candidates, from Services, EndpointSlices, Nodes and AddressPools.
//!
//! An address is desired if it is in an AddressPool and the assigner has recorded it in the Service's status.
//! Addresses of cloud controllers are not announced. Portolan's API server lets only users with the right to
//! write `addresspools/status` record them. Some addresses are [`withheld`].
//!
//! With `externalTrafficPolicy: Local`, nodes with ready endpoints are candidates, or, without any, nodes
//! whose endpoints still serve while they terminate (KEP-1669). With `Cluster` all nodes are candidates, even
//! without endpoints: a client gets a reset at once instead of an unanswered address resolution. Annotations
//! (LBC-13) and AddressPools restrict the nodes; pools also restrict the links. All restrictions apply
//! together.

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
use crate::election::capabilities::{LinkSetId, Requirements};
use crate::l2::links::AddressLinks;
use balancer::annotations;
use balancer::assigner::pools::{Placement, Placements};
use balancer::assigner::{ASSIGNED_CONDITION, IngressMode, NODE_ADDRESSES_REASON, takes_traffic};
use balancer::metallb::Configuration;
use balancer::two_tier;

pub(crate) mod withheld;

use withheld::{HostAddresses, Withheld};

#[cfg(test)]
mod tests;

/// Inputs of the decision about each address.
#[derive(Debug, Default)]
pub(crate) struct DesiredAnnouncements {
    services: HashMap<ObjectKey, AnnouncedService>,
    /// Services by address; several may share one.
    holders: BTreeMap<IpAddr, BTreeSet<ObjectKey>>,
    slices: HashMap<ObjectKey, HashMap<ObjectKey, EndpointNodes>>,
    /// Services by EndpointSlice.
    slice_owners: HashMap<ObjectKey, ObjectKey>,
    /// Nodes that accept external traffic.
    nodes: BTreeMap<NodeName, CandidateNode>,
    /// Nodes and links of AddressPools and IPAddressPools.
    placements: Placements,
    /// Names of AddressPools. An AddressPool takes the place of the IPAddressPool with its name.
    address_pools: BTreeSet<String>,
    /// MetalLB's objects.
    metallb: Arc<Configuration>,
    /// Accept nodes with the label that excludes them from load balancers (LBM-18).
    ignores_exclude_label: bool,
    /// Addresses of hosts and gateways.
    host_addresses: HostAddresses,
    /// Candidates of addresses without restrictions.
    unrestricted: Arc<Candidates>,
}

/// Service with assigned addresses.
#[derive(Debug, PartialEq, Eq)]
struct AnnouncedService {
    uid: String,
    addresses: BTreeSet<IpAddr>,
    is_local: bool,
    /// True if the edge serves the Service.
    needs_edge: bool,
    /// True if the Service requests two-tier forwarding of its connections.
    requests_two_tier: bool,
    /// Selectors that all candidates match (LBC-13).
    nodes: Vec<LabelSelector>,
    /// Labels, which L2Advertisements select.
    labels: Labels,
}

/// Node that accepts external traffic.
#[derive(Debug, PartialEq, Eq)]
struct CandidateNode {
    is_cordoned: bool,
    labels: Labels,
}

/// Nodes of the endpoints of a slice.
#[derive(Debug, Default, PartialEq, Eq)]
struct EndpointNodes {
    ready: BTreeSet<NodeName>,
    serving: BTreeSet<NodeName>,
}

impl DesiredAnnouncements {
    /// Creates an instance without objects.
    pub(crate) fn new(ignores_exclude_label: bool) -> Self {
        Self {
            ignores_exclude_label,
            ..Self::default()
        }
    }

    /// Processes an added or modified Service. Returns the affected addresses.
    pub(crate) fn apply_service(&mut self, service: &Service) -> BTreeSet<IpAddr> {
        let key = service.metadata.key();
        let addresses = assigned(service);
        if addresses.is_empty() {
            return self.remove_service(&key);
        }
        let announced = AnnouncedService {
            uid: service.metadata.uid.clone(),
            addresses,
            is_local: service.spec.external_traffic_policy == "Local",
            needs_edge: needs_edge(service),
            requests_two_tier: two_tier::requests(service),
            nodes: annotations::read(service).nodes,
            labels: service.metadata.labels.clone(),
        };
        if self.services.get(&key) == Some(&announced) {
            return BTreeSet::new();
        }
        let mut changed = self.remove_service(&key);
        changed.extend(&announced.addresses);
        for address in &announced.addresses {
            self.holders.entry(*address).or_default().insert(key.clone());
        }
        self.services.insert(key, announced);
        changed
    }

    /// Processes a deleted Service. Returns the affected addresses.
    pub(crate) fn remove_service(&mut self, key: &ObjectKey) -> BTreeSet<IpAddr> {
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

    /// Processes an added or modified EndpointSlice. Returns the affected addresses.
    pub(crate) fn apply_slice(&mut self, slice: &EndpointSlice) -> BTreeSet<IpAddr> {
        let key = slice.metadata.key();
        let Some(name) = slice.metadata.labels.get(SERVICE_NAME_LABEL) else {
            return self.remove_slice(&key);
        };
        let owner = ObjectKey::new(&slice.metadata.namespace, name);
        let mut ready = EndpointNodes::default();
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
        let mut changed = BTreeSet::new();
        if self.slice_owners.get(&key).is_some_and(|before| *before != owner) {
            changed = self.remove_slice(&key);
        }
        self.slice_owners.insert(key.clone(), owner.clone());
        let slices = self.slices.entry(owner.clone()).or_default();
        if slices.get(&key) != Some(&ready) {
            slices.insert(key, ready);
            changed.extend(self.local_addresses(&owner));
        }
        changed
    }

    /// Processes a deleted EndpointSlice. Returns the affected addresses.
    pub(crate) fn remove_slice(&mut self, key: &ObjectKey) -> BTreeSet<IpAddr> {
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

    /// Processes an added or modified Node. Returns the affected addresses.
    pub(crate) fn apply_node(&mut self, node: &Node) -> BTreeSet<IpAddr> {
        let name = NodeName::from(node.metadata.name.as_str());
        let updated = self.host_addresses.set_node(&name, withheld::addresses_of(node));
        let mut changed = self.recorded_among(updated);
        changed.extend(self.apply_candidate(name, node));
        changed
    }

    fn apply_candidate(&mut self, name: NodeName, node: &Node) -> BTreeSet<IpAddr> {
        if !takes_traffic(node, self.ignores_exclude_label) {
            return self.remove_candidate(&name);
        }
        let candidate = CandidateNode {
            is_cordoned: node.spec.unschedulable,
            labels: node.metadata.labels.clone(),
        };
        let before = self.nodes.get(&name);
        let is_as_before = before == Some(&candidate);
        let is_cordoned_as_before = before.is_some_and(|before| before.is_cordoned == candidate.is_cordoned);
        if is_as_before {
            return BTreeSet::new();
        }
        self.nodes.insert(name, candidate);
        if is_cordoned_as_before {
            self.addresses_with_node_selectors()
        } else {
            self.nodes_changed(true)
        }
    }

    /// Processes a deleted Node. Returns the affected addresses.
    pub(crate) fn remove_node(&mut self, name: &str) -> BTreeSet<IpAddr> {
        let updated = self.host_addresses.set_node(name, BTreeSet::new());
        let mut changed = self.recorded_among(updated);
        changed.extend(self.remove_candidate(name));
        changed
    }

    fn remove_candidate(&mut self, name: &str) -> BTreeSet<IpAddr> {
        let is_changed = self.nodes.remove(name).is_some();
        self.nodes_changed(is_changed)
    }

    /// Sets the addresses of this host's links and its gateways. Returns the affected addresses.
    pub(crate) fn set_host_addresses(
        &mut self,
        own: BTreeSet<IpAddr>,
        gateways: BTreeSet<IpAddr>,
    ) -> BTreeSet<IpAddr> {
        let changed = self.host_addresses.set_own(own, gateways);
        self.recorded_among(changed)
    }

    /// Returns the reason why a recorded address is not announced; `None` if it is.
    pub(crate) fn withheld(&self, address: IpAddr) -> Option<Withheld> {
        if !self.placements.contain(address) {
            return Some(Withheld::NoPool);
        }
        let mut announcing = self.placements.for_address(address);
        if announcing.next().is_none() {
            return Some(Withheld::NoAdvertisement);
        }
        self.host_addresses.reason(address)
    }

    /// Processes an added or modified AddressPool. Returns the affected addresses; `None` without a relevant change.
    pub(crate) fn apply_pool(&mut self, pool: &AddressPool) -> Option<BTreeSet<IpAddr>> {
        self.address_pools.insert(pool.metadata.name.clone());
        let placement = Placement::parse(pool).map_err(|error| {
            tracing::error!(%error, "AddressPool ignored; its addresses are not announced until it is corrected");
        });
        let affected = self.placements.set(&pool.metadata.name, placement.ok());
        (!affected.is_empty()).then(|| self.in_blocks(&affected))
    }

    /// Processes a deleted AddressPool. Returns the affected addresses; `None` if the pool was unknown.
    pub(crate) fn remove_pool(&mut self, name: &str) -> Option<BTreeSet<IpAddr>> {
        self.address_pools.remove(name);
        let placement = self.metallb_placement(name);
        let affected = self.placements.set(name, placement);
        (!affected.is_empty()).then(|| self.in_blocks(&affected))
    }

    /// Replaces MetalLB's objects. Returns the affected addresses; `None` without a relevant change.
    pub(crate) fn apply_metallb(&mut self, configuration: Arc<Configuration>) -> Option<BTreeSet<IpAddr>> {
        let before = std::mem::replace(&mut self.metallb, configuration);
        let mut affected = Vec::new();
        for name in self.metallb.changed_pools(&before) {
            if !self.address_pools.contains(&name) {
                let placement = self.metallb_placement(&name);
                affected.extend(self.placements.set(&name, placement));
            }
        }
        (!affected.is_empty()).then(|| self.in_blocks(&affected))
    }

    /// Returns the placement of an IPAddressPool; `None` without a valid one.
    fn metallb_placement(&self, name: &str) -> Option<Placement> {
        let pool = self.metallb.pools.get(name)?;
        let placement = Placement::of_metallb(pool, &self.metallb).map_err(|error| {
            tracing::error!(%error, "IPAddressPool ignored; its addresses are not announced until it is corrected");
        });
        placement.ok()
    }

    /// Returns the links of an address.
    pub(crate) fn links(&self, address: IpAddr) -> AddressLinks {
        AddressLinks::of(self.placements.for_address(address).map(Placement::links))
    }

    /// Returns the links that AddressPools name.
    pub(crate) fn pool_links(&self) -> Vec<LinkPattern> {
        self.placements.links().cloned().collect()
    }

    /// Returns the link sets that AddressPools require for recorded addresses.
    pub(crate) fn required_links(&self) -> BTreeMap<LinkSetId, AddressLinks> {
        if self.placements.links().next().is_none() {
            return BTreeMap::new();
        }
        let links = self.addresses().map(|address| self.links(address));
        links.filter_map(|links| Some((links.id()?, links))).collect()
    }

    /// Returns the candidates of an address; `None` if no Service has it, or if it is withheld.
    pub(crate) fn candidates(&self, address: IpAddr) -> Option<Arc<Candidates>> {
        let holders = self.holders.get(&address)?;
        if self.withheld(address).is_some() {
            return None;
        }
        let services = holders
            .iter()
            .filter_map(|key| Some((key, self.services.get(key)?)));
        // Services that share an address with policy Local have the same endpoints.
        let mut allowed: Option<BTreeSet<NodeName>> = None;
        let mut restrict = |nodes: BTreeSet<NodeName>| match &mut allowed {
            None => allowed = Some(nodes),
            Some(allowed) => allowed.retain(|name| nodes.contains(name)),
        };
        for (key, service) in services {
            if service.is_local {
                restrict(self.nodes_of(key));
            }
            for selector in &service.nodes {
                restrict(
                    self.nodes_with(|labels| selector.matches(|key| labels.get(key).map(String::as_str))),
                );
            }
        }
        let labels_of = holders
            .iter()
            .filter_map(|key| Some(&self.services.get(key)?.labels));
        for service in labels_of {
            let placements = self.placements.for_address(address);
            for placement in placements.filter(|placement| placement.selects_nodes()) {
                restrict(self.nodes_with(|labels| placement.allows_node(labels, service)));
            }
        }
        let requirements = Requirements {
            edge: self.needs_edge(address),
            links: self.links(address).id(),
        };
        if allowed.is_none() && requirements.is_empty() {
            return Some(Arc::clone(&self.unrestricted));
        }
        let select = |names: &BTreeSet<NodeName>| match &allowed {
            Some(allowed) => names.intersection(allowed).cloned().collect(),
            None => names.clone(),
        };
        Some(Arc::new(Candidates {
            preferred: select(&self.unrestricted.preferred),
            fallback: select(&self.unrestricted.fallback),
            requirements,
        }))
    }

    /// Returns true if the edge serves a Service of the address.
    pub(crate) fn needs_edge(&self, address: IpAddr) -> bool {
        let mut holders = self.holders.get(&address).into_iter().flatten();
        holders.any(|key| self.services.get(key).is_some_and(|service| service.needs_edge))
    }

    /// Returns true if a Service of the address requests two-tier forwarding. It has an effect where the proxy of the
    /// node supports it.
    pub(crate) fn requests_two_tier(&self, address: IpAddr) -> bool {
        let holders = self.holders.get(&address).into_iter().flatten();
        let mut services = holders.filter_map(|key| self.services.get(key));
        services.any(|service| service.requests_two_tier)
    }

    /// Returns the Services of an address, with their UIDs.
    pub(crate) fn services_of(&self, address: IpAddr) -> impl Iterator<Item = (&ObjectKey, &str)> {
        let holders = self.holders.get(&address).into_iter().flatten();
        holders.filter_map(|key| self.services.get(key).map(|service| (key, service.uid.as_str())))
    }

    /// Returns the nodes that accept external traffic and are not cordoned.
    pub(crate) fn uncordoned(&self) -> &BTreeSet<NodeName> {
        &self.unrestricted.preferred
    }

    /// Returns the addresses that the assigner recorded.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.holders.keys().copied()
    }

    /// Returns the nodes whose endpoints of a Service accept traffic.
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

    /// Returns the nodes whose labels match.
    fn nodes_with(&self, is_match: impl Fn(&Labels) -> bool) -> BTreeSet<NodeName> {
        let matching = self.nodes.iter().filter(|(_, node)| is_match(&node.labels));
        matching.map(|(name, _)| NodeName::clone(name)).collect()
    }

    /// Returns the addresses whose Services or AddressPools select nodes by labels.
    fn addresses_with_node_selectors(&self) -> BTreeSet<IpAddr> {
        let choosing = self.services.values().filter(|service| !service.nodes.is_empty());
        let by_services = choosing.flat_map(|service| &service.addresses).copied();
        let by_pools = self.addresses().filter(|address| {
            self.placements
                .for_address(*address)
                .any(Placement::selects_nodes)
        });
        by_services.chain(by_pools).collect()
    }

    /// Returns those of the addresses that Services have.
    fn recorded_among(&self, addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
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
                .filter(|(_, node)| node.is_cordoned == is_cordoned);
            nodes.map(|(name, _)| NodeName::clone(name)).collect()
        };
        self.unrestricted = Arc::new(Candidates {
            preferred: of(false),
            fallback: of(true),
            requirements: Requirements::default(),
        });
        self.addresses().collect()
    }
}

/// Returns true if the assigner left the Service to the edge.
fn needs_edge(service: &Service) -> bool {
    let mut ingress = service.status.load_balancer.ingress.iter();
    ingress.any(|ingress| IngressMode::of(ingress) == IngressMode::Proxy)
}

/// Returns the addresses that the assigner has recorded.
pub(crate) fn assigned(service: &Service) -> BTreeSet<IpAddr> {
    // Nodes already have their own addresses.
    let is_ours = |condition: &Condition| {
        condition.kind == ASSIGNED_CONDITION
            && condition.status == "True"
            && condition.reason != NODE_ADDRESSES_REASON
    };
    let is_served = service.spec.kind == "LoadBalancer" && service.status.conditions.iter().any(is_ours);
    if !is_served || service.metadata.deletion_timestamp.is_some() {
        return BTreeSet::new();
    }
    let ingress = service.status.load_balancer.ingress.iter();
    ingress.filter_map(|ingress| ingress.ip.parse().ok()).collect()
}
