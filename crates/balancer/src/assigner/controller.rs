//! Event loop of the assigner. Inputs are watch events; tasks perform the writes, at most one per object.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::object::{AddressPool, EndpointSlice, Lease, Namespace, Node, ObjectKey, Resource, Service};
use client::election::RequestCompletion;
use client::events::EventRecorder;
use client::{Client, ClientError, Event, Query, WallClock, watch};
use reconcile::queue::{BackOff, Queue};
use reconcile::rewrites;
use tokio::sync::mpsc::Receiver;
use tokio::task::{Id, JoinError, JoinSet};

use super::state::{AssignerState, WorkItem};
use super::status_writer::StatusWriter;
use super::{Metrics, Options};
use crate::cookie_secret;
use crate::edge_report::{self, LEASE_DURATION, Report};
use crate::ingress;
use crate::metallb::{self, Configurations};

/// Capacity of the channel between a watch and the loop.
const WATCH_EVENTS_MAX: usize = 1_024;
/// Maximum number of events that are applied before writes start, so that a burst leads to one write per object.
const BATCH_MAX: usize = 4_096;
/// Back-off after failures. Upstream starts with 5 s (CCM-10) because of requests to clouds. After a conflict in the
/// API server, a retry can succeed at once.
const BACK_OFF: BackOff = BackOff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(300),
};
/// Delay of writes of a pool's usage; changes in between are merged.
const USAGE_DELAY: Duration = Duration::from_secs(1);
/// Timeout for writes in flight at shutdown. The next leader repeats lost writes.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a write.
enum WriteResult {
    /// The Service after an update; `None` if it is deleted.
    Service(Result<Option<Box<Service>>, ClientError>),
    /// The status of a pool.
    Pool(Result<(), ClientError>),
}

/// Assigns addresses to Services of type LoadBalancer until `shutdown` resolves. Then writes in flight have
/// 10 s to finish.
pub async fn run(client: Client, options: Options, shutdown: impl Future<Output = ()>) -> RequestCompletion {
    let mut edge_tasks = JoinSet::new();
    if options.has_edges {
        edge_tasks.spawn(cookie_secret::ensure(client.clone()));
        let serve = ingress::run(client.clone(), options.creates_node_pool, std::future::pending());
        edge_tasks.spawn(serve);
    }
    let leases = Query {
        namespace: Some(edge_report::NAMESPACE.to_owned()),
        ..Query::default()
    };
    let mut controller = Controller {
        services: Watch::start(&client),
        pools: Watch::start(&client),
        namespaces: Watch::start(&client),
        nodes: Watch::start(&client),
        leases: watch(&client, leases).into_channel(WATCH_EVENTS_MAX),
        expiries: BTreeMap::new(),
        unsynced: 4 + usize::from(options.metallb_namespace.is_some()),
        concurrent_writes: options.concurrent_service_syncs.max(1),
        metrics: Arc::clone(&options.metrics),
        node_sync: None,
        metallb: options
            .metallb_namespace
            .as_deref()
            .map(|namespace| metallb::watch(&client, namespace)),
        slices: None,
        client: client.clone(),
        is_metallb_synced: false,
        state: AssignerState::new(options),
        queue: Queue::new(BACK_OFF).shared_by(WorkItem::namespace),
        tasks: JoinSet::new(),
        in_flight: HashMap::new(),
        writer: StatusWriter {
            events: EventRecorder::new(client.clone(), WallClock::system()),
            client,
            clock: WallClock::system(),
        },
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = controller.step() => {}
        }
    }
    controller.drain().await
}

/// Watch of a kind.
struct Watch<T> {
    events: Receiver<Event<T>>,
    is_synced: bool,
}

impl<T: Resource> Watch<T> {
    fn start(client: &Client) -> Self {
        Self {
            events: watch(client, Query::default()).into_channel(WATCH_EVENTS_MAX),
            is_synced: false,
        }
    }
}

/// Event of one of the watches.
enum WatchEvent {
    Service(Event<Service>),
    Pool(Event<AddressPool>),
    Namespace(Event<Namespace>),
    Node(Event<Node>),
    Lease(Event<Lease>),
    MetalLb,
    Slice(Event<EndpointSlice>),
}

