//! State machine of the assigner: watch events in, updates out. No clock, no I/O.
//!
//! The caches hold the objects of the API. [`ipam::pools`] holds the allocations. An address is allocated
//! before anything is written about it, and released only after the Service is observed without it. So two
//! Services never get the same address, whichever write fails. After a start the allocations are restored
//! from the statuses of Services before the first update ([`Core::initialize`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{AddressPool, AddressPoolUsage, Labels, Namespace, Node, ObjectKey, Service};
use ipam::pools::{Holder, Pools};

use super::pools::{ParsedPool, usage};
use super::{
    ASSIGNED_CONDITION, CLASS, FINALIZER, Options, PendingEvent, address_request, spec_changes, takes_traffic,
};
use crate::annotations::EDGE_CLASS;
use crate::edge_report::{Report, Reports};

/// Object to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum WorkItem {
    /// A Service.
    Service(ObjectKey),
    /// The status of an AddressPool.
    Pool(String),
}

/// Caches and allocations.
#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) options: Options,
    pub(super) services: HashMap<ObjectKey, Service>,
    pub(super) pools: BTreeMap<String, ParsedPool>,
    /// Usage in the status of each pool, valid or not.
    usage: BTreeMap<String, Vec<AddressPoolUsage>>,
    pub(super) namespaces: HashMap<String, Labels>,
    /// Labels of the nodes that take traffic.
    pub(super) nodes: BTreeMap<String, Labels>,
    /// Addresses by Service.
    pub(super) allocations: Pools,
    /// Services without the addresses that they request.
    pub(super) waiting: BTreeSet<ObjectKey>,
    /// Services that get an Event because nodes changed.
    pub(super) node_changes: BTreeSet<ObjectKey>,
    /// Events about changes of Services since their last reconciliation (CCM-08).
    pub(super) spec_changes: HashMap<ObjectKey, Vec<PendingEvent>>,
    /// Reports of edges about ports.
    pub(super) reports: Reports,
    pub(super) is_initialized: bool,
}

