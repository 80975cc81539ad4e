//! Plan of one node, updated incrementally.
//!
//! A Service or slice is reduced to a compact record. It marks its own Service, and those whose claims on frontends
//! change with it. Changes of this Node mark all Services. [`Plan::take_changes`] decides the marked Services again and
//! compares the decisions with the previous ones. Data planes therefore receive only Services whose decisions differ.
//! The plan has no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{EndpointSlice, ObjectKey, Protocol, Service};
use ipnet::IpNet;

use crate::claims::{Claims, FrontendKey};
use crate::departed_endpoints::{DepartedEndpoint, DepartedList};
use crate::fault::Fault;
use crate::interner::Interner;
use crate::port_ranges::PortRange;
use crate::ports::{Inputs, ServiceDecisions};
use crate::service::ServiceRecord;
use crate::settings::{NodeFacts, NodePortAddresses, PodDetection, Settings};
use crate::slice::SliceRecord;
use crate::types::{
    Changes, Family, Frontend, FrontendKind, HealthCheck, Origin, PingPlan, ServicePortPlan, Target, Totals,
    WithdrawnFrontend,
};

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Decisions of one node for all Services.
///
/// Changes of objects take effect with [`Plan::take_changes`]. Until then, the plan returns the previous decisions.
pub struct Plan {
    settings: Settings,
    node: NodeFacts,
    services: BTreeMap<ObjectKey, ServiceEntry>,
    /// Service of each slice.
    slice_owners: BTreeMap<ObjectKey, Arc<str>>,
    claims: Claims,
    names: Interner,
    changed_services: BTreeSet<ObjectKey>,
    departed: DepartedList,
    needs_full_write: bool,
    totals: [Totals; 2],
}

/// State of a Service. Slices may exist before their Service.
#[derive(Default)]
struct ServiceEntry {
    record: Option<Box<ServiceRecord>>,
    /// Slices sorted by name. Most Services have one slice, and a list needs less memory than a tree.
    slices: Vec<(Arc<str>, SliceRecord)>,
    decided: ServiceDecisions,
}

