//! Resets of TCP connections: to endpoints of failed nodes, over their maximum age, and after a scale-out.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use api::object::{ObjectKey, Protocol};
use dataplane::{ClientSocket, Dataplane, ServiceEndpoints};
use netlink::conntrack::{ConntrackError, Flow};
use plan::{Changes, DepartedEndpoint, EndpointSet, Plan, PortKey, ServicePortPlan};

use super::{SharedStatus, Worker};
use crate::connections::conntrack::{connected_endpoints, reaches_endpoint, tcp_flows};
use crate::connections::rebalance::{can_move, excess_connections, set_of};
use crate::connections::resets::{Peers, TableCapacity, is_closed};
use crate::reports::faults::ServiceFault;
use crate::reports::metrics::ResetReason;

/// Maximum number of connections that one pass ends because of their age or a scale-out. The resets of a pass block
/// this thread for milliseconds, and the clients connect again within as short a time.
const ENDED_PER_PASS_MAX: usize = 4_096;
/// Time until the next pass, if connections remain.
const PASS_PAUSE: Duration = Duration::from_secs(1);
/// Time from the first endpoint that leaves until the search for its connections, which covers all that leave until then.
/// The search reads the conntrack table of the kernel, which takes tens of milliseconds and delays the changes that follow.
const DEPARTED_DELAY: Duration = Duration::from_secs(1);

impl<D: Dataplane> Worker<D> {
    /// Schedules the report of endpoints that left without termination.
    pub(super) fn schedule_departed(&mut self) {
        if self.departed_sender.is_some() && self.departed_due.is_none() && self.plan.has_departed() {
            self.departed_due = Some(Instant::now() + DEPARTED_DELAY);
        }
    }

    /// Reports endpoints that left, if that is due.
    pub(super) fn report_due_departed(&mut self, now: Instant) {
        if self.departed_due.take_if(|due| *due <= now).is_some() {
            self.report_departed();
        }
    }

    /// Sends endpoints that left without termination to the check of their nodes, which reads Nodes. Endpoints without a
    /// connection, and those of deleted Services, are not checked.
    fn report_departed(&mut self) {
        let mut departed = self.plan.take_departed();
        departed.retain(|endpoint| self.plan.ports_of(&endpoint.service).next().is_some());
        let is_userspace = self.is_userspace();
        let Some(sender) = self.departed_sender.as_ref().filter(|_| !departed.is_empty()) else {
            return;
        };
        if !is_userspace {
            let Some(conntrack) = self.conntrack.as_mut() else {
                return;
            };
            let endpoints: ServiceEndpoints = departed.iter().map(service_endpoint).collect();
            match connected_endpoints(conntrack, &self.plan, &endpoints) {
                Ok(mut connected) => {
                    connected.extend(connected_sockets(&self.dataplane, &self.plan, &endpoints));
                    departed.retain(|endpoint| connected.contains(&service_endpoint(endpoint)));
                }
                Err(error) => {
                    tracing::warn!(%error, "connections to endpoints that left not read; checking all of them")
                }
            }
            if departed.is_empty() {
                return;
            }
        }
        if let Err(error) = sender.try_send(departed) {
            tracing::warn!(%error, "nodes of endpoints that left not checked; connections to them wait for TCP timeouts");
        }
    }

    /// Records maximum ages and scale-outs. In userspace mode, conntrack entries lead to this process, not to
    /// endpoints: the data plane ends the connections itself.
    pub(super) fn record_ages_and_scale_outs(&mut self, changes: &Changes) {
        let now = Instant::now();
        self.rebalancing.record(&self.plan, changes, now);
        if self.is_userspace() {
            return;
        }
        self.ages.record(&self.plan, changes, now);
        if self.rebalancing.is_used() {
            self.ages.record_start_times();
        }
    }

