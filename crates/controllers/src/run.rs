//! The loop: watch events in, keys to look at, writes out.

use std::future::Future;
use std::time::Instant;

use api::object::{EndpointSlice, Node, ObjectKey, Pod, Service};
use client::{Client, ClientError, Event, Query, watch};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use crate::endpointslice::trigger::TriggerTimes;
use crate::endpointslice::{Inputs, MANAGED_BY, MANAGED_BY_LABEL, carry_out, reconcile};
use crate::placement::{RoundRobin, needs_node, place};
use crate::queue::Queue;
use crate::world::World;

/// Watch events that wait between a watch's task and the loop, each kind its own.
const EVENTS_WAITING_MAX: usize = 256;

/// Settings of the controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Syncs of Services that may be under way at once (EPS-26).
    pub concurrent_service_endpoint_syncs: usize,
    /// Most endpoints in one slice (EPS-11).
    pub max_endpoints_per_slice: usize,
    /// Whether Pods without a Node are given one; off where a scheduler runs.
    pub place_pods: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrent_service_endpoint_syncs: 5,
            max_endpoints_per_slice: 100,
            place_pods: true,
        }
    }
}

/// Runs the controllers until `shutdown` resolves; writes under way are finished first.
pub async fn run(client: Client, options: Options, shutdown: impl Future<Output = ()>) {
    let mut loop_ = Loop::new(client, options);
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = loop_.step() => {}
            () = &mut shutdown => break,
        }
    }
    while let Some(outcome) = loop_.tasks.join_next().await {
        if let Err(error) = outcome {
            tracing::error!(%error, "a controller's task failed");
        }
    }
}

/// What a worker looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Work {
    /// The slices of a Service.
    Slices(ObjectKey),
    /// A Pod that may need a Node.
    Placement(ObjectKey),
}

/// What a worker reports.
enum Done {
    Slices(ObjectKey, crate::endpointslice::Report),
    Placement(ObjectKey, Result<(), ClientError>),
}

struct Loop {
    client: Client,
    options: Options,
    services: Receiver<Event<Service>>,
    pods: Receiver<Event<Pod>>,
    nodes: Receiver<Event<Node>>,
    slices: Receiver<Event<EndpointSlice>>,
    synced: Synced,
    world: World,
    queue: Queue<Work>,
    tasks: JoinSet<Done>,
    triggers: TriggerTimes,
    round_robin: RoundRobin,
}

/// Which caches hold everything; nothing is written before all do.
#[derive(Default)]
struct Synced {
    services: bool,
    pods: bool,
    nodes: bool,
    slices: bool,
}

impl Synced {
    fn all(&self) -> bool {
        self.services && self.pods && self.nodes && self.slices
    }
}

impl Loop {
    fn new(client: Client, options: Options) -> Self {
        let all = Query::default;
        let ours = Query {
            label_selector: format!("{MANAGED_BY_LABEL}={MANAGED_BY}"),
            ..Query::default()
        };
        Self {
            services: watch(&client, all()).into_channel(EVENTS_WAITING_MAX),
            pods: watch(&client, all()).into_channel(EVENTS_WAITING_MAX),
            nodes: watch(&client, all()).into_channel(EVENTS_WAITING_MAX),
            slices: watch(&client, ours).into_channel(EVENTS_WAITING_MAX),
            client,
            options,
            synced: Synced::default(),
            world: World::default(),
            queue: Queue::default(),
            tasks: JoinSet::new(),
            triggers: TriggerTimes::default(),
            round_robin: RoundRobin::default(),
        }
    }

    /// Waits for one thing to happen and takes it in, then starts the work that is due.
    async fn step(&mut self) {
        let wake = self.queue.next_wake();
        tokio::select! {
            Some(event) = self.services.recv() => self.take_service(event),
            Some(event) = self.pods.recv() => self.take_pod(event),
            Some(event) = self.nodes.recv() => self.take_node(event),
            Some(event) = self.slices.recv() => self.take_slice(event),
            Some(outcome) = self.tasks.join_next() => self.take_outcome(outcome),
            () = sleep_until(wake) => {}
        }
        self.take_waiting();
        self.queue.wake(Instant::now());
        if self.synced.all() {
            self.start_work();
        }
    }

    /// Takes in everything that has arrived, so that one sync answers a burst.
    fn take_waiting(&mut self) {
        while let Ok(event) = self.services.try_recv() {
            self.take_service(event);
        }
        while let Ok(event) = self.pods.try_recv() {
            self.take_pod(event);
        }
        while let Ok(event) = self.nodes.try_recv() {
            self.take_node(event);
        }
        while let Ok(event) = self.slices.try_recv() {
            self.take_slice(event);
        }
    }

    fn take_service(&mut self, event: Event<Service>) {
        match event {
            Event::Applied(service) => {
                let key = service.metadata.key();
                if self.world.apply_service(service) {
                    self.queue.add(Work::Slices(key));
                }
            }
            Event::Deleted(key) => {
                self.world.remove_service(&key);
                self.queue.add(Work::Slices(key));
            }
            Event::Synced => self.synced.services = true,
            Event::Malformed { key, error } => report_malformed("Service", &key, &error),
        }
    }