impl Plan {
    /// Creates an empty plan. Its first changes request a full write.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            node: NodeFacts::default(),
            services: BTreeMap::new(),
            slice_owners: BTreeMap::new(),
            claims: Claims::default(),
            names: Interner::default(),
            changed_services: BTreeSet::new(),
            departed: DepartedList::default(),
            needs_full_write: true,
            totals: [Totals::default(); 2],
        }
    }

    /// Adds or updates a Service. A Service that no proxy serves (KPR-11, API-48) is removed.
    pub fn apply_service(&mut self, service: &Service) {
        let key = self.key(&service.metadata.namespace, &service.metadata.name);
        match ServiceRecord::read(service, &self.settings, &mut self.names) {
            Some(record) => self.set_record(key, Some(Box::new(record))),
            None => self.remove_service(&key),
        }
    }

    /// Removes a Service.
    pub fn remove_service(&mut self, key: &ObjectKey) {
        if self.services.get(key).is_some_and(|entry| entry.record.is_some()) {
            self.set_record(key.clone(), None);
        }
    }

    /// Adds or updates a slice. A slice without a Service or with names is removed. The label of another proxy has no
    /// effect on slices (KPR-01).
    pub fn apply_slice(&mut self, slice: &EndpointSlice) {
        let key = self.key(&slice.metadata.namespace, &slice.metadata.name);
        let owner = slice.service_name();
        let record = SliceRecord::read(slice, &self.settings.node_name, &mut self.names);
        let (Some(owner), Some(record)) = (owner, record) else {
            return self.remove_slice(&key);
        };
        if self
            .slice_owners
            .get(&key)
            .is_some_and(|former| **former != *owner)
        {
            self.remove_slice(&key);
        }
        let owner = self.key(&slice.metadata.namespace, owner);
        self.slice_owners.insert(key.clone(), owner.name.clone());
        let entry = self.services.entry(owner.clone()).or_default();
        if entry.set_slice(&owner, key.name, record, &mut self.departed) {
            self.changed_services.insert(owner);
        }
    }

    /// Removes a slice.
    pub fn remove_slice(&mut self, key: &ObjectKey) {
        let Some(name) = self.slice_owners.remove(key) else {
            return;
        };
        let owner = ObjectKey {
            namespace: key.namespace.clone(),
            name,
        };
        if let Some(entry) = self.services.get_mut(&owner) {
            for (_, slice) in entry.slices.extract_if(.., |(name, _)| *name == key.name) {
                self.departed.record(&owner, &slice, None);
            }
            self.changed_services.insert(owner);
        }
    }

    /// Sets the facts of this Node. All Services are decided again if they changed.
    pub fn set_node(&mut self, node: NodeFacts) {
        if self.node != node {
            let pings = self.ping_addresses();
            self.node = node;
            self.needs_full_write |= pings != self.ping_addresses();
            self.changed_services.extend(self.services.keys().cloned());
        }
    }

    /// Sets the detection of Pods. All Services are decided again if it changed.
    pub fn set_pods(&mut self, pods: PodDetection) {
        if self.settings.pods != pods {
            self.settings.pods = pods;
            self.needs_full_write = true;
            self.changed_services.extend(self.services.keys().cloned());
        }
    }

    /// Sets masquerading of all traffic to cluster IPs. All Services are decided again if it changed.
    pub fn set_masquerade_all(&mut self, masquerade_all: bool) {
        if self.settings.masquerade_all != masquerade_all {
            self.settings.masquerade_all = masquerade_all;
            self.changed_services.extend(self.services.keys().cloned());
        }
    }

    /// Sets the Service CIDRs.
    pub fn set_service_cidrs(&mut self, service_cidrs: Vec<IpNet>) {
        if self.settings.service_cidrs != service_cidrs {
            self.settings.service_cidrs = service_cidrs;
            self.needs_full_write = true;
        }
    }

    /// Sets the addresses of this node and of node ports.
    pub fn set_node_addresses(&mut self, node_addresses: Vec<IpAddr>, node_ports: NodePortAddresses) {
        let pings = self.ping_addresses();
        let before = FAMILIES.map(|family| self.settings.node_port_ips(family));
        self.settings.node_addresses = node_addresses;
        self.settings.node_port_addresses = node_ports;
        let after = FAMILIES.map(|family| self.settings.node_port_ips(family));
        self.needs_full_write |= before != after;
        if pings != self.ping_addresses() {
            self.needs_full_write = true;
            self.changed_services.extend(self.services.keys().cloned());
        }
    }

    /// Returns the address of this node that answers echo requests to Services; `None` if no address does.
    pub fn ping_address(&self, family: Family) -> Option<IpAddr> {
        self.settings.ping_address(&self.node, family)
    }

    fn ping_addresses(&self) -> [Option<IpAddr>; 2] {
        FAMILIES.map(|family| self.ping_address(family))
    }

    /// Decides all changed Services again. Returns the changes since the previous call.
    pub fn take_changes(&mut self) -> Changes {
        let mut changes = Changes {
            needs_full_write: self.needs_full_write,
            ..Changes::default()
        };
        self.needs_full_write = false;
        for key in std::mem::take(&mut self.changed_services) {
            self.decide_service(key, &mut changes);
        }
        changes
    }

    /// Returns true if endpoints of other nodes have left without termination since the last [`Plan::take_departed`].
    pub fn has_departed(&self) -> bool {
        !self.departed.is_empty()
    }

    /// Returns the endpoints of other nodes that left without termination since the previous call.
    pub fn take_departed(&mut self) -> Vec<DepartedEndpoint> {
        self.departed.take()
    }

    /// Requests a full write with the next changes.
    pub fn mark_everything(&mut self) {
        self.needs_full_write = true;
    }

    /// Returns the decisions for the ports of a Service; none if it is not served.
    pub fn ports_of(&self, service: &ObjectKey) -> impl Iterator<Item = &ServicePortPlan> {
        self.services
            .get(service)
            .into_iter()
            .flat_map(|entry| &entry.decided.ports)
    }

    /// Returns the decisions for the port ranges of a Service.
    pub fn ranges_of(&self, service: &ObjectKey) -> impl Iterator<Item = &ServicePortPlan> {
        self.services
            .get(service)
            .into_iter()
            .flat_map(|entry| &entry.decided.ranges)
    }

    /// Returns the decisions about echo requests to the addresses of a Service.
    pub fn pings_of(&self, service: &ObjectKey) -> impl Iterator<Item = &PingPlan> {
        self.services
            .get(service)
            .into_iter()
            .flat_map(|entry| &entry.decided.pings)
    }

    /// Returns the served Services, sorted.
    pub fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        let served = self
            .services
            .iter()
            .filter(|(_, entry)| !entry.decided.ports.is_empty());
        served.map(|(key, _)| key)
    }

    /// Returns the decisions for all Service ports, ordered by Service.
    pub fn ports(&self) -> impl Iterator<Item = &ServicePortPlan> {
        self.services.values().flat_map(|entry| &entry.decided.ports)
    }

    /// Returns the decisions for all port ranges, ordered by Service.
    pub fn ranges(&self) -> impl Iterator<Item = &ServicePortPlan> {
        self.services.values().flat_map(|entry| &entry.decided.ranges)
    }

    /// Returns true if an address is the cluster IP of a served Service. Its other ports are rejected (NFT-09).
    pub fn is_cluster_ip(&self, address: IpAddr) -> bool {
        self.claims.has_cluster_ip(address)
    }

    /// Returns a frontend with its Service port.
    pub fn frontend(
        &self,
        family: Family,
        address: Option<IpAddr>,
        protocol: Protocol,
        port: u16,
    ) -> Option<(&ServicePortPlan, &Frontend)> {
        let owner = self.claims.owner(&FrontendKey {
            family,
            address,
            protocol,
            port,
        })?;
        self.ports_of(&owner.service)
            .filter(|plan| plan.key.protocol == protocol && plan.key.family == family)
            .find_map(|plan| {
                let own = plan
                    .frontends
                    .iter()
                    .find(|own| own.address == address && own.port == port)?;
                Some((plan, own))
            })
    }

    /// Returns the frontend of the port range that contains a port, with the ranges of its Service.
    pub fn range_frontend(
        &self,
        address: IpAddr,
        protocol: Protocol,
        port: u16,
    ) -> Option<(&ServicePortPlan, &Frontend)> {
        let range = PortRange::new(port, port)?;
        let owner = self.claims.range_owner(address, protocol, range)?;
        self.ranges_of(owner)
            .filter(|plan| plan.key.protocol == protocol)
            .find_map(|plan| {
                let mut own = plan.frontends.iter();
                let found = own.find(|own| own.address == Some(address) && own.has_port(port))?;
                Some((plan, found))
            })
    }

    /// Returns the decision about echo requests to an address, with its Service.
    pub fn ping_frontend(&self, address: IpAddr) -> Option<(&PingPlan, &Frontend)> {
        let owner = self.claims.ping_owner(address)?;
        self.pings_of(owner).find_map(|plan| {
            let mut own = plan.frontends.iter();
            let found = own.find(|own| own.address == Some(address))?;
            Some((plan, found))
        })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the facts of this Node.
    pub fn node(&self) -> &NodeFacts {
        &self.node
    }

    /// Returns the UID of a Service, "" if it has none.
    pub fn uid_of(&self, service: &ObjectKey) -> &str {
        let record = self.services.get(service).and_then(|entry| entry.record.as_ref());
        record.map_or("", |record| &record.uid)
    }

    /// Returns a number that orders Services by their creation; 0 without a time.
    pub fn creation_order(&self, service: &ObjectKey) -> u64 {
        let record = self.services.get(service).and_then(|entry| entry.record.as_ref());
        record.map_or(0, |record| record.created)
    }

    /// Returns true if a Service requests two-tier forwarding, whether or not this node supports it.
    pub fn requests_two_tier(&self, service: &ObjectKey) -> bool {
        let record = self.services.get(service).and_then(|entry| entry.record.as_ref());
        record.is_some_and(|record| record.requests_two_tier)
    }

    /// Returns the state of a Service's health check node port.
    pub fn health_check(&self, service: &ObjectKey) -> Option<HealthCheck> {
        self.services.get(service)?.decided.health_check
    }

    /// Returns all health checks, ordered by Service.
    pub fn health_checks(&self) -> impl Iterator<Item = (&ObjectKey, HealthCheck)> {
        self.services
            .iter()
            .filter_map(|(key, entry)| Some((key, entry.decided.health_check?)))
    }

    /// Returns the faults of a Service.
    pub fn faults_of(&self, service: &ObjectKey) -> impl Iterator<Item = &Fault> {
        self.services
            .get(service)
            .into_iter()
            .flat_map(ServiceEntry::faults)
    }

    /// Returns all faults, ordered by Service.
    pub fn faults(&self) -> impl Iterator<Item = (&ObjectKey, &Fault)> {
        self.services
            .iter()
            .flat_map(|(key, entry)| entry.faults().map(move |fault| (key, fault)))
    }

    /// Returns the totals of a family.
    pub fn totals(&self, family: Family) -> Totals {
        self.totals[family as usize]
    }

    /// Returns the served Services with their slices, ordered by name.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&ObjectKey, &ServiceRecord, Vec<&SliceRecord>)> {
        self.services.iter().filter_map(|(key, entry)| {
            let slices = entry.slices.iter().map(|(_, slice)| slice).collect();
            Some((key, entry.record.as_deref()?, slices))
        })
    }

    fn key(&mut self, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey {
            namespace: self.names.intern(namespace),
            name: name.into(),
        }
    }

    fn set_record(&mut self, key: ObjectKey, record: Option<Box<ServiceRecord>>) {
        let entry = self.services.entry(key.clone()).or_default();
        if entry.record == record {
            return;
        }
        if let Some(former) = &entry.record {
            self.changed_services.extend(self.claims.remove(&key, former));
        }
        if let Some(record) = &record {
            self.changed_services.extend(self.claims.add(&key, record));
        }
        entry.record = record;
        self.changed_services.insert(key);
    }

    /// Decides one Service again and adds the differences to `changes`.
    fn decide_service(&mut self, key: ObjectKey, changes: &mut Changes) {
        let Some(entry) = self.services.get_mut(&key) else {
            return;
        };
        let decided = match &entry.record {
            Some(record) => {
                let slices = entry.slices.iter().map(|(_, slice)| slice).collect();
                let (claims, settings, node) = (&self.claims, &self.settings, &self.node);
                Inputs {
                    key: &key,
                    record,
                    slices,
                    claims,
                    settings,
                    node,
                }
                .decide()
            }
            None => ServiceDecisions::default(),
        };
        if entry.record.is_none() && entry.slices.is_empty() {
            if let Some(entry) = self.services.remove(&key) {
                self.record_change(key, &entry.decided, &decided, changes);
            }
        } else if entry.decided != decided {
            let before = std::mem::take(&mut entry.decided);
            self.record_change(key.clone(), &before, &decided, changes);
            if let Some(entry) = self.services.get_mut(&key) {
                entry.decided = decided;
            }
        }
    }

    fn record_change(
        &mut self,
        key: ObjectKey,
        before: &ServiceDecisions,
        after: &ServiceDecisions,
        changes: &mut Changes,
    ) {
        if before.health_check != after.health_check {
            changes.health_checks.push(key.clone());
        }
        if before.ports == after.ports && before.ranges == after.ranges && before.pings == after.pings {
            return;
        }
        for port in &before.ports {
            count(&mut self.totals[port.key.family as usize], port, |total, by| {
                *total -= by
            });
        }
        for port in &after.ports {
            count(&mut self.totals[port.key.family as usize], port, |total, by| {
                *total += by
            });
        }
        let left: BTreeSet<WithdrawnFrontend> = datagram_frontends(after).collect();
        let gone = datagram_frontends(before).filter(|frontend| !left.contains(frontend));
        changes.withdrawn.extend(gone);
        changes.services.push(key);
    }
}