    /// Resets the connections to lost endpoints. Of userspace mode, connection tracking has only those of port ranges.
    pub(super) fn reset_lost(&mut self, endpoints: &ServiceEndpoints) {
        self.dataplane.end_connections(endpoints);
        let plan = &self.plan;
        let status = self.shared_status.clone();
        let requested = self.dataplane.destroy_client_sockets(
            &mut |socket| service_of(plan, socket).is_some_and(|endpoint| endpoints.contains(&endpoint)),
            Box::new(move |count| count_ended(&status, count, ResetReason::NodeLost)),
        );
        if let Err(error) = requested {
            tracing::warn!(%error, "sockets of connections to lost endpoints not destroyed");
        }
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let lost = tcp_flows(conntrack, |flow| reaches_endpoint(plan, flow, endpoints));
        self.end(lost, Peers::Client, ResetReason::NodeLost);
    }

    /// Resets connections that are too old.
    pub(super) fn reset_aged(&mut self) {
        let now = Instant::now();
        let Some(check) = self.ages.due(now) else {
            return;
        };
        let mut pass = self.pass(now);
        let plan = &self.plan;
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let aged = tcp_flows(conntrack, |flow| {
            !is_closed(flow) && check.ends(plan, flow) && pass.take(1) == 1
        });
        if pass.is_exceeded {
            self.ages.check_at(now + PASS_PAUSE);
        }
        self.end(aged, Peers::Both, ResetReason::Age);
    }

    /// Resets the oldest connections of the busiest endpoints after a scale-out.
    pub(super) fn rebalance(&mut self) {
        let now = Instant::now();
        let due = self.rebalancing.due(now);
        if due.is_empty() || self.dataplane.rebalance(&due) {
            return;
        }
        let mut pass = self.pass(now);
        let plan = &self.plan;
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let mut groups: HashMap<(PortKey, EndpointSet), Vec<Flow>> = HashMap::new();
        let read = tcp_flows(conntrack, |flow| {
            let found = set_of(plan, flow).filter(|(port, _)| due.contains(&port.key) && !is_closed(flow));
            if let Some((port, set)) = found {
                groups.entry((port.key.clone(), set)).or_default().push(*flow);
            }
            false
        });
        let ports = due.iter().flat_map(|key| {
            let ports = plan.ports_of(&key.service);
            ports.filter(move |port| port.key == *key)
        });
        let mut ended = Vec::new();
        for port in ports {
            let Some(percent) = port.rebalance_percent else {
                continue;
            };
            let former = self.rebalancing.take_left(&port.key);
            let left = [EndpointSet::Cluster, EndpointSet::Local].map(|set| {
                let flows = groups.remove(&(port.key.clone(), set)).unwrap_or_default();
                let backends = port.backends(set).iter();
                let endpoints: Vec<SocketAddr> = backends.map(|backend| backend.address).collect();
                let mut chosen = excess_connections(flows, &endpoints, percent);
                if let Some(former) = former {
                    chosen.truncate(former[set as usize]);
                }
                let count = pass.take(chosen.len());
                let left = chosen.len() - count;
                ended.extend(chosen.into_iter().take(count));
                left
            });
            self.rebalancing.resume(&port.key, left, now + PASS_PAUSE);
        }
        self.end(read.map(|_| ended), Peers::Both, ResetReason::Rebalance);
    }

    /// Begins a pass that ends connections which could end later.
    fn pass(&mut self, now: Instant) -> ResetPass {
        // Each connection has two directions in the table.
        let listed_max = self.resets.free_entries(TableCapacity::Unreserved, now) / 2;
        ResetPass {
            room: ENDED_PER_PASS_MAX.min(listed_max),
            is_exceeded: false,
        }
    }

    /// Resets connections and counts them.
    fn end(&mut self, flows: Result<Vec<Flow>, ConntrackError>, peers: Peers, reason: ResetReason) {
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let capacity = match reason {
            ResetReason::NodeLost => TableCapacity::All,
            ResetReason::Age | ResetReason::Rebalance => TableCapacity::Unreserved,
        };
        let now = Instant::now();
        let ended = flows.and_then(|flows| self.resets.end(conntrack, &flows, peers, capacity, now));
        match ended {
            Ok(count) => count_ended(&self.shared_status, count, reason),
            Err(error) => tracing::warn!(%error, ?reason, "connections not reset"),
        }
    }