    fn take_pod(&mut self, event: Event<Pod>) {
        let concerned = match event {
            Event::Applied(pod) => {
                if self.options.place_pods && needs_node(&pod) {
                    self.queue.add(Work::Placement(pod.metadata.key()));
                }
                self.world.apply_pod(pod)
            }
            Event::Deleted(key) => self.world.remove_pod(&key),
            Event::Synced => {
                self.synced.pods = true;
                return;
            }
            Event::Malformed { key, error } => return report_malformed("Pod", &key, &error),
        };
        self.look_at(concerned);
    }

    fn take_node(&mut self, event: Event<Node>) {
        let concerned = match event {
            Event::Applied(node) => self.world.apply_node(&node),
            Event::Deleted(key) => self.world.remove_node(&key.name),
            Event::Synced => {
                self.synced.nodes = true;
                return;
            }
            Event::Malformed { key, error } => return report_malformed("Node", &key, &error),
        };
        self.look_at(concerned);
    }

    fn take_slice(&mut self, event: Event<EndpointSlice>) {
        let concerned = match event {
            Event::Applied(slice) => self.world.slices.apply(slice),
            Event::Deleted(key) => self.world.slices.remove(&key).into_iter().collect(),
            Event::Synced => {
                // Slices of Services that went while nobody looked.
                self.synced.slices = true;
                self.world.slices.services().cloned().collect()
            }
            Event::Malformed { key, error } => return report_malformed("EndpointSlice", &key, &error),
        };
        self.look_at(concerned);
    }

    fn look_at(&mut self, services: Vec<ObjectKey>) {
        for service in services {
            self.queue.add(Work::Slices(service));
        }
    }

    fn start_work(&mut self) {
        while self.tasks.len() < self.options.concurrent_service_endpoint_syncs.max(1) {
            let Some(work) = self.queue.take() else { return };
            match work {
                Work::Slices(key) => self.sync_slices(key),
                Work::Placement(key) => self.place(key),
            }
        }
    }

    fn sync_slices(&mut self, key: ObjectKey) {
        let slices = self.world.slices.of(&key);
        let writes = match self.world.services.get(&key) {
            None => {
                self.triggers.forget(&key);
                let names = slices.iter().map(|slice| slice.metadata.name.clone());
                names.map(crate::endpointslice::SliceWrite::Delete).collect()
            }
            Some(service) if service.spec.selector.is_empty() || service.spec.kind == "ExternalName" => {
                Vec::new()
            }
            Some(service) => {
                let pods = self.world.pods_of(&key.namespace, &service.spec.selector);
                let trigger_time = self.triggers.advance(service, &pods);
                let outcome = reconcile(&Inputs {
                    service,
                    pods: &pods,
                    node_zones: &|name| self.world.nodes.get(name).map(|node| node.zone.clone()),
                    slices: &slices,
                    endpoints_per_slice_max: self.options.max_endpoints_per_slice,
                    trigger_time: trigger_time.as_deref(),
                });
                if !outcome.pods_without_node.is_empty() {
                    // A Node that appears brings the Service back to the queue by itself.
                    tracing::warn!(service = %key, pods = ?outcome.pods_without_node, "Pods on unknown Nodes are left out");
                }
                outcome.writes
            }
        };
        if writes.is_empty() {
            self.queue.done(&Work::Slices(key));
            return;
        }
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let report = carry_out(&client, &key.namespace, writes).await;
            Done::Slices(key, report)
        });
    }

    fn place(&mut self, key: ObjectKey) {
        let uid = match self.world.pods.get(&key) {
            Some(pod) if needs_node(pod) => pod.metadata.uid.clone(),
            _ => return self.queue.done(&Work::Placement(key)),
        };
        let node = self.round_robin.choose(&self.world);
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let outcome = place(&client, &key, &uid, node.as_deref()).await;
            match (outcome, node) {
                (Ok(()), None) => Done::Placement(key, Err(no_node())),
                (outcome, _) => Done::Placement(key, outcome),
            }
        });
    }

    fn take_outcome(&mut self, outcome: Result<Done, tokio::task::JoinError>) {
        let (work, error) = match outcome {
            Ok(Done::Slices(key, report)) => {
                for slice in report.written {
                    self.world.slices.apply(slice);
                }
                for name in &report.deleted {
                    self.world.slices.remove(&ObjectKey::new(&key.namespace, name));
                }
                (Work::Slices(key), report.error)
            }
            Ok(Done::Placement(key, outcome)) => (Work::Placement(key), outcome.err()),
            Err(error) => return tracing::error!(%error, "a controller's task failed"),
        };
        match error {
            None => self.queue.done(&work),
            Some(error) => {
                let pause = self.queue.failed(&work, Instant::now());
                tracing::warn!(?work, %error, ?pause, "will be tried again");
            }
        }
    }
}

/// Why a Pod waits, as an error that asks for another try.
fn no_node() -> ClientError {
    let message = "no Node is ready and accepts Pods".to_owned();
    let status = client::Status {
        code: 503,
        reason: "Unschedulable".to_owned(),
        message,
    };
    ClientError::Status {
        method: http::Method::PATCH,
        path: "pods".to_owned(),
        status,
    }
}

fn report_malformed(kind: &str, key: &ObjectKey, error: &str) {
    tracing::error!(kind, %key, error, "the object cannot be read and is skipped");
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
