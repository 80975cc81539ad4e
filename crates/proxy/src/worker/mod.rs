//! Worker thread: it owns plan and data plane, and applies queued updates.
//!
//! One thread owns both, so no source changes the plan while the data plane applies it. Updates go through a bounded
//! queue and change the plan in batches. A sync then writes the changes of all of them, at least the minimum sync
//! period after the last one. No sync happens before all initial lists are complete (KPR-05). After a failure, the
//! changes stay pending and are retried after growing pauses. A Service that the kernel refuses keeps its previous
//! rules, and the others are applied.

mod connection_resets;
mod drift;
mod flows;
mod two_tier;
mod updates;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
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

use self::flows::KeptRequests;
use crate::config::Config;
use crate::configuration::Mode;
use crate::connections::age::ConnectionAges;
use crate::connections::drain::Drains;
use crate::connections::lost_nodes::DepartedSender;
use crate::connections::rebalance::Rebalancing;
use crate::connections::resets::Resets;
use crate::connections::stale_flows::CleanupScope;
use crate::health::{Health, Moment, ServiceChecks};
use crate::leftovers::{LeftoverScope, remove_leftovers};
use crate::localhost::LocalhostPorts;
use crate::node;
use crate::reports::events::Events;
use crate::reports::faults::{Faults, ServiceFault};
use crate::reports::metrics::{Metrics, seconds_of};
use crate::two_tier_state::TwoTierState;

pub(crate) use updates::{TrafficQuery, Update};

/// Maximum number of Services in the status' list of faults; the metric counts all.
const STATUS_FAULTS_MAX: usize = 1_000;
/// Capacity of the queue. Sources wait while it is full.
pub(crate) const QUEUE_UPDATES_MAX: usize = 2_048;
/// Maximum number of updates per sync: enough for bursts, and so few that continuous updates cannot delay a sync.
const BATCH_UPDATES_MAX: usize = 16_384;
/// Pauses after a failure of the data plane: the first, doubled up to the maximum.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// State that the worker shares with the servers.
#[derive(Debug, Default)]
pub(crate) struct SharedStatus {
    pub(crate) health: Arc<Health>,
    pub(crate) checks: Arc<ServiceChecks>,
    pub(crate) localhost: Arc<LocalhostPorts>,
    pub(crate) faults: Faults,
    pub(crate) metrics: Metrics,
}

impl SharedStatus {
    /// Returns the content of `/status`.
    pub(crate) fn status(&self, config: &Config) -> serde_json::Value {
        let mut status = self.metrics.status();
        status["mode"] = config.proxy_mode.as_str().into();
        status["node"] = config.node_name.as_str().into();
        let now = Moment::now();
        status["healthy"] = self.health.is_healthy(now).into();
        status["secondsBehind"] = self.health.behind(now).as_secs().into();
        status["faults"] = json!(self.faults.list(STATUS_FAULTS_MAX));
        status
    }
}

/// Sources whose initial list is complete. The worker writes no rules before all lists are complete (KPR-05).
#[derive(Debug, Default)]
struct SyncedSources {
    services: bool,
    slices: bool,
    node: bool,
    service_cidrs: bool,
}

impl SyncedSources {
    fn is_complete(&self) -> bool {
        self.services && self.slices && self.node && self.service_cidrs
    }
}

/// Result of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncResult {
    /// All changes are applied.
    Applied,
    /// The kernel refused some Services; they are retried.
    Incomplete,
}

/// Time of the next attempt.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Instant,
    pause: Duration,
}

impl Retry {
    /// Returns the next attempt, with twice the previous pause.
    fn after(last: Option<Self>) -> Self {
        let pause = last.map_or(RETRY_MIN, |last| (last.pause * 2).min(RETRY_MAX));
        Self {
            at: Instant::now() + pause,
            pause,
        }
    }
}