    /// Returns the faults of annotations that this mode, or this node, cannot implement.
    pub(super) fn unsupported_reset_annotations(&self, service: &ObjectKey) -> Vec<ServiceFault> {
        let mut faults = Vec::new();
        let has_age = |port: &ServicePortPlan| port.connection_age_max_seconds.is_some();
        if let Some(reason) = self.ages.unavailable()
            && !self.is_userspace()
            && self.plan.ports_of(service).any(has_age)
        {
            faults.push(ServiceFault {
                reason: "ConnectionAgeNotSupported",
                message: format!("connections have no maximum age: {reason}"),
            });
        }
        let is_rebalanced = |port: &ServicePortPlan| port.rebalance_percent.is_some() && can_move(port);
        if let Some(reason) = self.ages.unavailable()
            && !self.is_userspace()
            && self.plan.ports_of(service).any(is_rebalanced)
        {
            faults.push(ServiceFault {
                reason: "ConnectionBeginsUnknown",
                message: format!("any connections are rebalanced instead of the oldest ones: {reason}"),
            });
        }
        let is_fixed = |port: &ServicePortPlan| port.rebalance_percent.is_some() && !can_move(port);
        if self.plan.ports_of(service).any(is_fixed) {
            faults.push(ServiceFault {
                reason: "RebalanceNotSupported",
                message: "connections are not rebalanced: session affinity or the scheduler leads clients to the same \
                          endpoint again"
                    .to_owned(),
            });
        }
        faults
    }

    fn is_userspace(&self) -> bool {
        self.config.proxy_mode == "userspace"
    }
}

fn count_ended(status: &SharedStatus, count: usize, reason: ResetReason) {
    if count == 0 {
        return;
    }
    tracing::info!(count, ?reason, "connections reset");
    status.metrics.update(|values| {
        let total = values.reset_connections_total.get_mut(reason as usize);
        if let Some(total) = total {
            *total += count as u64;
        }
    });
}

/// Connections that a pass may still end.
#[derive(Debug)]
struct ResetPass {
    room: usize,
    /// True if connections remain for the next pass.
    is_exceeded: bool,
}

impl ResetPass {
    /// Reserves a part of the pass for connections. Returns the number of connections that may end.
    fn take(&mut self, count: usize) -> usize {
        let taken = count.min(self.room);
        self.room -= taken;
        self.is_exceeded |= taken < count;
        taken
    }
}

/// Returns the endpoints to which a socket of a client is connected through their Service.
fn connected_sockets(
    dataplane: &impl Dataplane,
    plan: &Plan,
    endpoints: &ServiceEndpoints,
) -> ServiceEndpoints {
    let mut found = ServiceEndpoints::new();
    let read = dataplane.client_sockets(&mut |socket| {
        found.extend(service_of(plan, socket).filter(|endpoint| endpoints.contains(endpoint)));
    });
    match read {
        Ok(()) => found,
        Err(error) => {
            tracing::warn!(%error, "sockets of clients to endpoints that left not read; checking all of them");
            endpoints.clone()
        }
    }
}

/// Returns the Service of a socket, and the address of its endpoint; `None` without a frontend.
fn service_of(plan: &Plan, socket: &ClientSocket) -> Option<(ObjectKey, IpAddr)> {
    let (port, _) = plan.frontend_at(Protocol::Tcp, socket.frontend)?;
    Some((port.key.service.clone(), socket.endpoint.ip()))
}

fn service_endpoint(departed: &DepartedEndpoint) -> (ObjectKey, IpAddr) {
    (departed.service.clone(), departed.endpoint.ip())
}

#[cfg(test)]
mod tests;