/// Watches and state of the running assigner.
struct Controller {
    services: Watch<Service>,
    pools: Watch<AddressPool>,
    namespaces: Watch<Namespace>,
    nodes: Watch<Node>,
    /// Reports of edges. The assigner starts without them, because the right to watch them may be missing.
    leases: Receiver<Event<Lease>>,
    /// Reports with faults, by node: their renew time, and the local time of their expiry.
    expiries: BTreeMap<String, (Option<String>, Instant)>,
    /// EndpointSlices, read from the first pool of node addresses on.
    slices: Option<Receiver<Event<EndpointSlice>>>,
    client: Client,
    /// MetalLB's objects; `None` to ignore them.
    metallb: Option<Configurations>,
    is_metallb_synced: bool,
    /// Number of watches whose initial list is incomplete.
    unsynced: usize,
    state: AssignerState,
    queue: Queue<WorkItem>,
    /// Writes in flight. Each returns its result, and the bytes of the large objects that it has rewritten.
    tasks: JoinSet<(WriteResult, usize)>,
    in_flight: HashMap<Id, InFlight>,
    writer: StatusWriter,
    concurrent_writes: usize,
    metrics: Arc<Metrics>,
    /// Start of the update of Services after a change of nodes, and the Services that are left.
    node_sync: Option<(Instant, HashSet<ObjectKey>)>,
}

/// Write in flight.
struct InFlight {
    item: WorkItem,
    since: Instant,
    /// True if the update reports a change of nodes.
    updates_hosts: bool,
}

impl Controller {
    /// Waits for one event and applies it, then starts the writes that are due.
    async fn step(&mut self) {
        let wake = self.queue.next_wake().filter(|_| self.unsynced == 0);
        let expiry = self.expiries.values().map(|(_, at)| *at).min();
        let wake = wake.into_iter().chain(expiry).min();
        let event = tokio::select! {
            biased;
            Some(result) = self.tasks.join_next_with_id() => {
                self.finish(result);
                None
            }
            Some(event) = self.pools.events.recv() => Some(WatchEvent::Pool(event)),
            Some(event) = self.namespaces.events.recv() => Some(WatchEvent::Namespace(event)),
            Some(event) = self.nodes.events.recv() => Some(WatchEvent::Node(event)),
            Some(event) = self.leases.recv() => Some(WatchEvent::Lease(event)),
            () = metallb::changed(&mut self.metallb) => Some(WatchEvent::MetalLb),
            Some(event) = next_slice(&mut self.slices) => Some(WatchEvent::Slice(event)),
            Some(event) = self.services.events.recv() => Some(WatchEvent::Service(event)),
            () = reconcile::sleep_until(wake) => None,
        };
        if let Some(event) = event {
            self.apply(event);
        }
        for _ in 0..BATCH_MAX {
            let Ok(event) = self.services.events.try_recv() else {
                break;
            };
            self.apply(WatchEvent::Service(event));
        }
        self.drop_expired_reports();
        self.queue.wake(now());
        if self.unsynced == 0 {
            self.start_writes();
        }
    }

    fn apply(&mut self, event: WatchEvent) {
        let state = &mut self.state;
        let work = match event {
            WatchEvent::Service(Event::Applied(service)) => state.apply_service(service),
            WatchEvent::Service(Event::Deleted(key)) => state.remove_service(&key),
            WatchEvent::Pool(Event::Applied(pool)) => state.apply_pool(pool),
            WatchEvent::Pool(Event::Deleted(key)) => state.remove_pool(&key.name),
            WatchEvent::Namespace(Event::Applied(namespace)) => state.apply_namespace(namespace),
            WatchEvent::Namespace(Event::Deleted(key)) => {
                state.remove_namespace(&key.name);
                Vec::new()
            }
            WatchEvent::Node(Event::Applied(node)) => {
                let work = state.apply_node(&node);
                self.add_node_sync(work)
            }
            WatchEvent::Node(Event::Deleted(key)) => {
                let work = state.remove_node(&key.name);
                self.add_node_sync(work)
            }
            WatchEvent::Lease(event) => self.lease_event(event),
            WatchEvent::MetalLb => self.metallb_event(),
            WatchEvent::Slice(Event::Applied(slice)) => state.apply_slice(&slice),
            WatchEvent::Slice(Event::Deleted(key)) => state.remove_slice(&key),
            WatchEvent::Slice(Event::Synced) => state.slices_synced(),
            WatchEvent::Slice(Event::Malformed { key, error }) => malformed("EndpointSlice", &key, &error),
            WatchEvent::Service(Event::Synced) => self.synced(|this| &mut this.services.is_synced),
            WatchEvent::Pool(Event::Synced) => self.synced(|this| &mut this.pools.is_synced),
            WatchEvent::Namespace(Event::Synced) => self.synced(|this| &mut this.namespaces.is_synced),
            WatchEvent::Node(Event::Synced) => self.synced(|this| &mut this.nodes.is_synced),
            // A malformed Service keeps its allocated addresses.
            WatchEvent::Service(Event::Malformed { key, error }) => malformed("Service", &key, &error),
            WatchEvent::Pool(Event::Malformed { key, error }) => malformed("AddressPool", &key, &error),
            WatchEvent::Namespace(Event::Malformed { key, error }) => malformed("Namespace", &key, &error),
            WatchEvent::Node(Event::Malformed { key, error }) => malformed("Node", &key, &error),
        };
        self.enqueue(work);
        if self.slices.is_none() && self.state.has_node_pools() {
            self.slices = Some(watch(&self.client, Query::default()).into_channel(WATCH_EVENTS_MAX));
        }
    }

