//! The loop: Nodes, Leases and the time in, steps on Nodes and their Pods out.

use std::collections::HashMap;
use std::future::Future;
use std::time::{Duration, Instant};

use api::object::{Lease, Node};
use client::{ClientError, Event, Query, watch};
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinError, JoinSet};

use super::write::{carry_out, withdraw_pods};
use super::{LEASE_NAMESPACE, Lifecycle, Settings};
use crate::queue::{Queue, sleep_until};
use crate::run::{Environment, now};

/// Watch events that wait between a watch's task and the loop, each kind its own.
const EVENTS_WAITING_MAX: usize = 256;
/// Nodes that are written at the same time, as many as upstream's workers.
const CONCURRENT_WRITES: usize = 8;
/// How often the Pods of a Node that is out of traffic are looked at: one may come to say that it is ready.
const PODS_PERIOD: Duration = Duration::from_secs(60);

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Look {
    /// A Node's conditions and taints.
    Node(String),
    /// The Pods of a Node that is out of traffic.
    Pods(String),
}

/// What came of a look: the Node as it is now, if it was written.
type Done = (Look, Result<Option<Node>, ClientError>);

/// Looks after Nodes until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, settings: Settings, shutdown: impl Future<Output = ()>) {
    let leases = Query {
        namespace: Some(LEASE_NAMESPACE.to_owned()),
        ..Query::default()
    };
    let mut keeper = Keeper {
        node_events: watch(&environment.client, Query::default()).into_channel(EVENTS_WAITING_MAX),
        lease_events: watch(&environment.client, leases).into_channel(EVENTS_WAITING_MAX),
        environment,
        are_nodes_synced: false,
        are_leases_synced: false,
        sweep_at: now(),
        period: settings.monitor_period,
        lifecycle: Lifecycle::new(settings),
        pods_withdrawn: HashMap::new(),
        queue: Queue::default(),
        tasks: JoinSet::new(),
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = keeper.step() => {}
        }
    }
    while let Some(done) = keeper.tasks.join_next().await {
        keeper.finish(done);
    }
}

struct Keeper {
    environment: Environment,
    node_events: Receiver<Event<Node>>,
    lease_events: Receiver<Event<Lease>>,
    are_nodes_synced: bool,
    are_leases_synced: bool,
    sweep_at: Instant,
    period: Duration,
    lifecycle: Lifecycle,
    /// When the Pods of each Node that is out of traffic were looked at last.
    pods_withdrawn: HashMap<String, Instant>,
    queue: Queue<Look>,
    tasks: JoinSet<Done>,
}

impl Keeper {
    /// Waits for one thing to happen and takes it in, then starts the work that is due.
    async fn step(&mut self) {
        let wake = self
            .queue
            .next_wake()
            .map_or(self.sweep_at, |wake| wake.min(self.sweep_at));
        tokio::select! {
            biased;
            Some(done) = self.tasks.join_next() => self.finish(done),
            Some(event) = self.node_events.recv() => self.take_node(event),
            Some(event) = self.lease_events.recv() => self.take_lease(event),
            () = sleep_until(Some(wake)) => {}
        }
        // All that is known of Leases counts before a Node is called silent.
        while let Ok(event) = self.lease_events.try_recv() {
            self.take_lease(event);
        }
        self.queue.wake(now());
        if self.are_nodes_synced && self.are_leases_synced {
            self.sweep();
            self.start_work();
        }
    }

    fn take_node(&mut self, event: Event<Node>) {
        match event {
            Event::Applied(node) => self.apply(&node),
            Event::Deleted(key) => {
                self.lifecycle.remove_node(&key.name);
                self.pods_withdrawn.remove(&*key.name);
            }
            Event::Synced => self.are_nodes_synced = true,
            Event::Malformed { key, error } => {
                tracing::error!(kind = "Node", %key, error, "the object cannot be read and is skipped");
            }
        }
    }

