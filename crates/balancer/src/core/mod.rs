//! What is to be done about each Service: watch events in, steps out. No clock, no I/O.
//!
//! The caches hold what the API says; the book ([`ipam::pools`]) holds who has which address. A Service's address is
//! in the book before anything about it is written, and leaves the book only when the Service is seen without it,
//! so no two are ever told the same address, whatever fails in between. After a start the book is filled from the
//! Services' statuses before the first step ([`Core::settle`]).

mod changes;
mod judge;
mod remarks;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{
    AddressPool, AddressPoolUsage, IngressPort, Labels, LoadBalancerIngress, Namespace, Node, ObjectKey,
    Service,
};
use ipam::pools::{Holder, Pools};

use crate::annotations::EDGE_CLASS;
use crate::edge_report::{Report, Reports};
use crate::metrics::Metrics;
use crate::pools::{KnownPool, usage};
use crate::wish;

/// Who must agree before a Service with a load balancer is gone (CCM-02).
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The class that is always served here; Services without a class are served if so configured.
pub const CLASS: &str = "portolan.dev/balancer";
/// Classes that begin so are Portolan's, and nobody else will serve them.
const CLASS_PREFIX: &str = "portolan.dev/";
/// The condition that says whether a Service got its addresses, and why not.
pub use api::edge_secret::ASSIGNED_CONDITION as CONDITION;
/// The condition that is there as long as annotations ask for something that is not in force.
pub const REMARKS_CONDITION: &str = "portolan.dev/AnnotationsInForce";
/// The condition that is there as long as no node may announce a Service's addresses.
pub const ANNOUNCED_CONDITION: &str = "portolan.dev/AddressAnnounced";
/// All conditions of ours.
pub(crate) const CONDITIONS: [&str; 3] = [CONDITION, REMARKS_CONDITION, ANNOUNCED_CONDITION];
/// Nodes with this label take no traffic from outside (CCM-05).
const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Nodes with this taint are about to go (CCM-05).
const GOING_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// Settings of the balancer.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether Services without a `loadBalancerClass` are served: not where a cloud's controller does (CCM-01).
    pub serves_default_class: bool,
    /// Whether nodes run the edge: Services that ask for it are left to it, otherwise they are told that it is missing.
    pub has_edges: bool,
    /// Writes under way at once (CCM-11).
    pub concurrent_service_syncs: usize,
    /// What is told about the work.
    pub metrics: Arc<Metrics>,
}

/// Upstream does one Service at a time (CCM-11), since each is a request to a cloud; here it is two requests to the API.
pub const CONCURRENT_SERVICE_SYNCS: usize = 8;

impl Default for Options {
    fn default() -> Self {
        Self {
            serves_default_class: true,
            has_edges: false,
            concurrent_service_syncs: CONCURRENT_SERVICE_SYNCS,
            metrics: Arc::default(),
        }
    }
}

/// Whether a node takes traffic from outside (CCM-05).
pub fn takes_traffic(node: &Node) -> bool {
    let meta = &node.metadata;
    meta.deletion_timestamp.is_none()
        && !meta.labels.contains_key(EXCLUDE_LABEL)
        && !node.spec.taints.iter().any(|taint| taint.key == GOING_TAINT)
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// A Service.
    Service(ObjectKey),
    /// The status of an AddressPool.
    Pool(String),
}

/// Something to tell the owner of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whether something is wrong.
    pub is_warning: bool,
    /// One word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// Who takes the packets for an address (`ipMode`, KEP-1860).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IngressMode {
    /// The node proxy of whichever node gets them.
    #[default]
    Vip,
    /// The edge of the node that announces it; node proxies leave the address alone.
    Proxy,
}

impl IngressMode {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vip => "VIP",
            Self::Proxy => "Proxy",
        }
    }

    /// The mode of an entry in a status.
    pub fn of(ingress: &LoadBalancerIngress) -> Self {
        match ingress.ip_mode.as_deref() {
            Some("Proxy") => Self::Proxy,
            _ => Self::Vip,
        }
    }
}

/// What a Service's status should say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assigned {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// Who takes their packets.
    pub mode: IngressMode,
    /// The name that is told beside them.
    pub hostname: Option<String>,
    /// Why there are none, for people; empty if there are.
    pub why_not: String,
    /// What annotations ask for and is not in force, for people; empty if all is.
    pub remarks: String,
    /// Why no node may announce the addresses, for people; empty if one may.
    pub unannounced: String,
    /// The states of the ports at each address where edges cannot serve one of them as asked.
    pub ports: BTreeMap<IpAddr, Vec<IngressPort>>,
}

