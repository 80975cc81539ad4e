//! State machine of the assigner, without clock or I/O. Inputs are watch events; outputs are updates.
//!
//! The caches hold the objects of the API. [`ipam::pools`] holds the allocations. An address is allocated before an
//! object names it, and released only after the Service is observed without it. Two Services therefore do not get the
//! same address after a failed write. After a start the allocations are restored from the statuses of Services before
//! the first update ([`AssignerState::initialize`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{
    AddressPool, AddressPoolStatus, AddressPoolUsage, Condition, EndpointSlice, Labels, Namespace, Node,
    ObjectKey, Service,
};
use client::events::EventText;
use ipam::pools::{Holder, Pools};

use super::node_pools::{self, EndpointNodes, NodeAddresses, NodePorts, ServicePort};
use super::pools::{InvalidPool, ParsedPool, metallb_status, node_usage, usage};
use super::service_update::{has_assigned_addresses, has_node_addresses};
use super::{
    ASSIGNED_CONDITION, CLASS, FINALIZER, IngressMode, Options, PoolUpdate, address_request, spec_changes,
    takes_traffic,
};
use crate::annotations::{self, EDGE_CLASS, Reading};
use crate::edge_report::{Report, Reports};
use crate::metallb::{Configuration, POOL_ANNOTATION};
use crate::two_tier::{self, TWO_TIER_ANNOTATION};

/// Object to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum WorkItem {
    /// A Service.
    Service(ObjectKey),
    /// The status of an AddressPool.
    Pool(String),
}

impl WorkItem {
    /// Returns the namespace of the object; pools have none.
    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Service(key) => &key.namespace,
            Self::Pool(_) => "",
        }
    }
}

/// Caches and allocations.
#[derive(Debug, Default)]
pub(super) struct AssignerState {
    pub(super) options: Options,
    pub(super) services: HashMap<ObjectKey, Service>,
    /// Valid pools of both kinds.
    pub(super) pools: BTreeMap<String, ParsedPool>,
    /// AddressPools, valid or not.
    address_pools: BTreeMap<String, AddressPool>,
    /// Errors of invalid AddressPools.
    invalid_pools: BTreeMap<String, InvalidPool>,
    /// MetalLB's objects.
    metallb: Arc<Configuration>,
    pub(super) namespaces: HashMap<String, Labels>,
    /// Labels of the nodes that take traffic.
    pub(super) nodes: BTreeMap<String, Labels>,
    /// Addresses of the nodes that take traffic, for pools of node addresses.
    pub(super) node_addresses: BTreeMap<String, NodeAddresses>,
    /// Ports of Services at addresses of nodes.
    pub(super) node_ports: NodePorts,
    /// Nodes with endpoints, read only with a pool of node addresses.
    pub(super) endpoints: EndpointNodes,
    /// Addresses by Service.
    pub(super) allocations: Pools,
    /// Services without the addresses that they request.
    pub(super) waiting: BTreeSet<ObjectKey>,
    /// Services that get an Event because nodes changed.
    pub(super) node_changes: BTreeSet<ObjectKey>,
    /// Events about changes of Services since their last reconciliation (CCM-08).
    pub(super) spec_changes: HashMap<ObjectKey, Vec<EventText>>,
    /// Reports of edges about ports.
    pub(super) reports: Reports,
    pub(super) is_initialized: bool,
    /// True after the API server dropped the `ipMode` of a status.
    pub(super) lacks_ip_mode: bool,
}

impl AssignerState {
    /// Creates a state with empty caches.
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Adds or replaces a Service. Returns the objects to reconcile.
    pub(super) fn apply_service(&mut self, service: Service) -> Vec<WorkItem> {
        let key = service.metadata.key();
        if let Some(cached) = self.services.get(&key) {
            let is_same_object = cached.metadata.uid == service.metadata.uid;
            if is_same_object && version(cached) > version(&service) {
                return Vec::new();
            }
            if !is_same_object {
                self.allocations.release(&former_holder_of(&key));
                self.allocations.release(&holder_of(&key));
                self.node_ports.release(&key);
                self.spec_changes.remove(&key);
            } else if self.is_initialized
                && let Some(events) = spec_changes::events(cached, &service)
            {
                self.spec_changes.entry(key.clone()).or_default().extend(events);
            }
        }
        self.services.insert(key.clone(), service);
        vec![WorkItem::Service(key)]
    }