    fn take_lease(&mut self, event: Event<Lease>) {
        match event {
            Event::Applied(lease) => self.lifecycle.apply_lease(&lease, now()),
            Event::Deleted(key) => self.lifecycle.remove_lease(&key.name),
            Event::Synced => self.are_leases_synced = true,
            Event::Malformed { key, error } => {
                tracing::error!(kind = "Lease", %key, error, "the object cannot be read and is skipped");
            }
        }
    }

    /// Takes in a Node from the watch or an answer, unless it is old news.
    fn apply(&mut self, node: &Node) {
        let version = |version: &str| version.parse().unwrap_or(0_u64);
        let name = &node.metadata.name;
        let known = self
            .lifecycle
            .node(name)
            .filter(|known| known.uid == node.metadata.uid);
        let of_node = version(&node.metadata.resource_version);
        if known.is_some_and(|known| version(&known.resource_version) > of_node) {
            return;
        }
        self.lifecycle.apply_node(node, now());
        self.queue.add(Look::Node(name.clone()), now());
        if !node.is_ready() {
            // Who is lost may be next to leave traffic; no need to wait for the next sweep.
            self.sweep_at = now();
        }
        self.look_at_pods(name);
    }

    /// The Pods of a Node that is out of traffic are looked at once, and now and then.
    fn look_at_pods(&mut self, name: &str) {
        if !self.lifecycle.is_out_of_traffic(name) {
            self.pods_withdrawn.remove(name);
        } else if self
            .pods_withdrawn
            .get(name)
            .is_none_or(|at| now() >= *at + PODS_PERIOD)
        {
            self.queue.add(Look::Pods(name.to_owned()), now());
        }
    }

    fn sweep(&mut self) {
        if now() < self.sweep_at {
            return;
        }
        self.sweep_at = now() + self.period;
        for name in self.lifecycle.sweep(now()) {
            self.queue.add(Look::Node(name), now());
        }
        let out: Vec<String> = self.pods_withdrawn.keys().cloned().collect();
        for name in out {
            self.look_at_pods(&name);
        }
    }

    fn start_work(&mut self) {
        while self.tasks.len() < CONCURRENT_WRITES {
            let Some((look, _)) = self.queue.take(now()) else {
                return;
            };
            let is_started = match &look {
                Look::Node(name) => self.start_step(&look, name),
                Look::Pods(name) => self.start_withdrawal(&look, name),
            };
            if !is_started {
                self.queue.done(&look, now());
            }
        }
    }

    fn start_step(&mut self, look: &Look, name: &str) -> bool {
        let time = self
            .environment
            .clock
            .now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let step = self.lifecycle.judge(name, now(), &time);
        let (Some(step), Some(node)) = (step, self.lifecycle.node(name)) else {
            return false;
        };
        let (environment, look, name, node) = (
            self.environment.clone(),
            look.clone(),
            name.to_owned(),
            node.clone(),
        );
        let renew_time = self.lifecycle.renew_time(&name).map(str::to_owned);
        self.tasks.spawn(async move {
            let written = carry_out(&environment, &name, &node, renew_time.as_deref(), step, &time).await;
            (look, written)
        });
        true
    }

    fn start_withdrawal(&mut self, look: &Look, name: &str) -> bool {
        if !self.lifecycle.is_out_of_traffic(name) {
            return false;
        }
        let (environment, look, name) = (self.environment.clone(), look.clone(), name.to_owned());
        self.tasks.spawn(async move {
            let withdrawn = withdraw_pods(&environment, &name).await;
            (look, withdrawn.map(|()| None))
        });
        true
    }

    fn finish(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok((look, Ok(written))) => {
                if let Some(node) = written {
                    self.apply(&node);
                }
                if let Look::Pods(name) = &look {
                    self.pods_withdrawn.insert(name.clone(), now());
                }
                self.queue.done(&look, now());
            }
            Ok((look, Err(error))) => {
                let pause = self.queue.failed(&look, now());
                tracing::warn!(?look, %error, ?pause, "will be tried again");
            }
            Err(error) => tracing::error!(%error, "a write on a Node failed"),
        }
    }
}