impl ServiceEntry {
    /// Stores a slice of a Service. Returns true if it changed.
    fn set_slice(
        &mut self,
        service: &ObjectKey,
        name: Arc<str>,
        record: SliceRecord,
        departed: &mut DepartedList,
    ) -> bool {
        match self.slices.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(index) => {
                let changes = self.slices.get(index).is_none_or(|(_, known)| *known != record);
                if let Some(slot) = self.slices.get_mut(index).filter(|_| changes) {
                    departed.record(service, &slot.1, Some(&record));
                    slot.1 = record;
                }
                changes
            }
            Err(index) => {
                self.slices.reserve_exact(1);
                self.slices.insert(index, (name, record));
                true
            }
        }
    }

    fn faults(&self) -> impl Iterator<Item = &Fault> {
        // Faults of slices without their Service are irrelevant.
        let slices = self.slices.iter().filter(|_| self.record.is_some());
        let record_faults = self.record.iter().flat_map(|record| &record.faults);
        record_faults
            .chain(&self.decided.conflicts)
            .chain(slices.filter_map(|(_, slice)| slice.fault.as_deref()))
    }
}

/// Adds a Service port to totals, or subtracts it.
fn count(totals: &mut Totals, port: &ServicePortPlan, add: impl Fn(&mut usize, usize)) {
    add(&mut totals.ports, 1);
    add(&mut totals.endpoints, port.cluster.len().max(port.local.len()));
    let drops = |is_cluster_ip: bool| {
        port.frontends.iter().any(|frontend| {
            (frontend.kind == FrontendKind::ClusterIp) == is_cluster_ip
                && frontend.target(Origin::Outside) == Target::Drop
        })
    };
    add(&mut totals.internal_without_local, usize::from(drops(true)));
    // With two-tier forwarding, another node serves the connections.
    let drops_external = port.serving_nodes.is_none() && drops(false);
    add(&mut totals.external_without_local, usize::from(drops_external));
}

/// Returns the frontends whose flows outlive their endpoints.
fn datagram_frontends(decided: &ServiceDecisions) -> impl Iterator<Item = WithdrawnFrontend> {
    let ports = decided.ports.iter().chain(&decided.ranges);
    let ports = ports.filter(|port| port.key.protocol != Protocol::Tcp);
    ports.flat_map(|port| {
        port.frontends.iter().map(|frontend| WithdrawnFrontend {
            family: port.key.family,
            protocol: port.key.protocol,
            address: frontend.address,
            port: frontend.port,
            last_port: frontend.last_port,
        })
    })
}

#[cfg(test)]
mod tests;
