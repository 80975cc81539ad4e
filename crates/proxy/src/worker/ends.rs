//! Ends of TCP connections to endpoints that still exist or whose node died: by loss of the node, by age, and after a
//! scale-out.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use api::object::{ObjectKey, Protocol};
use dataplane::Dataplane;
use netlink::conntrack::{ConntrackError, Flow};
use plan::{Changes, PortKey, ServicePortPlan, Set};

use super::Worker;
use crate::conntrack::tcp_flows;
use crate::faults::ServiceFault;
use crate::metrics::EndReason;
use crate::rebalance::{can_move, excess, set_of};
use crate::resets::Peers;

impl<D: Dataplane> Worker<D> {
    /// Sends endpoints that left without termination to the check of their nodes.
    pub(super) fn report_departed(&mut self) {
        let departed = self.plan.take_departed();
        let Some(sender) = self.departed_sender.as_ref().filter(|_| !departed.is_empty()) else {
            return;
        };
        if let Err(error) = sender.try_send(departed) {
            tracing::warn!(%error, "nodes of departed endpoints not checked");
        }
    }

    /// Records maximum ages and scale-outs. In userspace mode, conntrack entries lead to this process, not to endpoints.
    pub(super) fn record_ends(&mut self, changes: &Changes) {
        if self.is_userspace() {
            return;
        }
        let now = Instant::now();
        self.ages.record(&self.plan, changes, now);
        self.rebalancing.record(&self.plan, changes, now);
        if self.rebalancing.is_used() {
            self.ages.record_begins();
        }
    }

    /// Resets the connections to lost endpoints.
    pub(super) fn end_lost(&mut self, addresses: &HashSet<IpAddr>) {
        if self.dataplane.end_connections(addresses) {
            return;
        }
        let plan = &self.plan;
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let lost = tcp_flows(conntrack, |flow| {
            addresses.contains(&flow.reply.source.ip())
                && flow.reply.source != flow.original.destination
                && plan
                    .frontend_at(Protocol::Tcp, flow.original.destination)
                    .is_some()
        });
        self.end(lost, Peers::Client, EndReason::NodeLost);
    }

    /// Resets connections that are too old.
    pub(super) fn end_aged(&mut self) {
        let Some(check) = self.ages.due(Instant::now()) else {
            return;
        };
        let plan = &self.plan;
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let aged = tcp_flows(conntrack, |flow| check.ends(plan, flow));
        self.end(aged, Peers::Both, EndReason::Age);
    }

    /// Resets the oldest connections of the busiest endpoints after a scale-out.
    pub(super) fn rebalance(&mut self) {
        let due = self.rebalancing.due(Instant::now());
        let plan = &self.plan;
        let Some(conntrack) = self.conntrack.as_mut().filter(|_| !due.is_empty()) else {
            return;
        };
        let mut groups: HashMap<(PortKey, Set), Vec<Flow>> = HashMap::new();
        let read = tcp_flows(conntrack, |flow| {
            if let Some((port, set)) = set_of(plan, flow).filter(|(port, _)| due.contains(&port.key)) {
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
            for set in [Set::Cluster, Set::Local] {
                let flows = groups.remove(&(port.key.clone(), set)).unwrap_or_default();
                let backends = port.backends(set).iter();
                let endpoints: Vec<SocketAddr> = backends.map(|backend| backend.address).collect();
                if let Some(percent) = port.rebalance_percent {
                    ended.extend(excess(flows, &endpoints, percent));
                }
            }
        }
        self.end(read.map(|_| ended), Peers::Both, EndReason::Rebalance);
    }

    /// Resets connections and counts them.
    fn end(&mut self, flows: Result<Vec<Flow>, ConntrackError>, peers: Peers, reason: EndReason) {
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let ended = flows.and_then(|flows| self.resets.end(conntrack, &flows, peers, Instant::now()));
        match ended {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!(count, ?reason, "connections reset");
                self.shared_status.metrics.update(|values| {
                    let total = values.reset_connections_total.get_mut(reason as usize);
                    if let Some(total) = total {
                        *total += count as u64;
                    }
                });
            }
            Err(error) => tracing::warn!(%error, ?reason, "connections not reset"),
        }
    }

    /// Returns the faults of annotations that this mode, or this node, cannot implement.
    pub(super) fn unsupported_ends(&self, service: &ObjectKey) -> Vec<ServiceFault> {
        let mut faults = Vec::new();
        let mode = &self.config.proxy_mode;
        let has_age = |port: &ServicePortPlan| port.connection_age_max_seconds.is_some();
        if self.plan.ports_of(service).any(has_age) {
            let reason = if self.is_userspace() {
                Some(format!("{mode} mode does not support it"))
            } else {
                self.ages.unavailable().map(str::to_owned)
            };
            faults.extend(reason.map(|reason| ServiceFault {
                reason: "ConnectionAgeNotSupported",
                message: format!("connections have no maximum age: {reason}"),
            }));
        }
        let mut rebalanced = self
            .plan
            .ports_of(service)
            .filter(|port| port.rebalance_percent.is_some());
        let reason = if self.is_userspace() {
            rebalanced
                .next()
                .map(|_| format!("{mode} mode does not support it"))
        } else {
            let fixed = rebalanced.find(|port| !can_move(port));
            fixed.map(|_| {
                "session affinity or the scheduler leads clients to the same endpoint again".to_owned()
            })
        };
        faults.extend(reason.map(|reason| ServiceFault {
            reason: "RebalanceNotSupported",
            message: format!("connections are not rebalanced: {reason}"),
        }));
        faults
    }

    fn is_userspace(&self) -> bool {
        self.config.proxy_mode == "userspace"
    }
}