    /// Removes a Service and releases its addresses.
    pub(super) fn remove_service(&mut self, key: &ObjectKey) -> Vec<WorkItem> {
        self.services.remove(key);
        self.waiting.remove(key);
        self.node_changes.remove(key);
        self.spec_changes.remove(key);
        self.release(key)
    }

    /// Adds or replaces an AddressPool.
    pub(super) fn apply_pool(&mut self, pool: AddressPool) -> Vec<WorkItem> {
        let name = pool.metadata.name.clone();
        self.address_pools.insert(name.clone(), pool);
        self.refresh_pool(&name)
    }

    /// Removes an AddressPool. An IPAddressPool with the same name takes its place.
    pub(super) fn remove_pool(&mut self, name: &str) -> Vec<WorkItem> {
        self.address_pools.remove(name);
        self.refresh_pool(name)
    }

    /// Replaces MetalLB's objects.
    pub(super) fn apply_metallb(&mut self, configuration: Arc<Configuration>) -> Vec<WorkItem> {
        let before = std::mem::replace(&mut self.metallb, configuration);
        let changed = self.metallb.changed_pools(&before);
        let mut work: Vec<WorkItem> = self.all_pools().collect();
        for name in changed {
            if self.address_pools.contains_key(&name) {
                tracing::warn!(name, "IPAddressPool ignored; an AddressPool has the same name");
            } else {
                work.extend(self.refresh_pool(&name));
            }
        }
        work.sort_unstable();
        work.dedup();
        work
    }

    /// Parses the AddressPool of a name, or without one the IPAddressPool.
    fn refresh_pool(&mut self, name: &str) -> Vec<WorkItem> {
        let parsed = match (self.address_pools.get(name), self.metallb.pools.get(name)) {
            (Some(pool), _) => Some(ParsedPool::parse(pool.clone())),
            (None, Some(pool)) => Some(ParsedPool::of_metallb(pool, &self.metallb)),
            (None, None) => None,
        };
        self.invalid_pools.remove(name);
        match parsed {
            Some(Ok((parsed, addresses))) => {
                let before = self.pools.insert(name.to_owned(), parsed.clone());
                if before.is_some_and(|before| before.is_same_as(&parsed)) {
                    return vec![WorkItem::Pool(name.to_owned())];
                }
                if let Some(value) = two_tier::invalid_value(parsed.source.metadata()) {
                    tracing::warn!(
                        name,
                        value,
                        "{TWO_TIER_ANNOTATION} of pool ignored; expected true or false"
                    );
                }
                self.allocations.set(name, addresses);
            }
            Some(Err(error)) => {
                tracing::error!(%error, "address pool ignored");
                self.invalid_pools.insert(name.to_owned(), error);
                self.discard_pool(name);
            }
            None => self.discard_pool(name),
        }
        let mut work = self.all_objects();
        work.push(WorkItem::Pool(name.to_owned()));
        work
    }

    fn discard_pool(&mut self, name: &str) {
        self.pools.remove(name);
        self.allocations.remove(name);
    }

    /// Adds or replaces a namespace.
    pub(super) fn apply_namespace(&mut self, namespace: Namespace) -> Vec<WorkItem> {
        let (name, labels) = (namespace.metadata.name, namespace.metadata.labels);
        if self.namespaces.get(&name) == Some(&labels) {
            return Vec::new();
        }
        let keys = self.services.keys().filter(|key| *key.namespace == *name);
        let work = keys.cloned().map(WorkItem::Service).collect();
        self.namespaces.insert(name, labels);
        work
    }

    /// Removes a namespace.
    pub(super) fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Adds or replaces a Node (CCM-05, CCM-06). Its labels decide if it may announce addresses.
    pub(super) fn apply_node(&mut self, node: &Node) -> Vec<WorkItem> {
        let meta = &node.metadata;
        if !takes_traffic(node, self.options.ignores_exclude_label) {
            return self.remove_node(&meta.name);
        }
        let addresses = NodeAddresses::of(node);
        let before = self.node_addresses.insert(meta.name.clone(), addresses.clone());
        let mut work = self.node_addresses_changed(before.as_ref() != Some(&addresses));
        work.extend(self.apply_node_labels(node));
        work.sort_unstable();
        work.dedup();
        work
    }

