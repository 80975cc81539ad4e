//! Rows of a cluster at a revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::object::{EndpointSlice, Node, ObjectKey, Service};
use jiff::Timestamp;

use super::detail::{ServiceDetail, detail};
use super::findings::Findings;
use super::history::{History, Samples};
use super::objects::{Objects, PodPlace};
use super::rows::{Change, NodeRow, ServiceRow, ServiceShape, Snapshot, Totals};
use super::traffic::{ClusterTraffic, ServiceTraffic, Traffic};
use super::{node_row, service_row};

/// Maximum number of Services of a change.
pub const CHANGE_SERVICES_MAX: usize = 500;
/// Maximum number of Nodes of a change.
pub const CHANGE_NODES_MAX: usize = 500;
/// Maximum memory of the rows of a change in bytes. The row of a Service on 5,000 nodes has 120 kB.
pub const CHANGE_BYTES_MAX: usize = 1 << 20;

/// Rows of a cluster. Objects mark the rows that they concern; [`Model::change`] computes these and nothing else.
#[derive(Debug, Default)]
pub struct Model {
    cluster: Arc<str>,
    objects: Objects,
    findings: Findings,
    traffic: Option<ClusterTraffic>,
    revision: u64,
    services: BTreeMap<ObjectKey, ServiceRow>,
    nodes: BTreeMap<Arc<str>, Arc<NodeRow>>,
    /// Endpoints by node, of all rows.
    endpoints_by_node: BTreeMap<Arc<str>, u32>,
    totals: Totals,
    marked_services: BTreeSet<ObjectKey>,
    marked_nodes: BTreeSet<Arc<str>>,
    history: History,
    /// Rows of Services that were computed so far.
    computations: u64,
}

impl Model {
    /// Returns a model without objects. Its changes have revisions after `revision`.
    pub fn new(cluster: &str, revision: u64) -> Self {
        Self {
            cluster: cluster.into(),
            revision,
            ..Self::default()
        }
    }

    /// Adds or replaces a Service.
    pub fn put_service(&mut self, service: Service) {
        let key = self.objects.put_service(service);
        self.marked_services.insert(key);
    }

    /// Removes a Service.
    pub fn remove_service(&mut self, key: &ObjectKey) {
        self.objects.remove_service(key);
        self.marked_services.insert(key.clone());
    }

    /// Adds or replaces an EndpointSlice.
    pub fn put_slice(&mut self, slice: EndpointSlice) {
        let concerned = self.objects.put_slice(slice);
        self.marked_services.extend(concerned);
    }

    /// Removes an EndpointSlice.
    pub fn remove_slice(&mut self, key: &ObjectKey) {
        let concerned = self.objects.remove_slice(key);
        self.marked_services.extend(concerned);
    }

    /// Adds or replaces a Node.
    pub fn put_node(&mut self, node: Node) {
        let name = node.metadata.name.as_str().into();
        self.objects.put_node(node);
        self.marked_nodes.insert(name);
    }

    /// Removes a Node.
    pub fn remove_node(&mut self, name: &str) {
        self.objects.remove_node(name);
        self.marked_nodes.insert(name.into());
    }

    /// Adds or replaces a Pod. No row of a Service depends on it.
    pub fn put_pod(&mut self, key: ObjectKey, place: PodPlace) {
        self.objects.put_pod(key, place);
    }

    /// Removes a Pod.
    pub fn remove_pod(&mut self, key: &ObjectKey) {
        self.objects.remove_pod(key);
    }

    /// Replaces the findings.
    pub fn set_findings(&mut self, findings: Findings) {
        let earlier = std::mem::replace(&mut self.findings, findings);
        self.marked_services
            .extend(self.findings.changed_services(&earlier).cloned());
        self.marked_nodes
            .extend(self.findings.changed_nodes(&earlier).map(Arc::from));
    }

