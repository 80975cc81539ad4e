//! Watches of the edge server.

use std::collections::BTreeSet;
use std::future::pending;

use api::object::{EndpointSlice, Ingress, IngressClass, Node, Resource, Service};
use client::{Client, Event, Query, watch};
use tokio::sync::mpsc::Receiver;

use crate::serving::state::EdgeState;

/// Capacity of the channel between a watch and the loop.
const WATCH_EVENTS_MAX: usize = 1_024;

/// Watches of this Node, of Services and of EndpointSlices.
pub(super) struct Watches {
    client: Client,
    /// The own Node, for its zone.
    pub(super) node: Receiver<Event<Node>>,
    pub(super) services: Receiver<Event<Service>>,
    has_services: bool,
    /// Open only while there are Services of the edge: most clusters have none, and many EndpointSlices.
    pub(super) slices: Option<Receiver<Event<EndpointSlice>>>,
    has_slices: bool,
    /// Open only while this edge serves a class of Ingresses, as the next two.
    pub(super) classes: Option<Receiver<Event<IngressClass>>>,
    pub(super) ingresses: Option<Receiver<Event<Ingress>>>,
    /// All Services, to which routes may lead.
    pub(super) targets: Option<Receiver<Event<Service>>>,
    /// Kinds of these three whose initial list is complete.
    synced_of_ingresses: BTreeSet<&'static str>,
}

/// Number of watches for Ingresses.
const WATCHES_OF_INGRESSES: usize = 3;

impl Watches {
    /// Starts the watches.
    pub(super) fn start(client: &Client, node_name: &str) -> Self {
        let own_node = Query {
            field_selector: format!("metadata.name={node_name}"),
            ..Query::default()
        };
        Self {
            client: client.clone(),
            node: watch(client, own_node).into_channel(WATCH_EVENTS_MAX),
            services: watch(client, Query::default()).into_channel(WATCH_EVENTS_MAX),
            has_services: false,
            slices: None,
            has_slices: false,
            classes: None,
            ingresses: None,
            targets: None,
            synced_of_ingresses: BTreeSet::new(),
        }
    }

    /// Returns true if the initial lists of all necessary kinds are complete.
    pub(super) fn are_synced(&self, state: &EdgeState) -> bool {
        self.has_services && (self.has_slices || !state.has_services())
    }

    /// Opens or closes the watch of EndpointSlices.
    pub(super) fn follow_slices(&mut self, state: &mut EdgeState) {
        if state.has_services() && self.slices.is_none() {
            self.slices = Some(watch(&self.client, Query::default()).into_channel(WATCH_EVENTS_MAX));
        } else if !state.has_services() && self.slices.is_some() {
            self.slices = None;
            self.has_slices = false;
            state.clear_slices();
        }
    }

    /// Opens or closes the watches for Ingresses.
    pub(super) fn follow_ingresses(&mut self, state: &mut EdgeState) {
        let has_classes = state.has_classes();
        if has_classes && self.ingresses.is_none() {
            let client = &self.client;
            self.classes = Some(watch(client, Query::default()).into_channel(WATCH_EVENTS_MAX));
            self.ingresses = Some(watch(client, Query::default()).into_channel(WATCH_EVENTS_MAX));
            self.targets = Some(watch(client, Query::default()).into_channel(WATCH_EVENTS_MAX));
        } else if !has_classes && self.ingresses.is_some() {
            (self.classes, self.ingresses, self.targets) = (None, None, None);
            self.synced_of_ingresses.clear();
            state.clear_ingresses();
        }
    }

    /// Applies an event about an IngressClass.
    pub(super) fn apply_class(&mut self, event: Event<IngressClass>, state: &mut EdgeState) {
        match event {
            Event::Applied(class) => state.apply_class(class),
            Event::Deleted(key) => state.remove_class(&key),
            Event::Synced => self.add_synced(IngressClass::KIND, state),
            Event::Malformed { key, error } => {
                tracing::error!(class = %key, error, "malformed IngressClass ignored");
            }
        }
    }

    /// Applies an event about an Ingress.
    pub(super) fn apply_ingress(&mut self, event: Event<Ingress>, state: &mut EdgeState) {
        match event {
            Event::Applied(ingress) => state.apply_ingress(ingress),
            Event::Deleted(key) => state.remove_ingress(&key),
            Event::Synced => self.add_synced(Ingress::KIND, state),
            Event::Malformed { key, error } => {
                tracing::error!(ingress = %key, error, "malformed Ingress ignored");
            }
        }
    }

    /// Applies an event about a Service to which routes may lead.
    pub(super) fn apply_target(&mut self, event: Event<Service>, state: &mut EdgeState) {
        match event {
            Event::Applied(service) => state.apply_target(service),
            Event::Deleted(key) => state.remove_target(&key),
            Event::Synced => self.add_synced(Service::KIND, state),
            Event::Malformed { key, error } => {
                tracing::error!(service = %key, error, "malformed Service ignored");
            }
        }
    }

    /// Records a complete list. A later list, after a failed watch, has no effect.
    fn add_synced(&mut self, kind: &'static str, state: &mut EdgeState) {
        let is_new = self.synced_of_ingresses.insert(kind);
        if is_new && self.synced_of_ingresses.len() == WATCHES_OF_INGRESSES {
            state.ingresses_synced();
        }
    }

    /// Applies an event about a Service.
    pub(super) fn apply_service(&mut self, event: Event<Service>, state: &mut EdgeState) {
        match event {
            Event::Applied(service) => state.apply_service(service),
            Event::Deleted(key) => state.remove_service(&key),
            Event::Synced => self.has_services = true,
            Event::Malformed { key, error } => {
                tracing::error!(service = %key, error, "malformed Service ignored");
            }
        }
    }

    /// Applies an event about an EndpointSlice.
    pub(super) fn apply_slice(&mut self, event: Event<EndpointSlice>, state: &mut EdgeState) {
        match event {
            Event::Applied(slice) => state.apply_slice(slice),
            Event::Deleted(key) => state.remove_slice(&key),
            Event::Synced => self.has_slices = true,
            Event::Malformed { key, error } => {
                tracing::error!(slice = %key, error, "malformed EndpointSlice ignored");
            }
        }
    }

    /// Applies events that are ready, at most `max` of each kind.
    pub(super) fn apply_ready(&mut self, max: usize, state: &mut EdgeState) {
        for _ in 0..max {
            let Ok(event) = self.services.try_recv() else {
                break;
            };
            self.apply_service(event, state);
        }
        for _ in 0..max {
            let Some(Ok(event)) = self.slices.as_mut().map(Receiver::try_recv) else {
                break;
            };
            self.apply_slice(event, state);
        }
        for _ in 0..max {
            let Some(Ok(event)) = self.targets.as_mut().map(Receiver::try_recv) else {
                break;
            };
            self.apply_target(event, state);
        }
        for _ in 0..max {
            let Some(Ok(event)) = self.ingresses.as_mut().map(Receiver::try_recv) else {
                break;
            };
            self.apply_ingress(event, state);
        }
    }
}

/// Returns the next event of a watch; never resolves while it is closed.
pub(super) async fn next<T>(events: &mut Option<Receiver<T>>) -> Option<T> {
    match events {
        Some(events) => events.recv().await,
        None => pending().await,
    }
}