    fn apply_node_labels(&mut self, node: &Node) -> Vec<WorkItem> {
        let meta = &node.metadata;
        match self.nodes.insert(meta.name.clone(), meta.labels.clone()) {
            None => self.nodes_changed(true),
            Some(before) if before != meta.labels && self.is_initialized => {
                self.with_load_balancer().map(WorkItem::Service).collect()
            }
            Some(_) => Vec::new(),
        }
    }

    /// Removes a Node.
    pub(super) fn remove_node(&mut self, name: &str) -> Vec<WorkItem> {
        let has_changed = self.nodes.remove(name).is_some();
        let had_addresses = self.node_addresses.remove(name).is_some();
        let mut work = self.node_addresses_changed(had_addresses);
        work.extend(self.nodes_changed(has_changed));
        work.sort_unstable();
        work.dedup();
        work
    }

    /// Returns the Services and pools to reconcile if addresses of nodes have changed.
    fn node_addresses_changed(&self, have_changed: bool) -> Vec<WorkItem> {
        if !have_changed || !self.is_initialized || !self.has_node_pools() {
            return Vec::new();
        }
        let services = self.node_ports.services().chain(&self.waiting);
        let services = services.cloned().map(WorkItem::Service);
        services.chain(self.all_pools()).collect()
    }

    /// Returns true if there is a pool of node addresses.
    pub(super) fn has_node_pools(&self) -> bool {
        self.pools.values().any(|pool| pool.node_addresses.is_some())
    }

    /// Adds or replaces an EndpointSlice.
    pub(super) fn apply_slice(&mut self, slice: &EndpointSlice) -> Vec<WorkItem> {
        let changed = self.endpoints.apply_slice(slice);
        self.endpoints_changed(changed)
    }

    /// Removes an EndpointSlice.
    pub(super) fn remove_slice(&mut self, key: &ObjectKey) -> Vec<WorkItem> {
        let changed = self.endpoints.remove_slice(key);
        self.endpoints_changed(changed)
    }

    /// Ends the initial list of EndpointSlices.
    pub(super) fn slices_synced(&mut self) -> Vec<WorkItem> {
        self.endpoints.is_synced = true;
        let services = self.node_ports.services().cloned();
        services.map(WorkItem::Service).collect()
    }

    /// Returns the Services at addresses of nodes, of those whose endpoints have changed.
    fn endpoints_changed(&self, services: Vec<ObjectKey>) -> Vec<WorkItem> {
        let services = services.into_iter();
        services
            .filter(|key| self.endpoints.is_synced && self.node_ports.pool_of(key).is_some())
            .map(WorkItem::Service)
            .collect()
    }

    /// Replaces the report of a node's edge about its ports.
    pub(super) fn apply_report(&mut self, node: &str, report: Report) -> Vec<WorkItem> {
        let affected = self.reports.set(node, report);
        affected.into_iter().map(WorkItem::Service).collect()
    }

    /// Ends the initial list of reports.
    pub(super) fn reports_synced(&mut self) -> Vec<WorkItem> {
        self.reports.set_synced();
        self.with_load_balancer().map(WorkItem::Service).collect()
    }