/// Worker with the plan, the data plane and the changes in between.
pub(crate) struct Worker<D> {
    plan: Plan,
    dataplane: D,
    /// `None` if flows are not maintained.
    conntrack: Option<Conntrack>,
    config: Config,
    shared_status: Arc<SharedStatus>,
    synced: SyncedSources,
    /// Last state of the Node.
    node: Option<Box<Node>>,
    /// IPs of the Node.
    node_ips: Vec<IpAddr>,
    own_addresses: Vec<IpAddr>,
    service_cidrs: BTreeMap<ObjectKey, Vec<IpNet>>,
    /// Changes of the plan that are not applied.
    pending: Changes,
    /// Flows to check after the next sync.
    cleanup_scope: CleanupScope,
    /// Stale entries of UDP requests, which are deleted later.
    kept_requests: Option<KeptRequests>,
    /// TCP connections to end later.
    drains: Drains,
    /// Maximum ages of TCP connections.
    ages: ConnectionAges,
    /// Services whose connections are to be distributed again.
    rebalancing: Rebalancing,
    resets: Resets,
    /// Connections that this node forwards to other nodes.
    two_tier_state: TwoTierState,
    /// Next attempt of forwarding after a failure.
    forwarding_retry: Option<Retry>,
    /// Channel for endpoints whose node may have failed.
    departed_sender: Option<DepartedSender>,
    /// Time of the next report of endpoints that left.
    departed_due: Option<Instant>,
    events: Events,
    /// Queue for external changes, until they are watched.
    change_sender: Option<WeakSender<Update>>,
    /// External changes that are not repaired.
    external_changes: Vec<ExternalChange>,
    /// Earliest time of the next repair of external changes.
    repair_external_at: Instant,
    /// Services that the kernel refuses, with its reasons.
    refused: BTreeMap<ObjectKey, String>,
    triggers: Vec<Timestamp>,
    started: Timestamp,
    /// Reason why a part of the data plane is not in use, as it was last reported.
    reported_fault: Option<String>,
    /// True after the removal of kube-proxy's rules.
    has_taken_over: bool,
    /// Earliest time of the next sync.
    ready_at: Instant,
}

impl<D: Dataplane> Worker<D> {
    /// Creates a worker with an empty plan.
    pub(crate) fn new(
        config: Config,
        dataplane: D,
        conntrack: Option<Conntrack>,
        own_addresses: Vec<IpAddr>,
        shared_status: Arc<SharedStatus>,
        events: Events,
    ) -> Self {
        let mut worker = Self {
            plan: empty_plan(&config, &dataplane),
            dataplane,
            conntrack,
            config,
            shared_status,
            synced: SyncedSources::default(),
            node: None,
            node_ips: Vec::new(),
            own_addresses,
            service_cidrs: BTreeMap::new(),
            pending: Changes::default(),
            cleanup_scope: CleanupScope::default(),
            kept_requests: None,
            drains: Drains::default(),
            ages: ConnectionAges::default(),
            rebalancing: Rebalancing::default(),
            resets: Resets::default(),
            two_tier_state: TwoTierState::default(),
            forwarding_retry: None,
            departed_sender: None,
            departed_due: None,
            events,
            change_sender: None,
            external_changes: Vec::new(),
            repair_external_at: Instant::now(),
            refused: BTreeMap::new(),
            triggers: Vec::new(),
            started: Timestamp::now(),
            reported_fault: None,
            has_taken_over: false,
            ready_at: Instant::now(),
        };
        let is_iptables = worker.config.proxy_mode == "iptables";
        worker
            .shared_status
            .metrics
            .update(|values| values.is_iptables = is_iptables);
        worker
            .shared_status
            .health
            .set_sync_period(worker.config.sync_period);
        worker.set_node(None);
        worker
    }

    /// Sends endpoints that left without termination to the check of their nodes.
    pub(crate) fn check_departed(mut self, sender: DepartedSender) -> Self {
        self.departed_sender = Some(sender);
        self
    }

