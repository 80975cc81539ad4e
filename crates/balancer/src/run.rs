//! The loop around the core: watch events in, steps carried out by tasks, one a Service at a time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::object::{AddressPool, Lease, Namespace, Node, ObjectKey, Resource, Service};
use client::election::Ending;
use client::{Client, ClientError, Event, Query, WallClock, watch};
use reconcile::queue::{BackOff, Queue};
use tokio::sync::mpsc::Receiver;
use tokio::task::{Id, JoinError, JoinSet};

use crate::cookie_secret;
use crate::core::{Core, Options, Work};
use crate::edge_report::{self, LEASE_DURATION, Report};
use crate::metrics::Metrics;
use crate::write::Writer;

/// Watch events that wait between a watch's task and the loop, each kind its own.
const EVENTS_WAITING_MAX: usize = 1_024;
/// Events taken in before work is started again, so that one look answers a burst.
const TAKEN_AT_ONCE_MAX: usize = 4_096;
/// Pauses after failures. Upstream begins with 5 s (CCM-10) for the sake of clouds; a conflict with the API is
/// over at once.
const BACK_OFF: BackOff = BackOff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(300),
};
/// How long changes of a pool's usage are gathered: it is for people to read.
const USAGE_PERIOD: Duration = Duration::from_secs(1);
/// How long writes under way may take at the end. What they leave undone, the next to run does.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// What came of a piece of work.
enum Done {
    /// A step was carried out: the Service as it is, or none if it is gone.
    Service(Result<Option<Box<Service>>, ClientError>),
    /// A usage was written.
    Pool(Result<(), ClientError>),
}

/// Gives Services of type LoadBalancer their addresses until `shutdown` resolves; writes under way are finished
/// first, if that does not take too long.
pub async fn run(client: Client, options: Options, shutdown: impl Future<Output = ()>) -> Ending {
    let mut making = JoinSet::new();
    if options.has_edges {
        making.spawn(cookie_secret::make_once(client.clone()));
    }
    let leases = Query {
        namespace: Some(edge_report::NAMESPACE.to_owned()),
        ..Query::default()
    };
    let mut balancer = Balancer {
        services: follow(&client),
        pools: follow(&client),
        namespaces: follow(&client),
        nodes: follow(&client),
        leases: watch(&client, leases).into_channel(EVENTS_WAITING_MAX),
        expiries: BTreeMap::new(),
        unsynced: 4,
        concurrent_writes: options.concurrent_service_syncs.max(1),
        metrics: Arc::clone(&options.metrics),
        node_sync: None,
        core: Core::new(options),
        queue: Queue::new(BACK_OFF),
        tasks: JoinSet::new(),
        under_way: HashMap::new(),
        writer: Writer {
            client,
            clock: WallClock::system(),
            events: Arc::default(),
        },
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = balancer.step() => {}
        }
    }
    balancer.drain().await
}

/// The events of a kind, in a task of their own.
struct Followed<T> {
    events: Receiver<Event<T>>,
    is_synced: bool,
}

fn follow<T: Resource>(client: &Client) -> Followed<T> {
    Followed {
        events: watch(client, Query::default()).into_channel(EVENTS_WAITING_MAX),
        is_synced: false,
    }
}

/// One thing that happened.
enum News {
    Service(Event<Service>),
    Pool(Event<AddressPool>),
    Namespace(Event<Namespace>),
    Node(Event<Node>),
    Lease(Event<Lease>),
}

struct Balancer {
    services: Followed<Service>,
    pools: Followed<AddressPool>,
    namespaces: Followed<Namespace>,
    nodes: Followed<Node>,
    /// Reports of edges. Nobody waits for them: where the right to watch them is missing, all else goes on.
    leases: Receiver<Event<Lease>>,
    /// The reports with faults, by node: when each was renewed, as it says itself, and when it does not count any more.
    expiries: BTreeMap<String, (Option<String>, Instant)>,
    /// Kinds that have not been told once as a whole.
    unsynced: usize,
    core: Core,
    queue: Queue<Work>,
    tasks: JoinSet<Done>,
    under_way: HashMap<Id, UnderWay>,
    writer: Writer,
    concurrent_writes: usize,
    metrics: Arc<Metrics>,
    /// Since when Services are told of other nodes, and which ones are still to be.
    node_sync: Option<(Instant, HashSet<ObjectKey>)>,
}

/// A piece of work under way.
struct UnderWay {
    work: Work,
    since: Instant,
    /// Whether a Service is told of other nodes.
    updates_hosts: bool,
}