    /// Restores the allocations from the statuses of Services, after all caches are synced. Addresses of Services
    /// that another controller served are kept, too. If two Services have the same address, the Service that the
    /// assigner served keeps it. If it served both or neither, the Service whose condition states that it has its
    /// addresses keeps it. Of two such Services, the one whose last change is older keeps it, otherwise the older one.
    /// Returns all objects.
    ///
    /// A change while no assigner runs can cause a conflict between two statuses. The changed Service loses the address.
    pub(super) fn initialize(&mut self) -> Vec<WorkItem> {
        let mut services: Vec<(&ObjectKey, &Service)> = self.services.iter().collect();
        services.retain(|(_, service)| self.is_ours(service) || self.is_taken_over(service));
        services.sort_by_cached_key(|(key, service)| {
            let age = service.metadata.creation_timestamp.clone();
            let changed_at = has_assigned_addresses(service).then(|| version(service));
            let has_none = changed_at.is_none();
            (!self.is_ours(service), has_none, changed_at, age, (*key).clone())
        });
        let mut at_nodes = Vec::new();
        for (key, service) in services {
            let addresses = addresses_of(service);
            let pool = service.metadata.annotations.get(POOL_ANNOTATION);
            // Users can write the annotation.
            let is_of_ranges = has_assigned_addresses(service) && !has_node_addresses(service);
            let pool = pool.filter(|name| {
                let pool = self.pools.get(*name);
                !is_of_ranges && pool.is_some_and(|pool| pool.node_addresses.is_some())
            });
            if let Some(pool) = pool {
                let ports = service_ports(service);
                // The next claim reports a conflict.
                self.node_ports.claim(key, pool, &addresses, &ports).ok();
                at_nodes.push((key, pool, addresses, ports));
                continue;
            }
            let mut sharing = address_request::sharing(service).unwrap_or_default();
            let mode = self.mode(&annotations::read(service));
            sharing.set_port_use(address_request::port_use(service, mode));
            if !self.allocations.restore(&holder_of(key), &addresses, &sharing) {
                tracing::warn!(service = %key, ?addresses, "address withdrawn; another Service has it");
            }
        }
        // A Service keeps its ports on nodes that its status lacks, too, except on those that the status of another one has.
        for (key, pool, mut addresses, ports) in at_nodes {
            addresses.extend(self.node_pool_addresses(pool));
            if let Err(conflict) = self.node_ports.claim(key, pool, &addresses, &ports) {
                tracing::warn!(service = %key, %conflict, "addresses of nodes withdrawn");
            }
        }
        self.node_changes.clear();
        self.is_initialized = true;
        self.all_objects()
    }

    /// Returns the usage of a valid pool.
    pub(super) fn pool_usage(&self, name: &str) -> Option<Vec<AddressPoolUsage>> {
        let pool = self.pools.get_key_value(name);
        pool.map(|(name, _)| self.usage(name))
    }

    fn usage(&self, name: &str) -> Vec<AddressPoolUsage> {
        let pool = self.pools.get(name);
        if pool.is_some_and(|pool| pool.node_addresses.is_some()) {
            node_usage(
                &self.node_pool_addresses(name),
                &self.node_ports.addresses_in(name),
            )
        } else {
            usage(&self.allocations, name)
        }
    }

    /// Returns the addresses of the ready nodes that a pool selects; empty for other pools.
    fn node_pool_addresses(&self, name: &str) -> BTreeSet<IpAddr> {
        let pool = self.pools.get(name);
        let Some((pool, address_type)) = pool.and_then(|pool| Some((pool, pool.node_addresses?))) else {
            return BTreeSet::new();
        };
        let is_selected = |labels: &Labels| pool.placement.allows_node(labels, &Labels::new());
        let all = node_pools::addresses(&self.node_addresses, address_type, is_selected);
        all.into_iter().map(|(_, address)| address).collect()
    }

    /// Returns the change of a pool's status, if it differs from the written one.
    pub(super) fn pool_update(&self, name: &str) -> Option<PoolUpdate> {
        let usage = self.usage(name);
        if let Some(pool) = self.address_pools.get(name) {
            let status = AddressPoolStatus {
                usage,
                conditions: vec![ready_condition(self.invalid_pools.get(name))],
            };
            return (pool.status != status).then(|| PoolUpdate::AddressPool {
                name: name.to_owned(),
                uid: pool.metadata.uid.clone(),
                status,
            });
        }
        let pool = self.metallb.pools.get(name)?;
        let status = metallb_status(&usage);
        (pool.status != status).then(|| PoolUpdate::MetalLb {
            namespace: pool.metadata.namespace.clone(),
            name: name.to_owned(),
            uid: pool.metadata.uid.clone(),
            status,
        })
    }

    /// Returns a Service in the cache.
    pub(super) fn service(&self, key: &ObjectKey) -> Option<&Service> {
        self.services.get(key)
    }

    /// Returns true if a condition or the finalizer shows that the assigner served the Service. Another controller
    /// uses the same finalizer for other classes.
    pub(super) fn is_ours(&self, service: &Service) -> bool {
        let class = service.spec.load_balancer_class.as_deref();
        let has_condition = service
            .status
            .conditions
            .iter()
            .any(|condition| condition.kind == ASSIGNED_CONDITION);
        has_condition || (has_finalizer(service) && self.serves(class))
    }