    /// Applies the report of an edge. It expires by the local clock, because clocks of nodes may differ.
    fn lease_event(&mut self, event: Event<Lease>) -> Vec<WorkItem> {
        match event {
            Event::Applied(lease) => {
                let Some((node, report)) = edge_report::read(&lease) else {
                    return Vec::new();
                };
                let renewed = lease.spec.renew_time.clone();
                let cached = self.expiries.get(node);
                if report.is_empty() {
                    self.expiries.remove(node);
                } else if cached.is_none_or(|(before, _)| *before != renewed) {
                    self.expiries
                        .insert(node.to_owned(), (renewed, now() + LEASE_DURATION));
                }
                self.state.apply_report(node, report)
            }
            Event::Deleted(key) => match edge_report::node_of(&key.name) {
                Some(node) => {
                    self.expiries.remove(node);
                    self.state.apply_report(node, Report::new())
                }
                None => Vec::new(),
            },
            Event::Synced => self.state.reports_synced(),
            Event::Malformed { key, error } => malformed("Lease", &key, &error),
        }
    }

    /// Applies MetalLB's objects. The first configuration ends the initial list.
    fn metallb_event(&mut self) -> Vec<WorkItem> {
        let present = self
            .metallb
            .as_mut()
            .map(|metallb| metallb.borrow_and_update().clone());
        let Some(configuration) = present.flatten() else {
            return Vec::new();
        };
        let mut work = self.state.apply_metallb(configuration);
        if !std::mem::replace(&mut self.is_metallb_synced, true) {
            work.extend(self.end_initial_list());
        }
        work
    }

    fn drop_expired_reports(&mut self) {
        let now = now();
        let expired = self.expiries.iter().filter(|(_, (_, at))| *at <= now);
        let expired: Vec<String> = expired.map(|(node, _)| node.clone()).collect();
        for node in expired {
            self.expiries.remove(&node);
            tracing::info!(node, "report of an edge expired");
            let work = self.state.apply_report(&node, Report::new());
            self.enqueue(work);
        }
    }

    /// Ends the initial list of a kind. After the last one, writes start.
    fn synced(&mut self, flag: impl Fn(&mut Self) -> &mut bool) -> Vec<WorkItem> {
        if std::mem::replace(flag(self), true) {
            return Vec::new();
        }
        self.end_initial_list()
    }

    fn end_initial_list(&mut self) -> Vec<WorkItem> {
        self.unsynced -= 1;
        if self.unsynced == 0 {
            tracing::info!("caches synced");
            self.state.initialize()
        } else {
            Vec::new()
        }
    }

    /// Registers the Services to update after a change of nodes (CCM-06, CCM-12).
    fn add_node_sync(&mut self, work: Vec<WorkItem>) -> Vec<WorkItem> {
        let keys = work.iter().filter_map(|item| match item {
            WorkItem::Service(key) => Some(key.clone()),
            WorkItem::Pool(_) => None,
        });
        let keys: Vec<ObjectKey> = keys.collect();
        if !keys.is_empty() {
            let (_, left) = self.node_sync.get_or_insert_with(|| (now(), HashSet::new()));
            left.extend(keys);
        }
        work
    }

    /// Removes a Service whose update after a change of nodes is written or not needed.
    fn finish_node_sync(&mut self, key: &ObjectKey) {
        if let Some((since, left)) = &mut self.node_sync {
            left.remove(key);
            if left.is_empty() {
                self.metrics.nodes_synced(now().duration_since(*since));
                self.node_sync = None;
            }
        }
    }

    fn enqueue(&mut self, work: Vec<WorkItem>) {
        for item in work {
            match item {
                WorkItem::Pool(_) => self.queue.add_at(item, now() + USAGE_DELAY),
                WorkItem::Service(_) => {
                    self.queue.add(item, now());
                }
            }
        }
    }