impl Balancer {
    /// Waits for one thing to happen and takes it in, then starts the work that is due.
    async fn step(&mut self) {
        let wake = self.queue.next_wake().filter(|_| self.unsynced == 0);
        let expiry = self.expiries.values().map(|(_, at)| *at).min();
        let wake = wake.into_iter().chain(expiry).min();
        let news = tokio::select! {
            biased;
            Some(done) = self.tasks.join_next_with_id() => {
                self.finish(done);
                None
            }
            Some(event) = self.pools.events.recv() => Some(News::Pool(event)),
            Some(event) = self.namespaces.events.recv() => Some(News::Namespace(event)),
            Some(event) = self.nodes.events.recv() => Some(News::Node(event)),
            Some(event) = self.leases.recv() => Some(News::Lease(event)),
            Some(event) = self.services.events.recv() => Some(News::Service(event)),
            () = reconcile::sleep_until(wake) => None,
        };
        if let Some(news) = news {
            self.take(news);
        }
        for _ in 0..TAKEN_AT_ONCE_MAX {
            let Ok(event) = self.services.events.try_recv() else {
                break;
            };
            self.take(News::Service(event));
        }
        self.drop_expired_reports();
        self.queue.wake(now());
        if self.unsynced == 0 {
            self.start_work();
        }
    }

    fn take(&mut self, news: News) {
        let core = &mut self.core;
        let work = match news {
            News::Service(Event::Applied(service)) => core.service_applied(service),
            News::Service(Event::Deleted(key)) => core.service_deleted(&key),
            News::Pool(Event::Applied(pool)) => core.pool_applied(pool),
            News::Pool(Event::Deleted(key)) => core.pool_deleted(&key.name),
            News::Namespace(Event::Applied(namespace)) => core.namespace_applied(namespace),
            News::Namespace(Event::Deleted(key)) => {
                core.namespace_deleted(&key.name);
                Vec::new()
            }
            News::Node(Event::Applied(node)) => {
                let work = core.node_applied(&node);
                self.nodes_moved(work)
            }
            News::Node(Event::Deleted(key)) => {
                let work = core.node_deleted(&key.name);
                self.nodes_moved(work)
            }
            News::Lease(event) => self.take_lease(event),
            News::Service(Event::Synced) => self.synced(|this| &mut this.services.is_synced),
            News::Pool(Event::Synced) => self.synced(|this| &mut this.pools.is_synced),
            News::Namespace(Event::Synced) => self.synced(|this| &mut this.namespaces.is_synced),
            News::Node(Event::Synced) => self.synced(|this| &mut this.nodes.is_synced),
            // A Service that cannot be read keeps what it holds in the book.
            News::Service(Event::Malformed { key, error }) => malformed("Service", &key, &error),
            News::Pool(Event::Malformed { key, error }) => malformed("AddressPool", &key, &error),
            News::Namespace(Event::Malformed { key, error }) => malformed("Namespace", &key, &error),
            News::Node(Event::Malformed { key, error }) => malformed("Node", &key, &error),
        };
        self.ask_for(work);
    }

    /// Takes in the report of an edge. Its time is counted from when it was seen here: clocks of nodes may differ.
    fn take_lease(&mut self, event: Event<Lease>) -> Vec<Work> {
        match event {
            Event::Applied(lease) => {
                let Some((node, report)) = edge_report::read(&lease) else {
                    return Vec::new();
                };
                let renewed = lease.spec.renew_time.clone();
                let known = self.expiries.get(node);
                if report.is_empty() {
                    self.expiries.remove(node);
                } else if known.is_none_or(|(before, _)| *before != renewed) {
                    self.expiries
                        .insert(node.to_owned(), (renewed, now() + LEASE_DURATION));
                }
                self.core.report_applied(node, report)
            }
            Event::Deleted(key) => match edge_report::node_of(&key.name) {
                Some(node) => {
                    self.expiries.remove(node);
                    self.core.report_applied(node, Report::new())
                }
                None => Vec::new(),
            },
            Event::Synced => self.core.reports_synced(),
            Event::Malformed { key, error } => malformed("Lease", &key, &error),
        }
    }

    fn drop_expired_reports(&mut self) {
        let now = now();
        let expired = self.expiries.iter().filter(|(_, (_, at))| *at <= now);
        let expired: Vec<String> = expired.map(|(node, _)| node.clone()).collect();
        for node in expired {
            self.expiries.remove(&node);
            tracing::info!(node, "report of an edge expired");
            let work = self.core.report_applied(&node, Report::new());
            self.ask_for(work);
        }
    }

    /// A kind was told as a whole; with the last of them, work begins.
    fn synced(&mut self, flag: impl Fn(&mut Self) -> &mut bool) -> Vec<Work> {
        if std::mem::replace(flag(self), true) {
            return Vec::new();
        }
        self.unsynced -= 1;
        if self.unsynced == 0 {
            tracing::info!("the balancer knows all Services and pools");
            self.core.settle()
        } else {
            Vec::new()
        }
    }

