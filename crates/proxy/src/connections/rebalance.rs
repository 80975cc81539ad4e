//! Distribution of TCP connections after a scale-out (annotation `service.portolan.dev/rebalance-percent`). The proxy
//! resets the oldest connections of the endpoints with more than their share, so that their clients connect again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use api::object::{ObjectKey, Protocol};
use netlink::conntrack::Flow;
use plan::{Changes, EndpointSet, Plan, PortKey, Scheduler, ServicePortPlan, Target};

/// Time between a scale-out and the resets. Endpoints that are added meanwhile belong to the same scale-out.
const SETTLING_TIME: Duration = Duration::from_secs(10);

/// Service ports whose connections may be distributed again.
#[derive(Debug, Default)]
pub(crate) struct Rebalancing {
    /// Endpoints of the annotated Service ports.
    endpoints: HashMap<ObjectKey, BTreeMap<PortKey, BTreeSet<SocketAddr>>>,
    /// Scale-outs, with the time of their resets.
    due: BTreeMap<PortKey, Instant>,
    /// Numbers of resets that a later pass makes, in the order of [`EndpointSet`].
    left: BTreeMap<PortKey, [usize; 2]>,
}

impl Rebalancing {
    /// Records changes that were applied. Endpoints that are present at the first record were not added.
    pub(crate) fn record(&mut self, plan: &Plan, changes: &Changes, now: Instant) {
        let services: BTreeSet<&ObjectKey> = if changes.needs_full_write {
            plan.services().collect()
        } else {
            changes.services.iter().collect()
        };
        if changes.needs_full_write {
            self.endpoints.retain(|service, _| services.contains(service));
        }
        for service in services {
            self.record_service(plan, service, now);
        }
        self.due.retain(|key, _| {
            let ports = self.endpoints.get(&key.service);
            ports.is_some_and(|ports| ports.contains_key(key))
        });
        let due = &self.due;
        self.left.retain(|key, _| due.contains_key(key));
    }

    fn record_service(&mut self, plan: &Plan, service: &ObjectKey, now: Instant) {
        let ports: BTreeMap<PortKey, BTreeSet<SocketAddr>> = plan
            .ports_of(service)
            .filter(|port| port.rebalance_percent.is_some() && can_move(port))
            .map(|port| {
                let backends = port.cluster.iter().chain(&port.local);
                (
                    port.key.clone(),
                    backends.map(|backend| backend.address).collect(),
                )
            })
            .collect();
        let former = self.endpoints.remove(service).unwrap_or_default();
        for (key, endpoints) in &ports {
            let is_scale_out = former
                .get(key)
                .is_some_and(|former| !former.is_empty() && !endpoints.is_subset(former));
            if is_scale_out && self.left.remove(key).is_some() {
                self.due.insert(key.clone(), now + SETTLING_TIME);
            } else if is_scale_out {
                self.due.entry(key.clone()).or_insert(now + SETTLING_TIME);
            }
        }
        if !ports.is_empty() {
            self.endpoints.insert(service.clone(), ports);
        }
    }

    /// Returns true if a Service has the annotation.
    pub(crate) fn is_used(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// Returns the time of the next resets.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Removes and returns the Service ports whose connections are distributed now.
    pub(crate) fn due(&mut self, now: Instant) -> BTreeSet<PortKey> {
        let due = self.due.extract_if(.., |_, at| *at <= now);
        due.map(|(key, _)| key).collect()
    }

    /// Removes and returns the numbers of resets that are left from an earlier pass; `None` for the first one.
    pub(crate) fn take_left(&mut self, key: &PortKey) -> Option<[usize; 2]> {
        self.left.remove(key)
    }

    /// Records the numbers of resets that the pass at `at` makes. They count against the share of the same scale-out.
    pub(crate) fn resume(&mut self, key: &PortKey, left: [usize; 2], at: Instant) {
        if left != [0; 2] {
            self.due.insert(key.clone(), at);
            self.left.insert(key.clone(), left);
        }
    }
}

/// Returns true if a new connection of a client can reach another endpoint.
pub(crate) fn can_move(port: &ServicePortPlan) -> bool {
    port.affinity_seconds.is_none() && port.scheduler != Scheduler::Maglev
}

/// Returns the endpoint set from which the endpoint of a connection was chosen, with the Service port.
pub(crate) fn set_of<'a>(plan: &'a Plan, flow: &Flow) -> Option<(&'a ServicePortPlan, EndpointSet)> {
    let (port, frontend) = plan.frontend_at(Protocol::Tcp, flow.original.destination)?;
    let origin = plan.settings().origin(flow.original.source.ip(), None);
    match frontend.target(origin) {
        Target::Balance { set, .. } => Some((port, set)),
        Target::Reject | Target::Drop => None,
    }
}

/// Returns the connections to reset ([`dataplane::rebalance::excess_connections`]). A connection without a start time is older than the
/// record of start times.
pub(crate) fn excess_connections(flows: Vec<Flow>, endpoints: &[SocketAddr], percent: u8) -> Vec<Flow> {
    dataplane::rebalance::excess_connections(
        flows,
        endpoints,
        percent,
        |flow| flow.reply.source,
        |flow| flow.began_at_nanoseconds,
    )
}

#[cfg(test)]
mod tests;