    fn start_writes(&mut self) {
        while self.tasks.len() < self.concurrent_writes {
            let Some((item, _)) = self.queue.take(now()) else {
                return;
            };
            let is_started = match &item {
                WorkItem::Service(key) => self.start_service(key),
                WorkItem::Pool(name) => self.start_pool(name),
            };
            if !is_started {
                self.queue.done(&item, now());
            }
        }
    }

    fn start_service(&mut self, key: &ObjectKey) -> bool {
        let (update, more) = self.state.reconcile(key);
        self.enqueue(more);
        let (Some(update), Some(service)) = (update, self.state.service(key).cloned()) else {
            self.finish_node_sync(key);
            return false;
        };
        let updates_hosts = update
            .events_after
            .iter()
            .any(|event| event.reason == "UpdatedLoadBalancer");
        let writer = self.writer.clone();
        let task = self.tasks.spawn(rewrites::measured(async move {
            let outcome = writer.write_update(service, update).await;
            WriteResult::Service(outcome.map(|service| service.map(Box::new)))
        }));
        let in_flight = InFlight {
            item: WorkItem::Service(key.clone()),
            since: now(),
            updates_hosts,
        };
        self.in_flight.insert(task.id(), in_flight);
        true
    }

    fn start_pool(&mut self, name: &str) -> bool {
        self.metrics.set_pool(name, self.state.pool_usage(name));
        let Some(update) = self.state.pool_update(name) else {
            return false;
        };
        let writer = self.writer.clone();
        let task = self.tasks.spawn(rewrites::measured(async move {
            WriteResult::Pool(writer.write_pool(&update).await)
        }));
        let in_flight = InFlight {
            item: WorkItem::Pool(name.to_owned()),
            since: now(),
            updates_hosts: false,
        };
        self.in_flight.insert(task.id(), in_flight);
        true
    }

    fn finish(&mut self, outcome: Result<(Id, (WriteResult, usize)), JoinError>) {
        let (id, outcome) = match outcome {
            Ok((id, written)) => (id, Ok(written)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(in_flight) = self.in_flight.remove(&id) else {
            return;
        };
        let item = in_flight.item;
        let outcome = outcome.map(|(written, rewritten_bytes)| {
            self.queue.count_rewritten(&item, rewritten_bytes, now());
            written
        });
        let failure: Option<String> = match outcome {
            Ok(WriteResult::Service(Ok(written))) => {
                self.metrics.synced();
                if in_flight.updates_hosts {
                    self.metrics.host_updated(now().duration_since(in_flight.since));
                }
                if let WorkItem::Service(key) = &item {
                    self.finish_node_sync(key);
                }
                let more = match (written, &item) {
                    (Some(service), _) => self.state.apply_service(*service),
                    (None, WorkItem::Service(key)) => self.state.remove_service(key),
                    (None, WorkItem::Pool(_)) => Vec::new(),
                };
                self.enqueue(more);
                None
            }
            Ok(WriteResult::Pool(Ok(()))) => None,
            Ok(WriteResult::Service(Err(error)) | WriteResult::Pool(Err(error))) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match failure {
            None => {
                self.queue.done(&item, now());
            }
            Some(error) => {
                if in_flight.updates_hosts {
                    self.metrics.node_sync_failed();
                }
                let delay = self.queue.failed(&item, now());
                tracing::warn!(?item, error, ?delay, "write failed; retrying");
            }
        }
    }

    async fn drain(mut self) -> RequestCompletion {
        self.metrics.clear_pools();
        let writes = async {
            while let Some(result) = self.tasks.join_next_with_id().await {
                self.finish(result);
            }
        };
        if tokio::time::timeout(DRAIN_TIMEOUT, writes).await.is_err() {
            tracing::warn!(timeout = ?DRAIN_TIMEOUT, "writes in flight aborted");
            return RequestCompletion::Abandoned;
        }
        RequestCompletion::Complete
    }
}

fn malformed(kind: &'static str, key: &ObjectKey, error: &str) -> Vec<WorkItem> {
    tracing::error!(kind, object = %key, error, "malformed object ignored");
    Vec::new()
}

/// Waits for the next event of EndpointSlices; never without their watch.
async fn next_slice(slices: &mut Option<Receiver<Event<EndpointSlice>>>) -> Option<Event<EndpointSlice>> {
    match slices {
        Some(slices) => slices.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns the time on the clock of the runtime.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