    /// Replaces the traffic. `None` if no node reports flows.
    pub fn set_traffic(&mut self, traffic: Option<ClusterTraffic>) {
        let total = |traffic: Option<&ServiceTraffic>| traffic.map(|traffic| traffic.total);
        let earlier = std::mem::replace(&mut self.traffic, traffic);
        if earlier.is_some() != self.traffic.is_some() {
            return self.marked_services.extend(self.services.keys().cloned());
        }
        for traffic in [&earlier, &self.traffic].into_iter().flatten() {
            for key in traffic.keys() {
                let of = |traffic: &Option<ClusterTraffic>| {
                    total(traffic.as_ref().and_then(|services| services.get(key))).unwrap_or_default()
                };
                if of(&earlier) != of(&self.traffic) && self.services.contains_key(key) {
                    self.marked_services.insert(key.clone());
                }
            }
        }
    }

    /// Returns the objects of the model.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the findings of the latest examination.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Returns the revision of the rows.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns true if [`Model::change`] has rows to compute.
    pub fn is_marked(&self) -> bool {
        !self.marked_services.is_empty() || !self.marked_nodes.is_empty()
    }

    /// Returns the number of rows of Services that were computed so far.
    pub fn computations(&self) -> u64 {
        self.computations
    }

    /// Returns the estimate of the memory of the history in bytes.
    pub fn history_bytes(&self) -> usize {
        self.history.bytes()
    }

    /// Computes marked rows, at most those of one change. `None` if nothing changed.
    pub fn change(&mut self, now: Timestamp) -> Option<Change> {
        let earlier = self.totals;
        let mut change = Change {
            revision: self.revision + 1,
            time: now,
            services: Vec::new(),
            removed_services: Vec::new(),
            nodes: Vec::new(),
            removed_nodes: Vec::new(),
            totals: earlier,
        };
        self.update_service_rows(&mut change);
        self.update_node_rows(&mut change);
        (self.totals.errors, self.totals.warnings) = self.findings.totals();
        self.sum_traffic();
        change.totals = self.totals;
        let has_rows = !change.services.is_empty() || !change.removed_services.is_empty();
        let has_nodes = !change.nodes.is_empty() || !change.removed_nodes.is_empty();
        if !has_rows && !has_nodes && earlier == self.totals {
            return None;
        }
        self.revision += 1;
        Some(change)
    }

    fn update_service_rows(&mut self, change: &mut Change) {
        let mut bytes = 0;
        let mut computed = 0;
        while computed < CHANGE_SERVICES_MAX && bytes < CHANGE_BYTES_MAX {
            let Some(key) = self.marked_services.pop_first() else {
                return;
            };
            computed += 1;
            self.computations += 1;
            let shape = service_row::row_without_traffic(&self.objects, &key, self.findings.counts(&key));
            let earlier = self.services.get(&key);
            // An equal row keeps its memory, which the history shares.
            let next = shape.map(|shape| ServiceRow {
                traffic: self.traffic_of(&key),
                shape: match earlier {
                    Some(row) if *row.shape == shape => Arc::clone(&row.shape),
                    _ => Arc::new(shape),
                },
            });
            if next.as_ref() == earlier {
                continue;
            }
            self.history
                .record_service(&key, earlier, next.as_ref().map(|row| &*row.shape));
            bytes += next.as_ref().map_or(0, |row| row.shape.bytes());
            match &next {
                Some(row) => change.services.push(row.clone()),
                None => change.removed_services.push(key.to_string()),
            }
            self.replace_row(key, next);
        }
    }

    fn replace_row(&mut self, key: ObjectKey, next: Option<ServiceRow>) {
        if let Some(row) = &next {
            self.add_to_totals(&row.shape);
        }
        let earlier = match next {
            Some(row) => self.services.insert(key, row),
            None => self.services.remove(&key),
        };
        if let Some(row) = earlier {
            self.subtract_from_totals(&row.shape);
        }
    }

    fn add_to_totals(&mut self, shape: &ServiceShape) {
        self.totals.services += 1;
        self.totals.endpoints += shape.total;
        self.totals.endpoints_ready += shape.ready;
        for (node, _, total) in &shape.nodes {
            *self.endpoints_by_node.entry(node.clone()).or_default() += total;
            self.marked_nodes.insert(node.clone());
        }
    }

