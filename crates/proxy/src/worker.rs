//! The thread that owns plan and dataplane: what is queued goes into the plan, and into force at once.

mod updates;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::object::{Node, ObjectKey, Protocol};
use dataplane::{Dataplane, DataplaneError};
use ipnet::IpNet;
use jiff::Timestamp;
use netlink::conntrack::Conntrack;
use plan::{Changes, Family, FrontendKind, Origin, Plan, ServicePortPlan, Settings, Target};
use tokio::sync::mpsc::Receiver;

use crate::care::Scope;
use crate::config::Config;
use crate::conntrack::forget_stale;
use crate::health::{Health, ServiceChecks};
use crate::leftovers::remove_kube_proxy;
use crate::localhost::LocalhostPorts;
use crate::metrics::{Metrics, seconds_of};
use crate::node;

pub(crate) use updates::Update;

/// Updates that wait in the queue: sources pause beyond that.
pub(crate) const QUEUE_UPDATES_MAX: usize = 2_048;
/// Updates taken in one step: enough for any burst, few enough that a stream of them cannot keep the
/// first from coming into force.
const BATCH_UPDATES_MAX: usize = 16_384;
/// Pauses after a dataplane that failed: the first, doubled up to the last.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// What the worker tells to those who ask over HTTP.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) health: Arc<Health>,
    pub(crate) checks: Arc<ServiceChecks>,
    pub(crate) localhost: Arc<LocalhostPorts>,
    pub(crate) metrics: Metrics,
}

/// Which sources have told everything once. Nothing is written before all have (KPR-05).
#[derive(Debug, Default)]
struct Synced {
    services: bool,
    slices: bool,
    node: bool,
    service_cidrs: bool,
}

impl Synced {
    fn all(&self) -> bool {
        self.services && self.slices && self.node && self.service_cidrs
    }
}

/// What came of bringing changes into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of them are in force.
    InForce,
    /// Some Services were refused and will be tried again.
    Incomplete,
}

/// When to try again.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Instant,
    pause: Duration,
}

impl Retry {
    /// A pause, longer than the one before.
    fn after(last: Option<Self>) -> Self {
        let pause = last.map_or(RETRY_MIN, |last| (last.pause * 2).min(RETRY_MAX));
        Self {
            at: Instant::now() + pause,
            pause,
        }
    }
}

/// Plan, dataplane, and what is on its way from the one to the other.
pub(crate) struct Worker<D> {
    plan: Plan,
    dataplane: D,
    /// `None` where nobody's flows are looked after.
    conntrack: Option<Conntrack>,
    config: Config,
    board: Arc<Board>,
    synced: Synced,
    /// The Node as it was last seen.
    node: Option<Box<Node>>,
    /// The Node's IPs in use.
    node_ips: Vec<IpAddr>,
    own_addresses: Vec<IpAddr>,
    service_cidrs: BTreeMap<ObjectKey, Vec<IpNet>>,
    /// Changes that are in the plan and not in force.
    pending: Changes,
    /// Flows to look at once they are.
    scope: Scope,
    triggers: Vec<Timestamp>,
    started: Timestamp,
    /// When the dataplane may be changed again.
    ready_at: Instant,
}

impl<D: Dataplane> Worker<D> {
    /// A worker with an empty plan on a machine with these addresses.
    pub(crate) fn new(
        config: Config,
        dataplane: D,
        conntrack: Option<Conntrack>,
        own_addresses: Vec<IpAddr>,
        board: Arc<Board>,
    ) -> Self {
        let plan = Plan::new(Settings {
            node_name: config.node_name.clone(),
            pods: node::pods(&config.pods, None),
            masquerade_all: config.masquerade_all,
            ..Settings::default()
        });
        let mut worker = Self {
            plan,
            dataplane,
            conntrack,
            config,
            board,
            synced: Synced::default(),
            node: None,
            node_ips: Vec::new(),
            own_addresses,
            service_cidrs: BTreeMap::new(),
            pending: Changes::default(),
            scope: Scope::default(),
            triggers: Vec::new(),
            started: Timestamp::now(),
            ready_at: Instant::now(),
        };
        worker.board.health.set_sync_period(worker.config.sync_period);
        worker.set_node(None);
        worker
    }

    /// Works until the queue is closed and empty, or the kernel will never let it. Blocks its thread.
    pub(crate) fn run(
        mut self,
        mut updates: Receiver<Update>,
        runtime: &tokio::runtime::Handle,
    ) -> Result<(), DataplaneError> {
        let mut repair_at = Instant::now() + self.config.repair_period;
        let mut retry: Option<Retry> = None;
        let mut is_waiting = false;
        loop {
            let deadline = retry.map_or(repair_at, |retry| retry.at.min(repair_at));
            let deadline = if is_waiting {
                deadline.min(self.ready_at)
            } else {
                deadline
            };
            let next =
                runtime.block_on(async { tokio::time::timeout_at(deadline.into(), updates.recv()).await });
            match next {
                Ok(Some(update)) => self.take_batch(update, &mut updates),
                Ok(None) if is_waiting => return self.apply().map(drop),
                Ok(None) => return Ok(()),
                Err(_) => {}
            }
            is_waiting = Instant::now() < self.ready_at;
            if !is_waiting && retry.is_none_or(|retry| retry.at <= Instant::now()) {
                retry = match self.apply() {
                    Ok(Outcome::InForce) => None,
                    Ok(Outcome::Incomplete) => Some(Retry::after(retry)),
                    Err(DataplaneError::NotPermitted) => return Err(DataplaneError::NotPermitted),
                    Err(error) => {
                        let services = self.pending.services.len();
                        tracing::error!(%error, services, "cannot put changes into force");
                        Some(Retry::after(retry))
                    }
                };
            }
            if repair_at <= Instant::now() {
                self.repair();
                repair_at = Instant::now() + self.config.repair_period;
            }
        }
    }