    /// Runs until the queue is closed and empty, or until the kernel denies access. Blocks its thread. External
    /// changes go to `change_sender`.
    pub(crate) fn run(
        mut self,
        mut updates: Receiver<Update>,
        change_sender: WeakSender<Update>,
        runtime: &tokio::runtime::Handle,
    ) -> Result<(), DataplaneError> {
        let _context = runtime.enter(); // Events are sent by tasks
        self.change_sender = Some(change_sender);
        let mut repair_at = Instant::now() + self.config.repair_period;
        let mut retry: Option<Retry> = None;
        let mut is_waiting = false;
        loop {
            let deadline = self.deadline(repair_at, retry, is_waiting);
            let next =
                runtime.block_on(async { tokio::time::timeout_at(deadline.into(), updates.recv()).await });
            match next {
                Ok(Some(update)) => self.apply_batch(update, &mut updates),
                Ok(None) if is_waiting => return self.apply().map(drop),
                Ok(None) => return Ok(()),
                Err(_) => {}
            }
            is_waiting = Instant::now() < self.ready_at;
            if !is_waiting && retry.is_none_or(|retry| retry.at <= Instant::now()) {
                retry = match self.apply() {
                    Ok(SyncResult::Applied) => None,
                    Ok(SyncResult::Incomplete) => Some(Retry::after(retry)),
                    Err(DataplaneError::NotPermitted) => return Err(DataplaneError::NotPermitted),
                    Err(error) => {
                        let services = self.pending.services.len();
                        tracing::error!(%error, services, "changes not applied");
                        Some(Retry::after(retry))
                    }
                };
            }
            self.end_drained();
            self.reset_aged();
            self.rebalance();
            self.resets.expire(Instant::now());
            self.report_due_departed(Instant::now());
            self.forward_connections();
            self.refresh_program();
            self.clean_up_kept_requests();
            self.repair_external_changes();
            if repair_at <= Instant::now() {
                self.repair();
                repair_at = Instant::now() + self.config.repair_period;
            }
        }
    }

    /// Returns the time of the next work without an update.
    fn deadline(&self, repair_at: Instant, retry: Option<Retry>, is_waiting: bool) -> Instant {
        let repair_external_at = Some(self.repair_external_at).filter(|_| !self.external_changes.is_empty());
        let ready_at = Some(self.ready_at).filter(|_| is_waiting);
        let deadlines = [
            retry.map(|retry| retry.at),
            self.drains.next(),
            self.ages.next(),
            self.rebalancing.next(),
            self.resets.next(),
            self.departed_due,
            self.forwarding_retry.map(|retry| retry.at),
            self.two_tier_state.refresh_at,
            self.kept_requests.as_ref().map(KeptRequests::at),
            repair_external_at,
            ready_at,
        ];
        deadlines.into_iter().flatten().fold(repair_at, Instant::min)
    }

    fn apply_batch(&mut self, first: Update, updates: &mut Receiver<Update>) {
        let now = Moment::now();
        self.shared_status.health.queued(now);
        self.apply_update(first);
        let mut rest = 0;
        while rest < BATCH_UPDATES_MAX
            && let Ok(update) = updates.try_recv()
        {
            self.apply_update(update);
            rest += 1;
        }
        self.shared_status.metrics.update(|values| {
            values.sync_proxy_rules_last_queued_timestamp_seconds = seconds_of(now.wall);
        });
    }

