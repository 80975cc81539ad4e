//! Userspace mode: this process accepts the connections of Services and relays them to endpoints.
//!
//! The kernel only translates addresses. The ruleset is that of nftables mode, with a local listener instead of the
//! endpoints of each Service port and traffic policy. Frontends, policies, source ranges and rejection are therefore
//! the same; this mode only selects the endpoints.
//!
//! Port ranges keep their endpoints in the ruleset, as in nftables mode. Endpoints of ranges get the port to which
//! the client connects, and a listener has only its own port. Connections to ranges therefore do not pass through
//! this process.
//!
//! The relay has two drawbacks: endpoints see this node's address as the source, and connections end with this
//! process. The relay has two advantages. It connects to another endpoint if one does not respond, and it can select
//! the endpoint with the fewest connections.
//!
//! [`Dataplane::apply`] binds listeners and writes rules without waiting. Only the relaying is asynchronous, on
//! threads that belong to the data plane.

mod balancer;
mod connection_permits;
mod listener;
mod tcp;
mod udp;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::object::{ObjectKey, Protocol};
use counting::{NamespaceShare, NamespaceShares};
use netlink::conntrack::Conntrack;
use netlink::nftables::{ExternalChange, Monitor};
use plan::{Changes, EndpointSet, Family, Plan, PortKey, Scheduler, ServicePortPlan, Settings, Target};
use tokio::runtime::Runtime;

use crate::nftables::{self, NftablesDataplane};
use crate::{Applied, Counts, Dataplane, DataplaneError, ServiceEndpoints, ServiceSockets, SkippedService};

use balancer::Balancer;
use connection_permits::ConnectionPermits;
use listener::Listener;

/// Worker threads for TCP, and the same number for UDP.
const WORKERS: usize = 2;

/// Maximum number of listeners of all Services. Each has a port of the range from which the host takes the ports of its own
/// connections. A namespace has at most as many as are free.
const LISTENERS_MAX: usize = 16_384;

/// Options of the data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of the nftables table.
    pub table: String,
    /// Maximum number of concurrent connections and UDP flows. A connection needs two file descriptors, a flow one; the
    /// caller raises the limit of open files (`netlink::rlimit`).
    pub connections_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: nftables::Options::default().table,
            connections_max: 65_536,
        }
    }
}

/// Reasons why a Service port has no listener.
#[derive(Debug, thiserror::Error)]
enum ListenError {
    /// No address of the node is usable in the IP family of the Service port.
    #[error("this node has no address of the IP family")]
    NoAddress,
    /// The Services of the namespace have their share of the listeners.
    #[error(
        "too many listeners; the limits are {LISTENERS_MAX} for the node, and as many for a namespace as are free"
    )]
    TooMany,
    /// The data plane is being dropped.
    #[error("the data plane is closing")]
    Closing,
    /// A system call failed.
    #[error("cannot open a listener: {0}")]
    Open(#[source] std::io::Error),
}

/// Selection of endpoints that a listener and its connections share.
#[derive(Debug, Default)]
struct SharedBalancer(Mutex<Balancer>);

impl SharedBalancer {
    fn lock(&self) -> MutexGuard<'_, Balancer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A userspace data plane in the network namespace in which it was opened.
#[derive(Debug)]
pub struct UserspaceDataplane {
    ruleset: NftablesDataplane,
    listeners: HashMap<ObjectKey, Vec<Listener>>,
    /// Listeners that the rules may refer to until the next change is applied.
    closing: Vec<Listener>,
    /// Services whose connections have a maximum age.
    aged_services: HashSet<ObjectKey>,
    /// True if the workers check ages.
    checks_ages: bool,
    /// Addresses of this node that listeners bind to, by IP family.
    addresses: [Option<IpAddr>; 2],
    permits: Arc<ConnectionPermits>,
    /// Permits of listeners.
    listener_shares: Arc<NamespaceShares>,
    congestion: tcp::CongestionControl,
    /// Threads that relay TCP.
    workers: tcp::Workers,
    /// Runtime that relays UDP; `None` only during drop.
    runtime: Option<Runtime>,
    /// State of the kernel that UDP listeners read.
    kernel: Arc<udp::KernelState>,
}

impl UserspaceDataplane {
    /// Connects to the kernel and starts the threads.
    ///
    /// Listeners and connections live in the network namespace of the calling thread; [`Dataplane::apply`] has to be
    /// called in the same one.
    ///
    /// # Errors
    ///
    /// An error if the kernel is not reachable, or if threads cannot start.
    pub fn open(options: Options) -> Result<Self, DataplaneError> {
        let ruleset =
            NftablesDataplane::open_for_local_redirects(nftables::Options { table: options.table })?;
        let conntrack = Conntrack::open().map_err(|error| DataplaneError::Connect {
            source: std::io::Error::other(error),
        })?;
        let workers = tcp::Workers::start(WORKERS).map_err(|source| DataplaneError::Threads { source })?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("userspace-udp")
            .enable_all()
            .build()
            .map_err(|source| DataplaneError::Threads { source })?;
        Ok(Self {
            ruleset,
            listeners: HashMap::new(),
            closing: Vec::new(),
            aged_services: HashSet::new(),
            checks_ages: false,
            addresses: [None; 2],
            permits: ConnectionPermits::new(options.connections_max),
            listener_shares: NamespaceShares::of(LISTENERS_MAX),
            congestion: tcp::CongestionControl::detect(),
            workers,
            runtime: Some(runtime),
            kernel: Arc::new(udp::KernelState::new(conntrack)),
        })
    }