    /// Notes which Services are to be told of other nodes (CCM-06, CCM-12).
    fn nodes_moved(&mut self, work: Vec<Work>) -> Vec<Work> {
        let keys = work.iter().filter_map(|work| match work {
            Work::Service(key) => Some(key.clone()),
            Work::Pool(_) => None,
        });
        let keys: Vec<ObjectKey> = keys.collect();
        if !keys.is_empty() {
            let (_, left) = self.node_sync.get_or_insert_with(|| (now(), HashSet::new()));
            left.extend(keys);
        }
        work
    }

    /// A Service was told of other nodes, or needs not be.
    fn nodes_told(&mut self, key: &ObjectKey) {
        if let Some((since, left)) = &mut self.node_sync {
            left.remove(key);
            if left.is_empty() {
                self.metrics.nodes_synced(now().duration_since(*since));
                self.node_sync = None;
            }
        }
    }

    fn ask_for(&mut self, work: Vec<Work>) {
        for work in work {
            match work {
                Work::Pool(_) => self.queue.add_at(work, now() + USAGE_PERIOD),
                Work::Service(_) => {
                    self.queue.add(work, now());
                }
            }
        }
    }

    fn start_work(&mut self) {
        while self.tasks.len() < self.concurrent_writes {
            let Some((work, _)) = self.queue.take(now()) else {
                return;
            };
            let is_started = match &work {
                Work::Service(key) => self.start_service(key),
                Work::Pool(name) => self.start_pool(name),
            };
            if !is_started {
                self.queue.done(&work, now());
            }
        }
    }

    fn start_service(&mut self, key: &ObjectKey) -> bool {
        let (step, more) = self.core.look_at(key);
        self.ask_for(more);
        let (Some(step), Some(service)) = (step, self.core.service(key).cloned()) else {
            self.nodes_told(key);
            return false;
        };
        let updates_hosts = step.after.iter().any(|told| told.reason == "UpdatedLoadBalancer");
        let writer = self.writer.clone();
        let task = self.tasks.spawn(async move {
            let outcome = writer.carry_out(service, step).await;
            Done::Service(outcome.map(|service| service.map(Box::new)))
        });
        let under_way = UnderWay {
            work: Work::Service(key.clone()),
            since: now(),
            updates_hosts,
        };
        self.under_way.insert(task.id(), under_way);
        true
    }

    fn start_pool(&mut self, name: &str) -> bool {
        let Some((pool, usage)) = self.core.pool_usage(name) else {
            return false;
        };
        let (writer, pool) = (self.writer.clone(), pool.clone());
        let task = self
            .tasks
            .spawn(async move { Done::Pool(writer.write_usage(&pool, &usage).await) });
        let under_way = UnderWay {
            work: Work::Pool(name.to_owned()),
            since: now(),
            updates_hosts: false,
        };
        self.under_way.insert(task.id(), under_way);
        true
    }

    fn finish(&mut self, outcome: Result<(Id, Done), JoinError>) {
        let (id, outcome) = match outcome {
            Ok((id, done)) => (id, Ok(done)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(under_way) = self.under_way.remove(&id) else {
            return;
        };
        let work = under_way.work;
        let failure: Option<String> = match outcome {
            Ok(Done::Service(Ok(written))) => {
                self.metrics.synced();
                if under_way.updates_hosts {
                    self.metrics.host_updated(now().duration_since(under_way.since));
                }
                if let Work::Service(key) = &work {
                    self.nodes_told(key);
                }
                let more = match (written, &work) {
                    (Some(service), _) => self.core.service_applied(*service),
                    (None, Work::Service(key)) => self.core.service_deleted(key),
                    (None, Work::Pool(_)) => Vec::new(),
                };
                self.ask_for(more);
                None
            }
            Ok(Done::Pool(Ok(()))) => None,
            Ok(Done::Service(Err(error)) | Done::Pool(Err(error))) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match failure {
            None => {
                self.queue.done(&work, now());
            }
            Some(error) => {
                if under_way.updates_hosts {
                    self.metrics.node_sync_failed();
                }
                let pause = self.queue.failed(&work, now());
                tracing::warn!(?work, error, ?pause, "will be tried again");
            }
        }
    }

    async fn drain(mut self) -> Ending {
        let ends = async {
            while let Some(done) = self.tasks.join_next_with_id().await {
                self.finish(done);
            }
        };
        if tokio::time::timeout(DRAIN_PATIENCE, ends).await.is_err() {
            tracing::warn!(patience = ?DRAIN_PATIENCE, "writes under way were cut short");
            return Ending::CutShort;
        }
        Ending::Complete
    }
}

fn malformed(kind: &'static str, key: &ObjectKey, error: &str) -> Vec<Work> {
    tracing::error!(kind, object = %key, error, "the object cannot be read and is skipped");
    Vec::new()
}

/// The time on the clock of the runtime.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
