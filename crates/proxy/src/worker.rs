//! The thread that owns plan and dataplane: what is queued goes into the plan, and into force at once.

mod drift;
mod flows;
mod updates;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::object::{Node, ObjectKey, Protocol};
use dataplane::{Dataplane, DataplaneError};
use ipnet::IpNet;
use jiff::Timestamp;
use netlink::conntrack::Conntrack;
use netlink::nftables::ExternalChange;
use plan::{Changes, Family, FrontendKind, Origin, Plan, ServicePortPlan, Settings, Target};
use serde_json::json;
use tokio::sync::mpsc::{Receiver, WeakSender};

use crate::care::Scope;
use crate::config::Config;
use crate::drain::Drains;
use crate::events::Events;
use crate::faults::{Complaint, Faults};
use crate::health::{Health, Moment, ServiceChecks};
use crate::leftovers::remove_leftovers;
use crate::localhost::LocalhostPorts;
use crate::metrics::{Metrics, seconds_of};
use crate::node;

pub(crate) use updates::{TrafficQuestion, Update};

/// Services whose faults the status lists; the metric counts all.
const STATUS_FAULTS_MAX: usize = 1_000;
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
    pub(crate) faults: Faults,
    pub(crate) metrics: Metrics,
}

impl Board {
    /// What `portolan proxy status` shows.
    pub(crate) fn status(&self, config: &Config) -> serde_json::Value {
        let mut status = self.metrics.status();
        status["mode"] = config.proxy_mode.as_str().into();
        status["node"] = config.node_name.as_str().into();
        status["healthy"] = self.health.is_healthy(Moment::now()).into();
        status["faults"] = json!(self.faults.list(STATUS_FAULTS_MAX));
        status
    }
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
    /// TCP connections to end later.
    drains: Drains,
    events: Events,
    /// Where what others do is to be told, until that is watched.
    others: Option<WeakSender<Update>>,
    /// What others did to what is in force, not yet mended.
    tampered: Vec<ExternalChange>,
    /// When that may be mended next.
    mend_at: Instant,
    /// Why the kernel refuses Services, until it takes them.
    refused: BTreeMap<ObjectKey, String>,
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
        events: Events,
    ) -> Self {
        let plan = Plan::new(Settings {
            node_name: config.node_name.clone(),
            pods: node::pods(&config.pods, None),
            masquerade_all: config.masquerade_all,
            ignores_external_ips: !config.allows_external_ips,
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
            drains: Drains::default(),
            events,
            others: None,
            tampered: Vec::new(),
            mend_at: Instant::now(),
            refused: BTreeMap::new(),
            triggers: Vec::new(),
            started: Timestamp::now(),
            ready_at: Instant::now(),
        };
        let is_iptables = worker.config.proxy_mode == "iptables";
        worker
            .board
            .metrics
            .update(|values| values.is_iptables = is_iptables);
        worker.board.health.set_sync_period(worker.config.sync_period);
        worker.set_node(None);
        worker
    }

    /// Works until the queue is closed and empty, or the kernel will never let it. Blocks its thread. `others` is where
    /// is told what others do to what is in force.
    pub(crate) fn run(
        mut self,
        mut updates: Receiver<Update>,
        others: WeakSender<Update>,
        runtime: &tokio::runtime::Handle,
    ) -> Result<(), DataplaneError> {
        let _context = runtime.enter(); // Events are sent by tasks
        self.others = Some(others);
        let mut repair_at = Instant::now() + self.config.repair_period;
        let mut retry: Option<Retry> = None;
        let mut is_waiting = false;
        loop {
            let mend_at = Some(self.mend_at).filter(|_| !self.tampered.is_empty());
            let ready_at = Some(self.ready_at).filter(|_| is_waiting);
            let deadlines = [retry.map(|retry| retry.at), self.drains.next(), mend_at, ready_at];
            let deadline = deadlines.into_iter().flatten().fold(repair_at, Instant::min);
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
            self.end_drained();
            self.mend();
            if repair_at <= Instant::now() {
                self.repair();
                repair_at = Instant::now() + self.config.repair_period;
            }
        }
    }

    fn take_batch(&mut self, first: Update, updates: &mut Receiver<Update>) {
        let now = Moment::now();
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
            values.sync_proxy_rules_last_queued_timestamp_seconds = seconds_of(now.wall);
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
            let changes = std::mem::take(&mut self.pending);
            let is_full = changes.everything;
            let mut concerned = changes.services.clone();
            if is_full {
                concerned.extend(self.plan.faults().map(|(service, _)| service.clone()));
                concerned.extend(self.plan.services().cloned());
                self.refused.clear();
            }
            for service in &changes.services {
                self.refused.remove(service);
            }
            self.note_drains(&changes);
            self.watch_others();
            self.take_over();
            for skipped in applied.skipped {
                self.refused.insert(skipped.service.clone(), skipped.reason);
                self.pending.services.push(skipped.service);
            }
            concerned.sort_unstable();
            concerned.dedup();
            self.complain(&concerned);
            self.note_sync(began.elapsed(), is_full);
            self.ready_at = Instant::now() + self.config.min_sync_period;
        }
        self.care();
        // A Service that the kernel refuses is a fault of that Service, not of the proxy.
        self.board.health.updated(Moment::now());
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
    }

    /// Tells what is wrong with these Services.
    fn complain(&self, services: &[ObjectKey]) {
        let all = services
            .iter()
            .map(|service| (service.clone(), self.complaints(service)));
        self.board.faults.set(all, &self.events);
        let count = self.board.faults.count();
        self.board
            .metrics
            .update(|values| values.faulty_services = count as u64);
    }

    fn complaints(&self, service: &ObjectKey) -> BTreeSet<Complaint> {
        let skipped = self.plan.faults_of(service).map(|fault| Complaint {
            reason: "ServicePartSkipped",
            message: format!("a part is skipped: {fault}"),
        });
        let refused = self.refused.get(service).map(|reason| Complaint {
            reason: "FailedToProgramService",
            message: format!("the kernel refuses it, what was in force before stays: {reason}"),
        });
        let schedulers = self.plan.ports_of(service).map(|port| port.scheduler);
        let unsupported = schedulers
            .filter(|scheduler| !self.dataplane.supports(*scheduler))
            .map(|scheduler| Complaint {
                reason: "SchedulerNotSupported",
                message: format!(
                    "scheduler {} is not to be had in {} mode: endpoints are chosen at random",
                    scheduler.as_str(),
                    self.config.proxy_mode
                ),
            });
        skipped.chain(refused).chain(unsupported).collect()
    }

    /// Takes away what kube-proxy left, now that our rules carry the traffic. Once, and beside the work: its
    /// chains may be many, and the programs that delete them slow.
    fn take_over(&mut self) {
        if !std::mem::take(&mut self.config.takes_over) {
            return;
        }
        let mode = self.config.proxy_mode.clone();
        let work = move || {
            for found in remove_leftovers(Some(&mode)) {
                tracing::info!("taken over and removed: {found}");
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
        let counts = self.dataplane.counts();
        self.board.metrics.synced(took, is_full, now);
        self.board.metrics.update(|values| {
            values.totals = totals;
            values.counts = counts;
            for trigger in self.triggers.drain(..) {
                values
                    .network_programming_duration_seconds
                    // Two machines' clocks may differ, and be set.
                    .observe((seconds_of(now) - seconds_of(trigger)).max(0.0));
            }
        });
        if is_full {
            let ports = totals[0].ports + totals[1].ports;
            tracing::info!(ports, milliseconds = took.as_millis(), "everything is in force");
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