impl Core {
    /// Creates a core with empty caches.
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Adds or replaces a Service. Returns the objects to reconcile.
    pub(super) fn service_applied(&mut self, service: Service) -> Vec<WorkItem> {
        let key = service.metadata.key();
        let version = |service: &Service| service.metadata.resource_version.parse().unwrap_or(0_u64);
        if let Some(cached) = self.services.get(&key) {
            let is_same_object = cached.metadata.uid == service.metadata.uid;
            if is_same_object && version(cached) > version(&service) {
                return Vec::new();
            }
            if !is_same_object {
                self.allocations.release(&holder_of(&key));
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
    pub(super) fn service_deleted(&mut self, key: &ObjectKey) -> Vec<WorkItem> {
        self.services.remove(key);
        self.waiting.remove(key);
        self.node_changes.remove(key);
        self.spec_changes.remove(key);
        self.release(key)
    }

    /// Adds or replaces a pool.
    pub(super) fn pool_applied(&mut self, pool: AddressPool) -> Vec<WorkItem> {
        let name = pool.metadata.name.clone();
        self.usage.insert(name.clone(), pool.status.usage.clone());
        match ParsedPool::parse(pool) {
            Ok((parsed, addresses)) => {
                let is_unchanged = self
                    .pools
                    .get(&name)
                    .is_some_and(|cached| cached.object.spec == parsed.object.spec);
                self.pools.insert(name.clone(), parsed);
                if is_unchanged {
                    return vec![WorkItem::Pool(name)];
                }
                self.allocations.set(&name, addresses);
            }
            Err(error) => {
                tracing::error!(%error, "AddressPool ignored");
                self.pools.remove(&name);
                self.allocations.remove(&name);
            }
        }
        self.all_objects()
    }

    /// Removes a pool.
    pub(super) fn pool_deleted(&mut self, name: &str) -> Vec<WorkItem> {
        self.usage.remove(name);
        self.pools.remove(name);
        self.allocations.remove(name);
        self.all_objects()
    }

    /// Adds or replaces a namespace.
    pub(super) fn namespace_applied(&mut self, namespace: Namespace) -> Vec<WorkItem> {
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
    pub(super) fn namespace_deleted(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Adds or replaces a Node (CCM-05, CCM-06). Its labels decide if it may announce addresses.
    pub(super) fn node_applied(&mut self, node: &Node) -> Vec<WorkItem> {
        let meta = &node.metadata;
        if !takes_traffic(node) {
            return self.node_deleted(&meta.name);
        }
        match self.nodes.insert(meta.name.clone(), meta.labels.clone()) {
            None => self.nodes_changed(true),
            Some(before) if before != meta.labels && self.is_initialized => {
                self.with_load_balancer().map(WorkItem::Service).collect()
            }
            Some(_) => Vec::new(),
        }
    }

    /// Removes a Node.
    pub(super) fn node_deleted(&mut self, name: &str) -> Vec<WorkItem> {
        let has_changed = self.nodes.remove(name).is_some();
        self.nodes_changed(has_changed)
    }

    /// Replaces the report of a node's edge about its ports.
    pub(super) fn report_applied(&mut self, node: &str, report: Report) -> Vec<WorkItem> {
        let affected = self.reports.set(node, report);
        affected.into_iter().map(WorkItem::Service).collect()
    }

    /// Ends the initial list of reports.
    pub(super) fn reports_synced(&mut self) -> Vec<WorkItem> {
        self.reports.set_synced();
        self.with_load_balancer().map(WorkItem::Service).collect()
    }

    /// Restores the allocations from the statuses of Services, after all caches are synced. If two Services
    /// have the same address, the older one keeps it. Returns all objects.
    pub(super) fn initialize(&mut self) -> Vec<WorkItem> {
        let mut services: Vec<(&ObjectKey, &Service)> = self.services.iter().collect();
        services.sort_by_key(|(key, service)| (service.metadata.creation_timestamp.clone(), (*key).clone()));
        for (key, service) in services {
            if !self.is_ours(service) {
                continue;
            }
            let addresses = addresses_of(service);
            let sharing = address_request::sharing(service).unwrap_or_default();
            if !self.allocations.restore(&holder_of(key), &addresses, &sharing) {
                tracing::warn!(service = %key, ?addresses, "address is allocated to another Service and is withdrawn");
            }
        }
        self.node_changes.clear();
        self.is_initialized = true;
        self.all_objects()
    }

    /// A pool and its usage, if the usage differs from the status.
    pub(super) fn pool_usage(&self, name: &str) -> Option<(&AddressPool, Vec<AddressPoolUsage>)> {
        let pool = self.pools.get(name)?;
        let written = self.usage.get(name)?;
        let usage = usage(&self.allocations, name);
        (*written != usage).then_some((&pool.object, usage))
    }

    /// A Service in the cache.
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

    pub(super) fn serves(&self, class: Option<&str>) -> bool {
        match class {
            None => self.options.serves_default_class,
            Some(EDGE_CLASS) => self.options.has_edges,
            Some(class) => class == CLASS,
        }
    }

    /// Releases the addresses of a Service, which waiting Services may get.
    pub(super) fn release(&mut self, key: &ObjectKey) -> Vec<WorkItem> {
        if !self.allocations.release(&holder_of(key)) {
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

    /// Services with a load balancer.
    fn with_load_balancer(&self) -> impl Iterator<Item = ObjectKey> {
        let services = self.services.iter().filter(|(_, service)| has_finalizer(service));
        services.map(|(key, _)| key.clone())
    }

    fn all_objects(&self) -> Vec<WorkItem> {
        let services = self.services.keys().cloned().map(WorkItem::Service);
        services.chain(self.all_pools()).collect()
    }

    pub(super) fn all_pools(&self) -> impl Iterator<Item = WorkItem> {
        self.pools.keys().cloned().map(WorkItem::Pool)
    }
}

/// Holder of the addresses of a Service.
pub(super) fn holder_of(key: &ObjectKey) -> Holder {
    Arc::from(key.to_string())
}

pub(super) fn has_finalizer(service: &Service) -> bool {
    service.metadata.finalizers.iter().any(|name| name == FINALIZER)
}

/// Addresses in the status of a Service.
pub(super) fn addresses_of(service: &Service) -> Vec<IpAddr> {
    let ingress = service.status.load_balancer.ingress.iter();
    ingress.filter_map(|ingress| ingress.ip.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
