//! One watch for each kind that a running controller reads.

use api::object::{EndpointSlice, Endpoints, Node, Pod, Resource, Service};
use client::{Client, Event, Query, Watch, watch};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::endpoint_slice::MANAGED_BY_LABEL;
use crate::selection::{Controller, Selection};
use crate::{endpoint_slice, mirroring};

/// Capacity of the channel between the task of a watch and the driver.
const EVENTS_WAITING_MAX: usize = 256;

/// A change that a watch reports.
#[expect(
    clippy::large_enum_variant,
    reason = "a channel hands over one change at a time"
)]
pub(super) enum Change {
    Service(EventAtRevision<Service>),
    Pod(EventAtRevision<Pod>),
    Node(EventAtRevision<Node>),
    /// A slice of the EndpointSlice controller.
    Slice(EventAtRevision<EndpointSlice>),
    /// A slice of the mirroring controller.
    Mirrored(EventAtRevision<EndpointSlice>),
    Endpoints(EventAtRevision<Endpoints>),
}

/// An event with the revision of its watch.
pub(super) struct EventAtRevision<T> {
    pub(super) event: Event<T>,
    /// With [`Event::Synced`]: the revision of the complete list.
    pub(super) revision: u64,
}

/// The watches of all kinds.
pub(super) struct Watches {
    services: Source<Service>,
    pods: Source<Pod>,
    nodes: Source<Node>,
    slices: Source<EndpointSlice>,
    mirrored: Source<EndpointSlice>,
    endpoints: Source<Endpoints>,
}

impl Watches {
    /// Opens the watches that the selected controllers need.
    pub(super) fn open(client: &Client, selection: &Selection) -> Self {
        use Controller::{EndpointSlice, EndpointSliceMirroring, Endpoints};
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
            pods: Source::open(read_by(&[EndpointSlice, Endpoints]), all()),
            nodes: Source::open(read_by(&[EndpointSlice]), all()),
            slices: Source::open(read_by(&[EndpointSlice]), managed_by(endpoint_slice::MANAGED_BY)),
            mirrored: Source::open(
                read_by(&[EndpointSliceMirroring]),
                managed_by(mirroring::MANAGED_BY),
            ),
            endpoints: Source::open(read_by(&[Endpoints, EndpointSliceMirroring]), all()),
        }
    }

    /// Returns true if every watch has delivered its initial list.
    pub(super) fn are_synced(&self) -> bool {
        self.services.is_synced
            && self.pods.is_synced
            && self.nodes.is_synced
            && self.slices.is_synced
            && self.mirrored.is_synced
            && self.endpoints.is_synced
    }

    /// Waits for the next change; returns `None` if a watch failed, which leaves its cache outdated. Cancel-safe.
    ///
    /// Slices and Endpoints follow the initial list of Pods, so that they share the texts of the cached Pods
    /// ([`crate::caches::Pods::share_with_slice`]). The allocator would keep the memory of separate texts.
    pub(super) async fn next(&mut self) -> Option<Change> {
        let are_pods_listed = self.pods.is_synced;
        tokio::select! {
            biased;
            arrival = self.services.next() => arrival.map(Change::Service),
            arrival = self.pods.next() => arrival.map(Change::Pod),
            arrival = self.nodes.next() => arrival.map(Change::Node),
            arrival = self.slices.next(), if are_pods_listed => arrival.map(Change::Slice),
            arrival = self.mirrored.next(), if are_pods_listed => arrival.map(Change::Mirrored),
            arrival = self.endpoints.next(), if are_pods_listed => arrival.map(Change::Endpoints),
        }
    }

    /// Returns the next change that has arrived already.
    pub(super) fn next_ready(&mut self) -> Option<Change> {
        let first = None
            .or_else(|| self.services.next_ready().map(Change::Service))
            .or_else(|| self.pods.next_ready().map(Change::Pod))
            .or_else(|| self.nodes.next_ready().map(Change::Node));
        if first.is_some() || !self.pods.is_synced {
            return first;
        }
        None.or_else(|| self.slices.next_ready().map(Change::Slice))
            .or_else(|| self.mirrored.next_ready().map(Change::Mirrored))
            .or_else(|| self.endpoints.next_ready().map(Change::Endpoints))
    }
}

/// A watch, or no watch if no selected controller reads the kind.
struct Source<T> {
    arrivals: Option<Receiver<EventAtRevision<T>>>,
    is_synced: bool,
}

impl<T: Resource> Source<T> {
    fn open(client: Option<&Client>, query: Query) -> Self {
        let open = |client| {
            let (sender, receiver) = channel(EVENTS_WAITING_MAX);
            tokio::spawn(forward(watch(client, query), sender));
            receiver
        };
        Self {
            arrivals: client.map(open),
            is_synced: client.is_none(),
        }
    }

    /// Waits for the next event; returns `None` if the task of the watch ended, which is a defect.
    async fn next(&mut self) -> Option<EventAtRevision<T>> {
        let received = match &mut self.arrivals {
            Some(arrivals) => arrivals.recv().await,
            None => std::future::pending().await,
        };
        received.map(|arrival| self.record_synced(arrival))
    }

    fn next_ready(&mut self) -> Option<EventAtRevision<T>> {
        let arrival = self.arrivals.as_mut()?.try_recv().ok()?;
        Some(self.record_synced(arrival))
    }

    fn record_synced(&mut self, arrival: EventAtRevision<T>) -> EventAtRevision<T> {
        self.is_synced |= matches!(arrival.event, Event::Synced);
        arrival
    }
}

/// Forwards the events of a watch until the receiver is dropped. It runs in a task of its own, because a cancelled
/// `Watch::next` would cancel a request.
async fn forward<T: Resource>(mut watch: Watch<T>, sender: Sender<EventAtRevision<T>>) {
    loop {
        let event = tokio::select! {
            biased;
            () = sender.closed() => return,
            event = watch.next() => event,
        };
        let arrival = EventAtRevision {
            revision: watch.revision(),
            event,
        };
        if sender.send(arrival).await.is_err() {
            return;
        }
    }
}
