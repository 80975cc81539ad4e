//! Watches of the API, applied to the model of the cluster in batches.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::object::{EndpointSlice, Node, ObjectKey, Resource, Service};
use client::{Client, Event, Query};
use tokio::sync::mpsc::Receiver;

use super::Settings;
use crate::configuration::{self, Configurations, Objects};
use crate::routes::Cluster;

/// Capacity of the queue of watch events per kind.
const EVENTS_QUEUED_MAX: usize = 1_024;
/// Maximum number of events in a batch.
const BATCH_EVENTS_MAX: usize = 4_096;

/// Event of a watch.
#[expect(
    clippy::large_enum_variant,
    reason = "each value is applied at once and never stored"
)]
enum Input {
    Service(Event<Service>),
    Slice(Event<EndpointSlice>),
    Node(Event<Node>),
}

/// Watches and the model of the cluster.
pub(super) struct Inputs {
    pub(super) cluster: Cluster,
    /// Configuration objects as last read.
    pub(super) objects: Option<Arc<Objects>>,
    services: Receiver<Event<Service>>,
    slices: Receiver<Event<EndpointSlice>>,
    nodes: Receiver<Event<Node>>,
    configurations: Configurations,
    /// Kinds whose initial list has not arrived.
    unsynced: BTreeSet<&'static str>,
}

impl Inputs {
    /// Starts the watches.
    pub(super) fn start(client: &Client, settings: &Settings) -> Self {
        Self {
            cluster: Cluster::new(settings.ignores_exclude_label),
            objects: None,
            services: watch_all(client),
            slices: watch_all(client),
            nodes: watch_all(client),
            configurations: configuration::watch(client, settings.metallb_namespace.as_deref()),
            unsynced: BTreeSet::from([Service::KIND, EndpointSlice::KIND, Node::KIND]),
        }
    }

    /// Returns true if all objects are known. Before that no session starts, because a peer with graceful restart would
    /// drop the routes that are not announced yet.
    pub(super) fn are_synced(&self) -> bool {
        self.unsynced.is_empty() && self.objects.is_some()
    }

    /// Waits for a change and applies it with those queued behind it. Cancel safe.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            Some(event) = self.services.recv() => self.apply(Input::Service(event)),
            Some(event) = self.slices.recv() => self.apply(Input::Slice(event)),
            Some(event) = self.nodes.recv() => self.apply(Input::Node(event)),
            Ok(()) = self.configurations.changed() => self.apply_objects(),
            else => std::future::pending().await,
        }
        for _ in 0..BATCH_EVENTS_MAX {
            if let Ok(event) = self.services.try_recv() {
                self.apply(Input::Service(event));
            } else if let Ok(event) = self.slices.try_recv() {
                self.apply(Input::Slice(event));
            } else if let Ok(event) = self.nodes.try_recv() {
                self.apply(Input::Node(event));
            } else {
                break;
            }
        }
    }

    fn apply_objects(&mut self) {
        let objects = self.configurations.borrow_and_update().clone();
        if let Some(objects) = objects {
            self.cluster.set_pools(&objects);
            self.objects = Some(objects);
        }
    }

    fn apply(&mut self, input: Input) {
        match input {
            Input::Service(Event::Applied(service)) => self.cluster.service_applied(&service),
            Input::Service(Event::Deleted(key)) => self.cluster.service_deleted(&key),
            Input::Service(Event::Synced) => self.synced(Service::KIND),
            Input::Service(Event::Malformed { key, error }) => log_malformed(Service::KIND, &key, &error),
            Input::Slice(Event::Applied(slice)) => self.cluster.slice_applied(&slice),
            Input::Slice(Event::Deleted(key)) => self.cluster.slice_deleted(&key),
            Input::Slice(Event::Synced) => self.synced(EndpointSlice::KIND),
            Input::Slice(Event::Malformed { key, error }) => log_malformed(EndpointSlice::KIND, &key, &error),
            Input::Node(Event::Applied(node)) => self.cluster.node_applied(&node),
            Input::Node(Event::Deleted(key)) => self.cluster.node_deleted(&key.name),
            Input::Node(Event::Synced) => self.synced(Node::KIND),
            Input::Node(Event::Malformed { key, error }) => log_malformed(Node::KIND, &key, &error),
        }
    }

    fn synced(&mut self, kind: &'static str) {
        self.unsynced.remove(kind);
    }
}

fn watch_all<T: Resource>(client: &Client) -> Receiver<Event<T>> {
    client::watch(client, Query::default()).into_channel(EVENTS_QUEUED_MAX)
}

fn log_malformed(kind: &'static str, key: &ObjectKey, error: &str) {
    tracing::error!(kind, object = %key, error, "malformed object ignored");
}