    /// Applies pending changes. After an error, all of them wait for the next attempt.
    pub(crate) fn apply(&mut self) -> Result<SyncResult, DataplaneError> {
        if !self.synced.is_complete() {
            return Ok(SyncResult::Applied);
        }
        let changes = self.plan.take_changes();
        self.publish(&changes);
        self.cleanup_scope
            .merge(CleanupScope::after(&self.plan, &changes));
        self.pending.merge(changes);
        if !self.pending.is_empty() {
            let began = Instant::now();
            let metrics = &self.shared_status.metrics;
            let applied = self.dataplane.apply(&self.plan, &self.pending).inspect_err(|_| {
                metrics.update(|values| values.sync_proxy_rules_nftables_sync_failures_total += 1);
            })?;
            let changes = std::mem::take(&mut self.pending);
            let is_full = changes.needs_full_write;
            let mut concerned = changes.services.clone();
            if is_full {
                concerned.extend(self.plan.faults().map(|(service, _)| service.clone()));
                concerned.extend(self.plan.services().cloned());
                self.refused.clear();
            }
            for service in &changes.services {
                self.refused.remove(service);
            }
            self.record_forwarded(&concerned);
            self.record_drains(&changes);
            self.record_ages_and_scale_outs(&changes);
            self.watch_external_changes();
            self.take_over_once();
            for skipped in applied.skipped {
                self.refused.insert(skipped.service.clone(), skipped.reason);
                self.pending.services.push(skipped.service);
            }
            concerned.sort_unstable();
            concerned.dedup();
            self.report_faults(&concerned);
            self.record_sync(began.elapsed(), is_full);
            self.report_dataplane_fault();
            self.ready_at = Instant::now() + self.config.min_sync_period;
        } else {
            // Some changes, for example of labels, change no rule.
            self.shared_status.metrics.nothing_pending();
        }
        self.clean_up_conntrack();
        self.schedule_departed();
        // A refused Service is a fault of the Service, not of the proxy.
        self.shared_status.health.updated(Moment::now());
        Ok(if self.pending.is_empty() {
            SyncResult::Applied
        } else {
            SyncResult::Incomplete
        })
    }

    /// Publishes changed health checks and localhost node ports.
    fn publish(&mut self, changes: &Changes) {
        for service in &changes.services {
            let node_ports = self.plan.ports_of(service).flat_map(node_ports_on_localhost);
            self.shared_status.localhost.set(service, node_ports.collect());
        }
        for service in &changes.health_checks {
            self.shared_status.checks.set(
                service,
                self.plan.uid_of(service),
                self.plan.health_check(service),
            );
        }
    }

    /// Updates the faults of these Services.
    fn report_faults(&self, services: &[ObjectKey]) {
        let all = services.iter().map(|service| {
            (
                service.clone(),
                self.plan.uid_of(service),
                self.faults_of(service),
            )
        });
        self.shared_status.faults.set(all, &self.events);
        let count = self.shared_status.faults.count();
        self.shared_status
            .metrics
            .update(|values| values.faulty_services = count as u64);
    }

    fn faults_of(&self, service: &ObjectKey) -> BTreeSet<ServiceFault> {
        let skipped = self.plan.faults_of(service).map(|fault| ServiceFault {
            reason: "ServicePartSkipped",
            message: format!("a part is skipped: {fault}"),
        });
        let refused = self.refused.get(service).map(|reason| ServiceFault {
            reason: "FailedToProgramService",
            message: format!("the kernel refuses the rules; the previous ones stay: {reason}"),
        });
        let schedulers = self.plan.ports_of(service).map(|port| port.scheduler);
        let unsupported = schedulers
            .filter(|scheduler| !self.dataplane.supports(*scheduler))
            .map(|scheduler| ServiceFault {
                reason: "SchedulerNotSupported",
                message: format!(
                    "scheduler {} is not supported in {} mode: {}",
                    scheduler.as_str(),
                    self.config.proxy_mode,
                    self.replacement()
                ),
            });
        let faults = skipped.chain(refused).chain(unsupported);
        let faults = faults.chain(self.unsupported_reset_annotations(service));
        faults.chain(self.forwarding_faults(service)).collect()
    }

    /// Removes the rules of kube-proxy and of Portolan's other modes after the first sync.
    fn take_over_once(&mut self) {
        if let Some(scope) = self.config.leftovers.take() {
            self.has_taken_over = scope == LeftoverScope::KubeProxyToo;
            self.remove_leftovers(scope);
        }
    }

    /// Removes kube-proxy's rules again after its exit: kube-proxy restores them while it runs alongside this process.
    /// Before the first sync, these rules forward the connections.
    fn remove_leftovers_of_exited(&self) {
        if self.has_taken_over {
            self.remove_leftovers(LeftoverScope::KubeProxyToo);
        }
    }

