//! What arrives: one watch for each kind that a running controller reads.

use api::object::{EndpointSlice, Endpoints, Node, Pod, Resource, Service};
use client::{Client, Event, Query, watch};
use tokio::sync::mpsc::Receiver;

use crate::endpointslice::MANAGED_BY_LABEL;
use crate::selection::{Controller, Selection};
use crate::{endpointslice, mirroring};

/// Watch events that wait between a watch's task and the loop, each kind its own.
const EVENTS_WAITING_MAX: usize = 256;

/// Something that arrived.
pub(super) enum Change {
    Service(Event<Service>),
    Pod(Event<Pod>),
    Node(Event<Node>),
    /// A slice of the EndpointSlice controller.
    Slice(Event<EndpointSlice>),
    /// A slice of the mirroring controller.
    Mirrored(Event<EndpointSlice>),
    Endpoints(Event<Endpoints>),
}

/// All watches.
pub(super) struct Watches {
    services: Source<Service>,
    pods: Source<Pod>,
    nodes: Source<Node>,
    slices: Source<EndpointSlice>,
    mirrored: Source<EndpointSlice>,
    endpoints: Source<Endpoints>,
}

impl Watches {
    /// Watches what the selected controllers read.
    pub(super) fn open(client: &Client, selection: &Selection) -> Self {
        use Controller::{EndpointSlice, EndpointSliceMirroring, Endpoints, PodPlacement};
        let all = Query::default;
        let managed_by = |name: &str| Query {
            label_selector: format!("{MANAGED_BY_LABEL}={name}"),
            ..Query::default()
        };
        let read_by = |readers: &[Controller]| selection.contains_any(readers).then_some(client);
        Self {
            services: Source::open(
                read_by(&[EndpointSlice, Endpoints, EndpointSliceMirroring]),
                all(),
            ),
            pods: Source::open(read_by(&[EndpointSlice, Endpoints, PodPlacement]), all()),
            nodes: Source::open(read_by(&[EndpointSlice, PodPlacement]), all()),
            slices: Source::open(read_by(&[EndpointSlice]), managed_by(endpointslice::MANAGED_BY)),
            mirrored: Source::open(
                read_by(&[EndpointSliceMirroring]),
                managed_by(mirroring::MANAGED_BY),
            ),
            endpoints: Source::open(read_by(&[Endpoints, EndpointSliceMirroring]), all()),
        }
    }

    /// Whether every watch has told everything that was there at one moment.
    pub(super) fn are_synced(&self) -> bool {
        self.services.is_synced
            && self.pods.is_synced
            && self.nodes.is_synced
            && self.slices.is_synced
            && self.mirrored.is_synced
            && self.endpoints.is_synced
    }

    /// Waits for the next change. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Change {
        tokio::select! {
            event = self.services.next() => Change::Service(event),
            event = self.pods.next() => Change::Pod(event),
            event = self.nodes.next() => Change::Node(event),
            event = self.slices.next() => Change::Slice(event),
            event = self.mirrored.next() => Change::Mirrored(event),
            event = self.endpoints.next() => Change::Endpoints(event),
        }
    }

    /// The next change, if one has arrived already.
    pub(super) fn next_ready(&mut self) -> Option<Change> {
        None.or_else(|| self.services.next_ready().map(Change::Service))
            .or_else(|| self.pods.next_ready().map(Change::Pod))
            .or_else(|| self.nodes.next_ready().map(Change::Node))
            .or_else(|| self.slices.next_ready().map(Change::Slice))
            .or_else(|| self.mirrored.next_ready().map(Change::Mirrored))
            .or_else(|| self.endpoints.next_ready().map(Change::Endpoints))
    }
}

/// One watch, or none where nobody reads the kind.
struct Source<T> {
    events: Option<Receiver<Event<T>>>,
    is_synced: bool,
}

impl<T: Resource> Source<T> {
    fn open(client: Option<&Client>, query: Query) -> Self {
        Self {
            events: client.map(|client| watch(client, query).into_channel(EVENTS_WAITING_MAX)),
            is_synced: client.is_none(),
        }
    }

    async fn next(&mut self) -> Event<T> {
        let received = match &mut self.events {
            Some(events) => events.recv().await,
            None => None,
        };
        match received {
            Some(event) => self.noted(event),
            // A watch's task ends with this receiver only.
            None => std::future::pending().await,
        }
    }

    fn next_ready(&mut self) -> Option<Event<T>> {
        let event = self.events.as_mut()?.try_recv().ok()?;
        Some(self.noted(event))
    }

    fn noted(&mut self, event: Event<T>) -> Event<T> {
        self.is_synced |= matches!(event, Event::Synced);
        event
    }
}