    fn take_batch(&mut self, first: Update, updates: &mut Receiver<Update>) {
        let now = Timestamp::now();
        self.board.health.queued(now);
        self.take(first);
        let mut rest = 0;
        while rest < BATCH_UPDATES_MAX
            && let Ok(update) = updates.try_recv()
        {
            self.take(update);
            rest += 1;
        }
        self.board.metrics.update(|values| {
            values.sync_proxy_rules_last_queued_timestamp_seconds = seconds_of(now);
        });
    }

    /// Brings what has changed into force. After an error all of it waits for the next try.
    pub(crate) fn apply(&mut self) -> Result<Outcome, DataplaneError> {
        if !self.synced.all() {
            return Ok(Outcome::InForce);
        }
        let changes = self.plan.take_changes();
        self.tell(&changes);
        self.scope.merge(Scope::of(&self.plan, &changes));
        self.pending.merge(changes);
        if !self.pending.is_empty() {
            let began = Instant::now();
            let metrics = &self.board.metrics;
            let applied = self.dataplane.apply(&self.plan, &self.pending).inspect_err(|_| {
                metrics.update(|values| values.sync_proxy_rules_nftables_sync_failures_total += 1);
            })?;
            let is_full = std::mem::take(&mut self.pending).everything;
            self.take_over();
            for skipped in applied.skipped {
                tracing::error!(service = %skipped.service, reason = skipped.reason, "the kernel refuses a Service");
                self.pending.services.push(skipped.service);
            }
            self.note_sync(began.elapsed(), is_full);
            self.ready_at = Instant::now() + self.config.min_sync_period;
        }
        self.care();
        // A Service that the kernel refuses is a fault of that Service, not of the proxy.
        self.board.health.updated(Timestamp::now());
        Ok(if self.pending.is_empty() {
            Outcome::InForce
        } else {
            Outcome::Incomplete
        })
    }

    /// Tells people and load balancers what changed.
    fn tell(&mut self, changes: &Changes) {
        for service in &changes.services {
            let node_ports = self.plan.ports_of(service).flat_map(node_ports_on_localhost);
            self.board.localhost.set(service, node_ports.collect());
        }
        for service in &changes.health_checks {
            self.board.checks.set(service, self.plan.health_check(service));
        }
        for service in &changes.services {
            for fault in self.plan.faults_of(service) {
                tracing::warn!(%service, %fault, "a part of a Service is skipped");
            }
        }
    }

    /// Takes away what kube-proxy left, now that our rules carry the traffic. Once, and beside the work: its
    /// chains may be many, and the programs that delete them slow.
    fn take_over(&mut self) {
        if !std::mem::take(&mut self.config.takes_over) {
            return;
        }
        let work = || {
            for found in remove_kube_proxy() {
                tracing::info!("taken over from kube-proxy and removed: {found}");
            }
        };
        if let Err(error) = std::thread::Builder::new()
            .name("take-over".to_owned())
            .spawn(work)
        {
            tracing::warn!(%error, "what kube-proxy left stays");
        }
    }

    fn note_sync(&mut self, took: Duration, is_full: bool) {
        let now = Timestamp::now();
        let totals = [Family::V4, Family::V6].map(|family| self.plan.totals(family));
        self.board.metrics.synced(took, is_full, now);
        self.board.metrics.update(|values| {
            values.totals = totals;
            for trigger in self.triggers.drain(..) {
                values
                    .network_programming_duration_seconds
                    .observe(seconds_of(now) - seconds_of(trigger));
            }
        });
        if is_full {
            let ports = totals[0].ports + totals[1].ports;
            tracing::info!(ports, milliseconds = took.as_millis(), "everything is in force");
        }
    }

    /// Takes stale flows from the kernel's memory. What fails is tried again with the next change.
    fn care(&mut self) {
        let Some(conntrack) = self.conntrack.as_mut().filter(|_| !self.scope.is_empty()) else {
            return;
        };
        let began = Instant::now();
        match forget_stale(conntrack, &self.plan, &self.scope) {
            Ok(count) => {
                self.scope = Scope::default();
                self.board.metrics.update(|values| {
                    values.conntrack_reconciler_deleted_entries_total += count as u64;
                    values
                        .conntrack_reconciler_sync_duration_seconds
                        .observe(began.elapsed().as_secs_f64());
                });
            }
            Err(error) => tracing::warn!(%error, "cannot look for stale UDP flows"),
        }
    }

    /// Reads back what is in force and mends it.
    fn repair(&mut self) {
        if !self.synced.all() || !self.pending.is_empty() {
            return;
        }
        match self.dataplane.repair(&self.plan) {
            Ok(0) => {}
            Ok(elements) => {
                tracing::warn!(
                    elements,
                    "what is in force was not what it should be, and was mended"
                );
                self.board
                    .metrics
                    .update(|values| values.repaired_elements_total += elements as u64);
            }
            Err(error) => tracing::error!(%error, "cannot read back what is in force"),
        }
    }
}

/// The node ports of a Service port that answer on 127.0.0.1: TCP ones that lead somewhere from this node.
fn node_ports_on_localhost(port: &ServicePortPlan) -> impl Iterator<Item = u16> {
    let is_relayed = port.key.protocol == Protocol::Tcp && port.key.family == Family::V4;
    let frontends = port.frontends.iter().filter(move |_| is_relayed);
    frontends
        .filter(|frontend| frontend.kind == FrontendKind::NodePort)
        .filter(|frontend| matches!(frontend.target(Origin::Node), Target::Balance { .. }))
        .map(|frontend| frontend.port)
}

#[cfg(test)]
mod tests;