    /// Opens, updates and closes the listeners of a Service.
    fn update_listeners(&mut self, plan: &Plan, service: &ObjectKey) -> Result<(), SkippedService> {
        let mut former = self.take_used(plan, service);
        let mut current = Vec::new();
        let mut result = Ok(());
        let mut has_age = false;
        for port in plan.ports_of(service) {
            let mut local_redirects = [None; 2];
            for set in used_sets(port) {
                let known = former.remove(&(port.key.clone(), set));
                let listener = match self.keep_or_listen(port, set, known) {
                    Ok(listener) => listener,
                    Err(error) => {
                        result = Err(SkippedService {
                            service: service.clone(),
                            reason: error.to_string(),
                        });
                        continue;
                    }
                };
                listener.balancer.lock().set(port, set);
                listener.age_limit.set(port.connection_age_max_seconds);
                has_age |= port.connection_age_max_seconds.is_some();
                local_redirects[set as usize] = Some(listener.address);
                current.push(listener);
            }
            self.ruleset.set_local_redirects(&port.key, local_redirects);
        }
        if has_age {
            self.aged_services.insert(service.clone());
        } else {
            self.aged_services.remove(service);
        }
        if !current.is_empty() {
            self.listeners.insert(service.clone(), current);
        }
        result
    }

    /// Takes the listeners of a Service that the plan uses out of the table, and closes the others.
    fn take_used(&mut self, plan: &Plan, service: &ObjectKey) -> HashMap<(PortKey, EndpointSet), Listener> {
        let former = self.listeners.remove(service).unwrap_or_default();
        let ports = plan.ports_of(service);
        let used: HashSet<(PortKey, EndpointSet)> = ports
            .flat_map(|port| used_sets(port).map(move |set| (port.key.clone(), set)))
            .collect();
        let mut kept = HashMap::new();
        for listener in former {
            self.ruleset.set_local_redirects(&listener.port, [None; 2]);
            let key = (listener.port.clone(), listener.set);
            if used.contains(&key) {
                kept.insert(key, listener);
            } else {
                drop(self.close(listener));
            }
        }
        kept
    }

    /// Closes a listener as soon as the rules do not refer to it. Returns its permit at once, for another listener.
    fn close(&mut self, mut listener: Listener) -> Option<NamespaceShare> {
        let share = listener.share.take();
        self.closing.push(listener);
        share
    }

    /// Returns the listener of a Service port: the known one, or another one if the address of the node has changed.
    fn keep_or_listen(
        &mut self,
        port: &ServicePortPlan,
        set: EndpointSet,
        known: Option<Listener>,
    ) -> Result<Listener, ListenError> {
        let share = match known {
            Some(known) if Some(known.address.ip()) == self.address(port) => return Ok(known),
            Some(moved) => self.close(moved),
            None => None,
        };
        self.listen(port, set, share)
    }

    fn listen(
        &self,
        port: &ServicePortPlan,
        set: EndpointSet,
        share: Option<NamespaceShare>,
    ) -> Result<Listener, ListenError> {
        let address = self.address(port).ok_or(ListenError::NoAddress)?;
        let runtime = self.runtime.as_ref().ok_or(ListenError::Closing)?;
        let share = share.or_else(|| self.listener_shares.take(&*port.key.service.namespace));
        let share = share.ok_or(ListenError::TooMany)?;
        let (permits, congestion) = (&self.permits, &self.congestion);
        let udp = (runtime, &self.kernel);
        let listener = Listener::open(port, set, address, &self.workers, udp, permits, congestion);
        let mut listener = listener.map_err(ListenError::Open)?;
        listener.share = Some(share);
        Ok(listener)
    }

    fn address(&self, port: &ServicePortPlan) -> Option<IpAddr> {
        self.addresses[port.key.family as usize]
    }

    fn apply_to(
        &mut self,
        plan: &Plan,
        services: &[ObjectKey],
        changes: &Changes,
    ) -> Result<Applied, DataplaneError> {
        let mut skipped = Vec::new();
        for service in services {
            skipped.extend(self.update_listeners(plan, service).err());
        }
        let needs_checks = !self.aged_services.is_empty();
        if self.checks_ages != needs_checks {
            self.checks_ages = needs_checks;
            self.workers.check_ages(needs_checks);
        }
        let mut applied = self.ruleset.apply(plan, changes)?;
        self.closing.clear();
        applied.skipped.extend(skipped);
        Ok(applied)
    }

