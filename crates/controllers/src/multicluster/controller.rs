//! State machine of the multi-cluster controller. Inputs are changes of all clusters; outputs are the desired states
//! of imports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use api::multicluster::SERVICE_NAME_LABEL;
use api::object::{EndpointSlice, Namespace, ObjectKey, Service, ServiceExport, ServiceImport};
use client::{Event, WallClock};
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::caches::{CachedObjects, ClusterCache, EXPORTS_MAX, SlicesByService, import_of};
use super::cluster_id::ClusterId;
use super::desired::{DesiredImport, Inputs, Reachability, decide, exporting_clusters};
use super::observed::ObservedImport;
use super::{names, step};

/// Number of a cluster: 0 for this one, then the others in the order of the settings.
pub(super) type ClusterNumber = usize;

/// A change that a watch reports.
#[expect(
    clippy::large_enum_variant,
    reason = "a change is moved once, from a watch to the controller"
)]
pub(super) enum Change {
    Export(ClusterNumber, Event<ServiceExport>),
    Service(ClusterNumber, Event<Service>),
    Slice(ClusterNumber, Event<EndpointSlice>),
    /// An API server responds, or does not respond, since now.
    Reachability(ClusterNumber, Reachability),
    Import(Event<ServiceImport>),
    Mirrored(Event<EndpointSlice>),
    Namespace(Event<Namespace>),
}

/// Imports the Services that the clusters of a set export.
pub(super) struct MultiClusterController {
    clock: WallClock,
    /// Caches of all clusters, the local one first.
    clusters: Vec<ClusterCache>,
    imports: CachedObjects<ServiceImport>,
    mirrored: SlicesByService,
    namespaces: CachedObjects<Namespace>,
}

impl MultiClusterController {
    pub(super) fn new(clock: WallClock, local: ClusterId, others: impl Iterator<Item = ClusterId>) -> Self {
        Self {
            clock,
            // Users of this cluster are bound by its quotas.
            clusters: std::iter::once(ClusterCache::new(local, usize::MAX))
                .chain(others.map(|id| ClusterCache::new(id, EXPORTS_MAX)))
                .collect(),
            imports: CachedObjects::default(),
            mirrored: SlicesByService::new(SERVICE_NAME_LABEL),
            namespaces: CachedObjects::default(),
        }
    }

    /// Applies a change of a cluster; returns the affected imports.
    fn apply_to_cluster(&mut self, number: ClusterNumber, change: Change) -> BTreeSet<ObjectKey> {
        let Some(cluster) = self.clusters.get_mut(number) else {
            return BTreeSet::new();
        };
        let was_synced = cluster.is_synced();
        let mut affected: BTreeSet<ObjectKey> = match change {
            Change::Export(_, event) => cluster.apply_export(event),
            Change::Service(_, event) => {
                let (key, before) = cluster.services.apply(event).unzip();
                let after = key.as_ref().and_then(|key| cluster.services.get(key));
                let before = before.flatten();
                let derived = [before.as_ref(), after];
                let imports: Vec<ObjectKey> = derived.into_iter().flatten().filter_map(import_of).collect();
                let exported = key.filter(|key| cluster.exports.get(key).is_some());
                imports.into_iter().chain(exported).collect()
            }
            Change::Slice(_, event) => {
                let mut services = cluster.slices.apply(event);
                services.retain(|key| cluster.exports.get(key).is_some());
                services
            }
            Change::Reachability(_, reachability) => {
                cluster.reachability = reachability;
                self.all_keys()
            }
            _ => BTreeSet::new(),
        };
        let is_synced = self.clusters.get(number).is_some_and(ClusterCache::is_synced);
        if is_synced && !was_synced {
            affected.extend(self.all_keys());
        }
        affected
    }

    fn apply_namespace(&mut self, event: Event<Namespace>) -> BTreeSet<ObjectKey> {
        let Some((namespace, _)) = self.namespaces.apply(event) else {
            return BTreeSet::new();
        };
        let mut keys = self.all_keys();
        keys.retain(|key| key.namespace == namespace.name);
        keys
    }

    /// Returns the keys of all exports and of all objects of imports.
    fn all_keys(&self) -> BTreeSet<ObjectKey> {
        let exports = self.clusters.iter().flat_map(|cluster| cluster.exports.keys());
        let objects = self.imports.keys().chain(self.mirrored.services());
        exports.chain(objects).cloned().collect()
    }

    fn desired(&self, key: &ObjectKey) -> Option<DesiredImport> {
        let local = &self.clusters.first()?.id;
        let namespace = self.namespaces.get(&ObjectKey::new("", &key.namespace));
        let import = self.imports.get(key);
        Some(decide(&Inputs {
            key,
            has_namespace: namespace.is_some_and(|object| object.metadata.deletion_timestamp.is_none()),
            local,
            clusters: self.clusters.iter().map(|cluster| cluster.state(key)).collect(),
            import,
            importing: exporting_clusters(import, self.mirrored.of(key)),
        }))
    }

    fn observed(&self, key: &ObjectKey) -> ObservedImport {
        let derived = ObjectKey::new(&key.namespace, &names::derived_service(&key.name));
        let local = self.clusters.first();
        ObservedImport {
            import: self.imports.get(key).cloned(),
            service: local.and_then(|cluster| cluster.services.get(&derived)).cloned(),
            slices: self.mirrored.of(key).into_iter().cloned().collect(),
            export: local.and_then(|cluster| cluster.exports.get(key)).cloned(),
            rejection: None,
            rejected_slices: BTreeMap::new(),
        }
    }
}

impl Reconciler for MultiClusterController {
    type Change = Change;
    /// Namespace and name of an import.
    type Key = ObjectKey;
    type Job = DesiredImport;
    type Output = ();
    /// Maximum number of concurrent jobs, as for other controllers of endpoints.
    const CONCURRENT_JOBS_MAX: usize = 5;

    fn tenant(key: &ObjectKey) -> &str {
        &key.namespace
    }

    fn apply_change(&mut self, change: Change, queue: &mut Queue<ObjectKey>, now: Instant) {
        let affected = match change {
            Change::Export(number, _)
            | Change::Service(number, _)
            | Change::Slice(number, _)
            | Change::Reachability(number, _) => self.apply_to_cluster(number, change),
            Change::Import(event) => self
                .imports
                .apply(event)
                .map(|(key, _)| key)
                .into_iter()
                .collect(),
            Change::Mirrored(event) => self.mirrored.apply(event),
            Change::Namespace(event) => self.apply_namespace(event),
        };
        for key in affected {
            queue.add(key, now);
        }
    }

    /// The controller does not wait for other clusters. An import to which an unread cluster contributes stays as it
    /// is.
    fn is_synced(&self) -> bool {
        self.clusters.first().is_some_and(ClusterCache::is_synced)
            && self.imports.is_synced()
            && self.mirrored.is_synced()
            && self.namespaces.is_synced()
    }

    fn reconcile(&mut self, key: &ObjectKey, _now: Instant) -> Action<DesiredImport> {
        let Some(desired) = self.desired(key) else {
            return Action::Done;
        };
        if step::next(&desired, &self.observed(key), self.clock.now()).is_none() {
            return Action::Done;
        }
        Action::Run(desired)
    }

    /// The watches report the writes. A job on older caches reads the objects and finds nothing to write.
    fn on_success(&mut self, _key: &ObjectKey, (): (), _queue: &mut Queue<ObjectKey>, _now: Instant) {}
}

#[cfg(test)]
mod tests;