    fn subtract_from_totals(&mut self, shape: &ServiceShape) {
        self.totals.services -= 1;
        self.totals.endpoints -= shape.total;
        self.totals.endpoints_ready -= shape.ready;
        for (node, _, total) in &shape.nodes {
            self.marked_nodes.insert(node.clone());
            if let Some(count) = self.endpoints_by_node.get_mut(node) {
                *count -= total;
                if *count == 0 {
                    self.endpoints_by_node.remove(node);
                }
            }
        }
    }

    fn update_node_rows(&mut self, change: &mut Change) {
        for _ in 0..CHANGE_NODES_MAX {
            let Some(name) = self.marked_nodes.pop_first() else {
                return;
            };
            let endpoints = self.endpoints_by_node.get(&name).copied().unwrap_or_default();
            let next = node_row::row(&self.objects, &name, endpoints, self.findings.of_node(&name));
            let earlier = self.nodes.get(&name);
            if next.as_ref() == earlier.map(|row| &**row) {
                continue;
            }
            self.history.record_node(&name, earlier);
            match next.map(Arc::new) {
                Some(row) => {
                    change.nodes.push(Arc::clone(&row));
                    self.nodes.insert(name, row);
                }
                None => {
                    change.removed_nodes.push(name.to_string());
                    self.nodes.remove(&name);
                }
            }
        }
    }

    /// Returns the traffic of a Service; zero for a Service without flows, absent if no node reports flows.
    fn traffic_of(&self, key: &ObjectKey) -> Option<Traffic> {
        let services = self.traffic.as_ref()?;
        Some(services.get(key).map(|traffic| traffic.total).unwrap_or_default())
    }

    fn sum_traffic(&mut self) {
        let services = self.traffic.as_ref().map(|services| services.values());
        let sums = services.map(|services| {
            services.fold((0u64, 0.0), |(connections, rate), traffic| {
                let total = traffic.total;
                (
                    connections.saturating_add(total.connections),
                    rate + total.connections_per_second,
                )
            })
        });
        self.totals.connections = sums.map(|(connections, _)| connections);
        self.totals.connections_per_second = sums.map(|(_, rate)| rate);
    }

    /// Ends a step of the history.
    pub fn end_step(&mut self, now: Timestamp) {
        self.history.end_step(now, self.totals, self.traffic.is_some());
    }

    /// Returns the rows at the current revision.
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        Snapshot {
            revision: self.revision,
            time: now,
            cluster: self.cluster.clone(),
            nodes: self.nodes.values().cloned().collect(),
            services: self.services.values().cloned().collect(),
            totals: self.totals,
            traffic_known: self.traffic.is_some(),
            history_from: self.history.from(),
        }
    }

    /// Returns the latest kept state that is not later than `time`. `None` if no such state is kept.
    pub fn state_at(&self, now: Timestamp, time: Timestamp) -> Option<Snapshot> {
        let present = self.snapshot(now);
        if time >= now {
            return Some(present);
        }
        self.history.restore(present, time)
    }

    /// Returns the sums of the past hour.
    pub fn samples(&self) -> Samples {
        self.history.samples()
    }

    /// Returns everything about a Service. `None` if it has no row.
    pub fn detail(&self, key: &ObjectKey) -> Option<ServiceDetail> {
        let (row, service) = (self.services.get(key)?, self.objects.service(key)?);
        let traffic = self.traffic.as_ref().and_then(|services| services.get(key));
        let findings = self.findings.of_service(key);
        Some(detail(&self.objects, service, row.clone(), traffic, findings))
    }

    /// Returns the row of a Service.
    pub fn row(&self, key: &ObjectKey) -> Option<&ServiceRow> {
        self.services.get(key)
    }

    /// Returns the keys of all Services with a row.
    pub fn service_keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.services.keys()
    }
}
