//! The original way: this process takes the connections of Services and passes them on to endpoints itself.
//!
//! The kernel needs no more than address translation. The rules are those of the nftables mode, with a listener of
//! ours standing in for a Service port's endpoints: so frontends, policies, source ranges and refusals are the
//! same, and only the choice of endpoints is made here. A listener stands for one Service port under one policy.
//!
//! What is different by nature: endpoints see this node's address as the source, and connections end with this
//! process. What is better: an endpoint that does not answer is replaced by another one, and the endpoint with
//! the fewest connections can be chosen.
//!
//! The trait stays as it is. A change is in force when listeners are bound and rules are written, which takes no
//! waiting; only the connections' own work is asynchronous, on threads that belong to this dataplane.

mod balance;
mod listener;
mod tcp;
mod udp;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::object::{ObjectKey, Protocol};
use netlink::nftables::{Monitor, Touched};
use plan::{Changes, Family, Plan, Scheduler, ServicePortPlan, Set, Settings, Target};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::nftables::{self, NftablesDataplane};
use crate::{Applied, Counts, Dataplane, DataplaneError, Skipped};

use balance::Balance;
use listener::Listener;

/// Threads that pass on connections, and as many that pass on datagrams.
const THREADS: usize = 2;

/// How the dataplane is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The name of the nftables table.
    pub table: String,
    /// Connections and UDP flows at the same time. Each takes two file descriptors, or one for a flow.
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

/// Where one Service port's connections of one policy are passed on from.
#[derive(Debug, Default)]
struct Place(Mutex<Balance>);

impl Place {
    fn balance(&self) -> MutexGuard<'_, Balance> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A plan in force by way of this process, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct UserspaceDataplane {
    capture: NftablesDataplane,
    listeners: HashMap<ObjectKey, Vec<Listener>>,
    /// Listeners that rules may lead to until the next change is in force.
    leaving: Vec<Listener>,
    /// The node's addresses that listeners are bound to, by family.
    addresses: [Option<IpAddr>; 2],
    open: Arc<Semaphore>,
    congestion: tcp::CongestionControl,
    /// What passes on TCP.
    threads: tcp::Threads,
    /// What passes on UDP. `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl UserspaceDataplane {
    /// Connects to the kernel and starts the threads. Listeners and connections are in the network namespace of the
    /// calling thread; [`Dataplane::apply`] is to be called in it, too.
    pub fn open(options: Options) -> Result<Self, DataplaneError> {
        let capture = NftablesDataplane::open_for_stand_ins(nftables::Options { table: options.table })?;
        listener::raise_descriptor_limit();
        let threads = tcp::Threads::start(THREADS).map_err(|source| DataplaneError::Threads { source })?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("userspace-udp")
            .enable_all()
            .build()
            .map_err(|source| DataplaneError::Threads { source })?;
        Ok(Self {
            capture,
            listeners: HashMap::new(),
            leaving: Vec::new(),
            addresses: [None; 2],
            open: Arc::new(Semaphore::new(options.connections_max)),
            congestion: tcp::CongestionControl::of_machine(),
            threads,
            runtime: Some(runtime),
        })
    }

    /// Opens, changes and closes the listeners of a Service.
    fn prepare(&mut self, plan: &Plan, service: &ObjectKey) -> Result<(), Skipped> {
        let mut former = self.listeners.remove(service).unwrap_or_default();
        let mut now = Vec::new();
        let mut result = Ok(());
        for listener in &former {
            self.capture.stand_ins().set(&listener.port, [None; 2]);
        }
        for port in plan.ports_of(service) {
            let mut stand_ins = [None; 2];
            for set in [Set::Cluster, Set::Local] {
                if !is_used(port, set) {
                    continue;
                }
                let known = former.iter().position(|known| {
                    known.port == port.key
                        && known.set == set
                        && Some(known.address.ip()) == self.address(port)
                });
                let listener = match known {
                    Some(index) => former.swap_remove(index),
                    None => match self.listen(port, set) {
                        Ok(listener) => listener,
                        Err(reason) => {
                            result = Err(Skipped {
                                service: service.clone(),
                                reason,
                            });
                            continue;
                        }
                    },
                };
                listener.place.balance().set(port, set);
                stand_ins[set as usize] = Some(listener.address);
                now.push(listener);
            }
            self.capture.stand_ins().set(&port.key, stand_ins);
        }
        self.leaving.append(&mut former);
        if !now.is_empty() {
            self.listeners.insert(service.clone(), now);
        }
        result
    }

    fn listen(&self, port: &ServicePortPlan, set: Set) -> Result<Listener, String> {
        let address = self
            .address(port)
            .ok_or("this node has no address of that family")?;
        let runtime = self.runtime.as_ref().ok_or("the dataplane is closing")?;
        let (open, congestion) = (&self.open, &self.congestion);
        Listener::open(port, set, address, &self.threads, runtime, open, congestion)
            .map_err(|error| format!("no listener: {error}"))
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
            skipped.extend(self.prepare(plan, service).err());
        }
        let mut applied = self.capture.apply(plan, changes)?;
        self.leaving.clear();
        applied.skipped.extend(skipped);
        Ok(applied)
    }

    /// All Services, those that are gone as well.
    fn all_services(&self, plan: &Plan) -> Vec<ObjectKey> {
        let mut services: Vec<ObjectKey> = plan.services().chain(self.listeners.keys()).cloned().collect();
        services.sort_unstable();
        services.dedup();
        services
    }
}

impl Dataplane for UserspaceDataplane {
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        let addresses = [Family::V4, Family::V6].map(|family| listening_address(plan.settings(), family));
        if changes.everything || addresses != self.addresses {
            self.addresses = addresses;
            let services = self.all_services(plan);
            let changes = Changes {
                everything: true,
                ..changes.clone()
            };
            return self.apply_to(plan, &services, &changes);
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
        Ok(moved + self.capture.repair(plan)?)
    }

    fn watch(&mut self) -> std::io::Result<Option<Monitor>> {
        self.capture.watch()
    }

    fn mend(&mut self, plan: &Plan, touched: &[Touched]) -> Result<usize, DataplaneError> {
        self.capture.mend(plan, touched)
    }

    fn counts(&self) -> Counts {
        self.capture.counts()
    }

    fn supports(&self, _: Scheduler) -> bool {
        true
    }
}

impl Drop for UserspaceDataplane {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The address that listeners are bound to: one of the node's own that others can reach, so that rules may send
/// packets there wherever they come in.
fn listening_address(settings: &Settings, family: Family) -> Option<IpAddr> {
    let is_usable = |ip: &&IpAddr| match ip {
        IpAddr::V4(ip) => family == Family::V4 && !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => family == Family::V6 && !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    settings.node_addresses.iter().filter(is_usable).min().copied()
}

/// Whether connections of a Service port go to a set. SCTP cannot be passed on: it is refused.
fn is_used(port: &ServicePortPlan, set: Set) -> bool {
    let leads_there = |target: &Target| matches!(target, Target::Balance { set: to, .. } if *to == set);
    port.key.protocol != Protocol::Sctp
        && port
            .frontends
            .iter()
            .any(|frontend| frontend.targets.iter().any(leads_there))
}

/// Any number.
fn chance() -> u64 {
    fastrand::u64(..)
}

#[cfg(test)]
mod tests;