    /// Removes leftover rules. A thread does so, because many chains and slow programs take time.
    fn remove_leftovers(&self, scope: LeftoverScope) {
        let mode = self.config.proxy_mode.clone();
        let work = move || {
            let result = remove_leftovers(Some(&mode), scope);
            for found in result.removed {
                tracing::info!(leftover = %found, "leftover rules removed");
            }
            for failure in result.failures {
                tracing::warn!(%failure, "leftover rules not removed");
            }
        };
        if let Err(error) = std::thread::Builder::new()
            .name("takeover".to_owned())
            .spawn(work)
        {
            tracing::warn!(%error, "leftover rules not removed");
        }
    }

    /// Returns the choice of endpoints that replaces an unsupported scheduler.
    fn replacement(&self) -> &'static str {
        if self.config.proxy_mode == Mode::Ipvs.name() && self.dataplane.fault().is_none() {
            "rr replaces it, because the kernel has no module for it"
        } else {
            "endpoints are chosen at random"
        }
    }

    /// Reports a part of the data plane that is not in use, or in use again.
    pub(super) fn report_dataplane_fault(&mut self) {
        let fault = self.dataplane.fault().map(str::to_owned);
        if fault == self.reported_fault {
            return;
        }
        let mode = &self.config.proxy_mode;
        match &fault {
            Some(reason) => {
                let message = format!("{mode} is not usable, and nftables serves all connections: {reason}");
                self.events.record_node_warning("ProxyModeNotUsable", message);
            }
            None => {
                let message = format!("{mode} is usable again");
                self.events.record_node_event("ProxyModeUsable", message);
            }
        }
        let counts = self.dataplane.counts();
        self.shared_status.metrics.update(|values| {
            values.counts = counts;
            values.dataplane_fault.clone_from(&fault);
        });
        self.reported_fault = fault;
    }

    fn record_sync(&mut self, elapsed: Duration, is_full: bool) {
        let now = Timestamp::now();
        let totals = [Family::V4, Family::V6].map(|family| self.plan.totals(family));
        let counts = self.dataplane.counts();
        self.shared_status.metrics.synced(elapsed, is_full, now);
        self.shared_status.metrics.update(|values| {
            values.totals = totals;
            values.counts = counts;
            for trigger in self.triggers.drain(..) {
                values
                    .network_programming_duration_seconds
                    // Clocks of different hosts may differ.
                    .observe((seconds_of(now) - seconds_of(trigger)).max(0.0));
            }
        });
        if is_full {
            let ports = totals[0].ports + totals[1].ports;
            tracing::info!(ports, milliseconds = elapsed.as_millis(), "full sync done");
        }
    }
}

fn empty_plan<D: Dataplane>(config: &Config, dataplane: &D) -> Plan {
    Plan::new(Settings {
        node_name: config.node_name.clone(),
        pods: node::pods(&config.pods, None),
        masquerade_all: config.masquerade_all,
        ignores_external_ips: !config.allows_external_ips,
        default_scheduler: config.default_scheduler,
        answers_ping: config.answers_ping && dataplane.answers_ping(),
        supports_two_tier: dataplane.supports_two_tier(),
        ..Settings::default()
    })
}

/// Returns the node ports of a Service port that 127.0.0.1 serves, each with the cluster IP. They are TCP ports, and
/// lead to endpoints for clients on this node.
fn node_ports_on_localhost(port: &ServicePortPlan) -> impl Iterator<Item = (u16, SocketAddr)> {
    let is_relayed = port.key.protocol == Protocol::Tcp && port.key.family == Family::V4;
    let mut frontends = port.frontends.iter();
    let cluster_ip = frontends
        .find(|frontend| frontend.kind == FrontendKind::ClusterIp)
        .and_then(|frontend| Some(SocketAddr::new(frontend.address?, frontend.port)));
    let frontends = port.frontends.iter().filter(move |_| is_relayed);
    frontends
        .filter(|frontend| frontend.kind == FrontendKind::NodePort)
        .filter(|frontend| matches!(frontend.target(Origin::Node), Target::Balance { .. }))
        .filter_map(move |frontend| Some((frontend.port, cluster_ip?)))
}

#[cfg(test)]
mod tests;