/// What is to be written about a Service, in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// What to say before.
    pub before: Vec<Told>,
    /// Whether the finalizer is to be added.
    pub adds_finalizer: bool,
    /// The status to be written.
    pub status: Option<StatusChange>,
    /// Whether the finalizer is to be removed.
    pub removes_finalizer: bool,
    /// What to say when all is written.
    pub after: Vec<Told>,
}

/// A change of a Service's status.
#[derive(Clone, Debug, PartialEq)]
pub enum StatusChange {
    /// Addresses and condition.
    Say(Assigned),
    /// No address and no condition of ours.
    Clear,
}

/// All that the balancer knows.
#[derive(Debug, Default)]
pub struct Core {
    options: Options,
    services: HashMap<ObjectKey, Service>,
    pools: BTreeMap<String, KnownPool>,
    /// The status of the pools that were read, and of those that could not be.
    usage: BTreeMap<String, Vec<AddressPoolUsage>>,
    namespaces: HashMap<String, Labels>,
    /// The nodes that take traffic, and their labels.
    hosts: BTreeMap<String, Labels>,
    book: Pools,
    /// Services that have less than they ask for.
    waiting: BTreeSet<ObjectKey>,
    /// Services that are to be told of other hosts.
    hosts_changed: BTreeSet<ObjectKey>,
    /// What changed about Services since they were last looked at (CCM-08).
    changed: HashMap<ObjectKey, Vec<Told>>,
    /// Reports of the nodes' edges about ports.
    reports: Reports,
    is_settled: bool,
}

impl Core {
    /// A core that knows nothing.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// A Service is there, new or changed; what is to be looked at.
    pub fn service_applied(&mut self, service: Service) -> Vec<Work> {
        let key = service.metadata.key();
        let version = |service: &Service| service.metadata.resource_version.parse().unwrap_or(0_u64);
        if let Some(known) = self.services.get(&key) {
            let is_same_object = known.metadata.uid == service.metadata.uid;
            if is_same_object && version(known) > version(&service) {
                return Vec::new();
            }
            if !is_same_object {
                self.book.release(&holder_of(&key));
                self.changed.remove(&key);
            } else if self.is_settled
                && let Some(told) = changes::of(known, &service)
            {
                self.changed.entry(key.clone()).or_default().extend(told);
            }
        }
        self.services.insert(key.clone(), service);
        vec![Work::Service(key)]
    }

    /// A Service is gone, and with it its hold on addresses.
    pub fn service_deleted(&mut self, key: &ObjectKey) -> Vec<Work> {
        self.services.remove(key);
        self.waiting.remove(key);
        self.hosts_changed.remove(key);
        self.changed.remove(key);
        self.released(key)
    }

    /// A pool is there, new or changed.
    pub fn pool_applied(&mut self, pool: AddressPool) -> Vec<Work> {
        let name = pool.metadata.name.clone();
        self.usage.insert(name.clone(), pool.status.usage.clone());
        match KnownPool::read(pool) {
            Ok((known, pool)) => {
                let is_known = self
                    .pools
                    .get(&name)
                    .is_some_and(|before| before.object.spec == known.object.spec);
                self.pools.insert(name.clone(), known);
                if is_known {
                    return vec![Work::Pool(name)];
                }
                self.book.set(&name, pool);
            }
            Err(error) => {
                tracing::error!(%error, "the pool is left out until it is changed");
                self.pools.remove(&name);
                self.book.remove(&name);
            }
        }
        self.everything()
    }

    /// A pool is gone.
    pub fn pool_deleted(&mut self, name: &str) -> Vec<Work> {
        self.usage.remove(name);
        self.pools.remove(name);
        self.book.remove(name);
        self.everything()
    }

    /// A namespace is there, new or changed.
    pub fn namespace_applied(&mut self, namespace: Namespace) -> Vec<Work> {
        let (name, labels) = (namespace.metadata.name, namespace.metadata.labels);
        if self.namespaces.get(&name) == Some(&labels) {
            return Vec::new();
        }
        let keys = self.services.keys().filter(|key| *key.namespace == *name);
        let work = keys.cloned().map(Work::Service).collect();
        self.namespaces.insert(name, labels);
        work
    }