    /// Returns true if the assigner serves the Service, although the Service has no condition or finalizer of the
    /// assigner yet.
    pub(super) fn is_taken_over(&self, service: &Service) -> bool {
        service.spec.kind == "LoadBalancer" && self.serves(service.spec.load_balancer_class.as_deref())
    }

    /// Returns true if the assigner serves Services of this class; `None` stands for no class.
    pub(super) fn serves(&self, class: Option<&str>) -> bool {
        match class {
            None => self.options.serves_default_class,
            Some(EDGE_CLASS) => self.options.has_edges,
            Some(class) => class == CLASS || self.options.classes.contains(class),
        }
    }

    /// Returns the component that handles packets for the addresses of a Service with these annotations.
    pub(super) fn mode(&self, reading: &Reading) -> IngressMode {
        match reading.edge {
            Some(_) if self.options.has_edges => IngressMode::Proxy,
            _ => IngressMode::Vip,
        }
    }

    /// Releases the addresses of a Service, which waiting Services may get.
    pub(super) fn release(&mut self, key: &ObjectKey) -> Vec<WorkItem> {
        let had_former = self.allocations.release(&former_holder_of(key));
        let had_addresses = self.allocations.release(&holder_of(key)) || had_former;
        if !self.node_ports.release(key) && !had_addresses {
            return Vec::new();
        }
        let waiting = self.waiting.iter().cloned().map(WorkItem::Service);
        waiting.chain(self.all_pools()).collect()
    }

    fn nodes_changed(&mut self, has_changed: bool) -> Vec<WorkItem> {
        if !has_changed || !self.is_initialized {
            return Vec::new();
        }
        let keys: Vec<ObjectKey> = self.with_load_balancer().collect();
        self.node_changes.extend(keys.iter().cloned());
        keys.into_iter().map(WorkItem::Service).collect()
    }

    /// Returns the Services with a load balancer.
    fn with_load_balancer(&self) -> impl Iterator<Item = ObjectKey> {
        let services = self.services.iter().filter(|(_, service)| has_finalizer(service));
        services.map(|(key, _)| key.clone())
    }

    fn all_objects(&self) -> Vec<WorkItem> {
        let services = self.services.keys().cloned().map(WorkItem::Service);
        services.chain(self.all_pools()).collect()
    }

    /// Iterates over all pools: AddressPools, valid or not, and valid IPAddressPools.
    pub(super) fn all_pools(&self) -> impl Iterator<Item = WorkItem> {
        let names: BTreeSet<&String> = self.pools.keys().chain(self.address_pools.keys()).collect();
        let pools: Vec<WorkItem> = names.into_iter().cloned().map(WorkItem::Pool).collect();
        pools.into_iter()
    }
}

/// Returns the revision of the last change of a Service.
fn version(service: &Service) -> u64 {
    service.metadata.resource_version.parse().unwrap_or(0)
}

/// Returns the condition of an AddressPool: false with the error of an invalid one.
fn ready_condition(error: Option<&InvalidPool>) -> Condition {
    let (status, reason) = match error {
        None => ("True", "Valid"),
        Some(_) => ("False", "Invalid"),
    };
    Condition {
        kind: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: error.map(InvalidPool::to_string).unwrap_or_default(),
    }
}

/// Protocols and numbers of the ports of a Service.
pub(super) fn service_ports(service: &Service) -> Vec<ServicePort> {
    let ports = service.spec.ports.iter();
    ports.map(|port| (port.protocol, port.port)).collect()
}

/// Returns the holder of the addresses of a Service.
pub(super) fn holder_of(key: &ObjectKey) -> Holder {
    Arc::from(key.to_string())
}

/// Returns the holder of former addresses of a Service, which its status still names.
pub(super) fn former_holder_of(key: &ObjectKey) -> Holder {
    Arc::from(format!("{key} (former address)"))
}

/// Returns true if the Service has the finalizer of load balancers.
pub(super) fn has_finalizer(service: &Service) -> bool {
    service.metadata.finalizers.iter().any(|name| name == FINALIZER)
}

/// Returns the addresses in the status of a Service.
pub(super) fn addresses_of(service: &Service) -> Vec<IpAddr> {
    let ingress = service.status.load_balancer.ingress.iter();
    ingress.filter_map(|ingress| ingress.ip.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
