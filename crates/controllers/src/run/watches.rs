//! What arrives: one watch for each kind that a running controller reads.

use api::object::{EndpointSlice, Endpoints, Node, Pod, Resource, Service};
use client::{Client, Event, Query, Watch, watch};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::endpointslice::MANAGED_BY_LABEL;
use crate::selection::{Controller, Selection};
use crate::{endpointslice, mirroring};

/// Watch events that wait between a watch's task and the loop, each kind its own.
const EVENTS_WAITING_MAX: usize = 256;

/// Something that arrived.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time is on its way from a channel to the caches"
)]
pub(super) enum Change {
    Service(Arrival<Service>),
    Pod(Arrival<Pod>),
    Node(Arrival<Node>),
    /// A slice of the EndpointSlice controller.
    Slice(Arrival<EndpointSlice>),
    /// A slice of the mirroring controller.
    Mirrored(Arrival<EndpointSlice>),
    Endpoints(Arrival<Endpoints>),
}

/// An event of a watch.
pub(super) struct Arrival<T> {
    pub(super) event: Event<T>,
    /// With [`Event::Synced`], the revision of the list that is complete now.
    pub(super) revision: u64,
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

    /// Waits for the next change; `None` if a watch failed, whose cache nothing mends. Dropping the future
    /// loses nothing.
    pub(super) async fn next(&mut self) -> Option<Change> {
        tokio::select! {
            biased;
            arrival = self.services.next() => arrival.map(Change::Service),
            arrival = self.pods.next() => arrival.map(Change::Pod),
            arrival = self.nodes.next() => arrival.map(Change::Node),
            arrival = self.slices.next() => arrival.map(Change::Slice),
            arrival = self.mirrored.next() => arrival.map(Change::Mirrored),
            arrival = self.endpoints.next() => arrival.map(Change::Endpoints),
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
    arrivals: Option<Receiver<Arrival<T>>>,
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

    /// The next event; `None` if the watch failed, which is a defect.
    async fn next(&mut self) -> Option<Arrival<T>> {
        let received = match &mut self.arrivals {
            Some(arrivals) => arrivals.recv().await,
            None => std::future::pending().await,
        };
        received.map(|arrival| self.noted(arrival))
    }

    fn next_ready(&mut self) -> Option<Arrival<T>> {
        let arrival = self.arrivals.as_mut()?.try_recv().ok()?;
        Some(self.noted(arrival))
    }

    fn noted(&mut self, arrival: Arrival<T>) -> Arrival<T> {
        self.is_synced |= matches!(arrival.event, Event::Synced);
        arrival
    }
}

/// Runs a watch in a task of its own, since cancelling its next event would cancel a request; ends when
/// the receiver is dropped.
async fn forward<T: Resource>(mut watch: Watch<T>, sender: Sender<Arrival<T>>) {
    loop {
        let event = tokio::select! {
            biased;
            () = sender.closed() => return,
            event = watch.next() => event,
        };
        let arrival = Arrival {
            revision: watch.revision(),
            event,
        };
        if sender.send(arrival).await.is_err() {
            return;
        }
    }
}