    /// A namespace is gone.
    pub fn namespace_deleted(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// A Node is there, new or changed (CCM-05, CCM-06). Its labels decide whether it may announce addresses.
    pub fn node_applied(&mut self, node: &Node) -> Vec<Work> {
        let meta = &node.metadata;
        if !takes_traffic(node) {
            return self.node_deleted(&meta.name);
        }
        match self.hosts.insert(meta.name.clone(), meta.labels.clone()) {
            None => self.hosts_moved(true),
            Some(before) if before != meta.labels && self.is_settled => {
                self.balanced().map(Work::Service).collect()
            }
            Some(_) => Vec::new(),
        }
    }

    /// A Node is gone.
    pub fn node_deleted(&mut self, name: &str) -> Vec<Work> {
        let has_changed = self.hosts.remove(name).is_some();
        self.hosts_moved(has_changed)
    }

    /// The edge of a node reports these faults of ports.
    pub fn report_applied(&mut self, node: &str, report: Report) -> Vec<Work> {
        let concerned = self.reports.set(node, report);
        concerned.into_iter().map(Work::Service).collect()
    }

    /// The reports of all edges have been told.
    pub fn reports_synced(&mut self) -> Vec<Work> {
        self.reports.set_known();
        self.balanced().map(Work::Service).collect()
    }

    /// Everything that was there has been told: fills the book from the Services' statuses. Older Services come
    /// first, should two claim one address. What is to be looked at first: all of it.
    pub fn settle(&mut self) -> Vec<Work> {
        let mut services: Vec<(&ObjectKey, &Service)> = self.services.iter().collect();
        services.sort_by_key(|(key, service)| (service.metadata.creation_timestamp.clone(), (*key).clone()));
        for (key, service) in services {
            if !self.is_ours(service) {
                continue;
            }
            let addresses = addresses_of(service);
            let sharing = wish::sharing(service).unwrap_or_default();
            if !self.book.restore(&holder_of(key), &addresses, &sharing) {
                tracing::warn!(service = %key, ?addresses, "an address that another Service holds is taken away");
            }
        }
        self.hosts_changed.clear();
        self.is_settled = true;
        self.everything()
    }

    /// What the usage of a pool should say, if it says something else; and the pool.
    pub fn pool_usage(&self, name: &str) -> Option<(&AddressPool, Vec<AddressPoolUsage>)> {
        let pool = self.pools.get(name)?;
        let is = self.usage.get(name)?;
        let usage = usage(&self.book, name);
        (*is != usage).then_some((&pool.object, usage))
    }

    /// The Service of that key.
    pub fn service(&self, key: &ObjectKey) -> Option<&Service> {
        self.services.get(key)
    }

    /// Whether the finalizer says that we have something to clean up; what others' balancers have is theirs.
    fn is_ours(&self, service: &Service) -> bool {
        let class = service.spec.load_balancer_class.as_deref();
        let has_condition = service.status.conditions.iter().any(|c| c.kind == CONDITION);
        has_condition || (has_finalizer(service) && self.serves(class))
    }

    fn serves(&self, class: Option<&str>) -> bool {
        match class {
            None => self.options.serves_default_class,
            Some(EDGE_CLASS) => self.options.has_edges,
            Some(class) => class == CLASS,
        }
    }

    /// Frees what a Service holds. Who waits may have it.
    fn released(&mut self, key: &ObjectKey) -> Vec<Work> {
        if !self.book.release(&holder_of(key)) {
            return Vec::new();
        }
        let waiting = self.waiting.iter().cloned().map(Work::Service);
        waiting.chain(self.all_pools()).collect()
    }

    fn hosts_moved(&mut self, has_changed: bool) -> Vec<Work> {
        if !has_changed || !self.is_settled {
            return Vec::new();
        }
        let keys: Vec<ObjectKey> = self.balanced().collect();
        self.hosts_changed.extend(keys.iter().cloned());
        keys.into_iter().map(Work::Service).collect()
    }

    /// The Services that have a load balancer.
    fn balanced(&self) -> impl Iterator<Item = ObjectKey> {
        let balanced = self.services.iter().filter(|(_, service)| has_finalizer(service));
        balanced.map(|(key, _)| key.clone())
    }

    fn everything(&self) -> Vec<Work> {
        let services = self.services.keys().cloned().map(Work::Service);
        services.chain(self.all_pools()).collect()
    }

    fn all_pools(&self) -> impl Iterator<Item = Work> {
        self.pools.keys().cloned().map(Work::Pool)
    }
}

fn holder_of(key: &ObjectKey) -> Holder {
    Arc::from(key.to_string())
}

fn has_finalizer(service: &Service) -> bool {
    service.metadata.finalizers.iter().any(|name| name == FINALIZER)
}

/// The addresses that the status says.
fn addresses_of(service: &Service) -> Vec<IpAddr> {
    let ingress = service.status.load_balancer.ingress.iter();
    ingress.filter_map(|ingress| ingress.ip.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