    /// Returns all Services of the plan, and those that have listeners but are deleted.
    fn all_services(&self, plan: &Plan) -> Vec<ObjectKey> {
        let mut services: Vec<ObjectKey> = plan.services().chain(self.listeners.keys()).cloned().collect();
        services.sort_unstable();
        services.dedup();
        services
    }
}

impl Dataplane for UserspaceDataplane {
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        self.permits.set_pods(plan.settings().pods.ranges());
        let addresses = [Family::V4, Family::V6].map(|family| listening_address(plan.settings(), family));
        if changes.needs_full_write || addresses != self.addresses {
            let former = std::mem::replace(&mut self.addresses, addresses);
            let services = self.all_services(plan);
            let changes = Changes {
                needs_full_write: true,
                ..changes.clone()
            };
            let result = self.apply_to(plan, &services, &changes);
            if result.is_err() {
                // The rules refer to listeners at the former addresses, so the next attempt writes all Services again.
                self.addresses = former;
            }
            return result;
        }
        self.apply_to(plan, &changes.services, changes)
    }

    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        let addresses = [Family::V4, Family::V6].map(|family| listening_address(plan.settings(), family));
        let moved = if addresses == self.addresses {
            0
        } else {
            self.apply(plan, &Changes::default())?.elements
        };
        Ok(moved + self.ruleset.repair(plan)?)
    }

    fn watch(&mut self) -> std::io::Result<Option<Monitor>> {
        self.ruleset.watch()
    }

    fn answers_ping(&self) -> bool {
        self.ruleset.answers_ping()
    }

    fn repair_external(&mut self, plan: &Plan, changes: &[ExternalChange]) -> Result<usize, DataplaneError> {
        self.ruleset.repair_external(plan, changes)
    }

    fn end_connections(&mut self, endpoints: &ServiceEndpoints) {
        self.workers.end_connections(endpoints);
    }

    fn end_drained(&mut self, endpoints: &ServiceSockets) -> bool {
        self.workers.end_drained(endpoints);
        true
    }

    fn rebalance(&mut self, ports: &BTreeSet<PortKey>) -> bool {
        let services: BTreeSet<&ObjectKey> = ports.iter().map(|key| &key.service).collect();
        let listeners = services
            .into_iter()
            .filter_map(|service| self.listeners.get(service))
            .flatten();
        let groups: Vec<tcp::Group> = listeners
            .filter(|listener| ports.contains(&listener.port))
            .filter_map(|listener| {
                let (endpoints, percent) = listener.balancer.lock().rebalancing()?;
                Some(tcp::Group {
                    listener: listener.age_limit.clone(),
                    endpoints,
                    percent,
                })
            })
            .collect();
        if !groups.is_empty() {
            self.workers.rebalance(groups);
        }
        true
    }

    fn counts(&self) -> Counts {
        Counts {
            reset_connections: self.workers.ended_connections(tcp::ResetReason::Lost),
            drained_connections: self.workers.ended_connections(tcp::ResetReason::Drain),
            aged_connections: self.workers.ended_connections(tcp::ResetReason::Age),
            rebalanced_connections: self.workers.ended_connections(tcp::ResetReason::Rebalance),
            permit_refusals: Some(self.permits.refusals()),
            ..self.ruleset.counts()
        }
    }

    fn supports(&self, scheduler: Scheduler) -> bool {
        !matches!(scheduler, Scheduler::Ipvs(_))
    }
}

impl Drop for UserspaceDataplane {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns the address that listeners bind to. Other nodes reach it, because rules send packets there from every
/// interface.
fn listening_address(settings: &Settings, family: Family) -> Option<IpAddr> {
    let is_usable = |ip: &&IpAddr| match ip {
        IpAddr::V4(ip) => family == Family::V4 && !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => family == Family::V6 && !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    settings.node_addresses.iter().filter(is_usable).min().copied()
}

/// Returns the sets to which connections of a Service port go.
fn used_sets(port: &ServicePortPlan) -> impl Iterator<Item = EndpointSet> {
    let sets = [EndpointSet::Cluster, EndpointSet::Local].into_iter();
    sets.filter(move |set| is_used(port, *set))
}

/// Returns true if connections of a Service port go to a set. SCTP cannot be relayed and is rejected.
fn is_used(port: &ServicePortPlan, set: EndpointSet) -> bool {
    let targets_set = |target: &Target| matches!(target, Target::Balance { set: to, .. } if *to == set);
    port.key.protocol != Protocol::Sctp
        && port
            .frontends
            .iter()
            .any(|frontend| frontend.targets.iter().any(targets_set))
}

/// Returns a random number.
fn random() -> u64 {
    fastrand::u64(..)
}

#[cfg(test)]
mod tests;
