//! Control of egress. Inputs are owners of the election and objects of the API; outputs are tables, routes, Events
//! and metrics.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use netlink::route::{Action, Connection, Route};

use super::reporter::Reporter;
use crate::caches::Caches;
use crate::desired_announcements::DesiredAnnouncements;
use crate::egress::kernel::EgressKernel;
use crate::egress::objects::EgressObjects;
use crate::egress::plan::{EgressPlan, EgressView, PodEgress, route_to_pods};
use crate::egress::reports::EgressReports;
use crate::egress::stale_flows::StaleFlowFlusher;
use crate::egress::state::{EgressState, OwnerNumbers};
use crate::election::Election;
use crate::l2::sockets::LinkSockets;
use crate::metrics::Metrics;
use crate::{NodeName, Time};

#[cfg(test)]
mod tests;

/// Minimum time between two checks of the owners. A failover takes longer.
const CHECK_PERIOD: Duration = Duration::from_millis(20);
/// Period of plans without a known change: routes of other programs may have changed. Failures are retried, too.
const REFRESH_PERIOD: Duration = Duration::from_secs(2);
/// Period of writes without a change: another program may have deleted a table, a rule or a route.
const REPAIR_PERIOD: Duration = Duration::from_secs(30);

/// Parts of the announcer that egress reads.
pub(super) struct EgressCluster<'a> {
    pub(super) election: &'a Election,
    pub(super) sockets: &'a LinkSockets,
    pub(super) metrics: &'a Metrics,
    pub(super) reporter: &'a Reporter,
}

/// Egress of this node.
pub(super) struct EgressControl {
    own: NodeName,
    kernel: EgressKernel,
    numbers: OwnerNumbers,
    reports: EgressReports,
    flusher: StaleFlowFlusher,
    /// Owners of the addresses at the last plan.
    owners: BTreeMap<IpAddr, Option<NodeName>>,
    /// State of the last successful write.
    applied: EgressState,
    /// True if no Service has egress, and the objects of an earlier process are removed.
    is_idle: bool,
    check_at: Time,
    refresh_at: Time,
    repair_at: Time,
    last_error: Option<String>,
}

impl EgressControl {
    pub(super) fn new(own: NodeName) -> Self {
        Self {
            own,
            kernel: EgressKernel::default(),
            numbers: OwnerNumbers::default(),
            reports: EgressReports::default(),
            flusher: StaleFlowFlusher::default(),
            owners: BTreeMap::new(),
            applied: EgressState::default(),
            is_idle: false,
            check_at: Time::ZERO,
            refresh_at: Time::ZERO,
            repair_at: Time::ZERO,
            last_error: None,
        }
    }

    /// Makes the next call check the owners.
    pub(super) fn check_now(&mut self) {
        self.check_at = Time::ZERO;
    }

    /// Plans again if objects or owners have changed, and writes the plan to the kernel. Before the initial lists are
    /// complete, the state of an earlier process stays.
    pub(super) fn apply(&mut self, now: Time, caches: &mut Caches, cluster: &EgressCluster<'_>) {
        if now < self.check_at || !caches.is_synced() {
            return;
        }
        self.check_at = now + CHECK_PERIOD;
        let is_changed = caches.egress.take_changed();
        if self.is_idle && !is_changed {
            return;
        }
        let owners = owners(&caches.egress, cluster.election, now);
        if is_changed || owners != self.owners || now >= self.refresh_at {
            self.owners = owners;
            self.refresh_at = now + REFRESH_PERIOD;
            if now >= self.repair_at {
                self.repair_at = now + REPAIR_PERIOD;
                self.kernel.write_again();
            }
            let mut plan = self.plan(&caches.egress, &caches.desired, cluster);
            self.write(&mut plan, &caches.egress);
            self.publish(now, &plan, &caches.egress, cluster.metrics);
        }
        self.flusher.advance(&self.applied);
        for (service, report) in self.reports.take_due(now) {
            let uid = caches.egress.service(&service).map(|service| &*service.uid);
            let uid = uid.unwrap_or_default();
            cluster.reporter.egress(&caches.desired, &service, uid, &report);
        }
    }

    /// Sets metrics and states to report after a write. The counts of Pods stay those of the last rules that the kernel
    /// accepted.
    fn publish(&mut self, now: Time, plan: &EgressPlan, objects: &EgressObjects, metrics: &Metrics) {
        if self.last_error.is_none() {
            metrics.set_egress_pods(count(plan));
        }
        let services = plan.services(objects, self.last_error.as_deref());
        metrics.set_egress_services(&services);
        self.reports.set(now, services);
    }

    fn plan(
        &self,
        objects: &EgressObjects,
        desired: &DesiredAnnouncements,
        cluster: &EgressCluster<'_>,
    ) -> EgressPlan {
        let is_elsewhere = |owner: &Option<NodeName>| owner.as_ref().is_some_and(|owner| *owner != self.own);
        let routes = if self.owners.values().any(is_elsewhere) {
            routes()
        } else {
            Vec::new()
        };
        let route = |node: &NodeName, address: IpAddr| {
            let pod_route = objects.nodes().get(node);
            let pod_route = pod_route.and_then(|node| route_to_pods(&routes, node, address.is_ipv4()));
            pod_route.or_else(|| {
                let (links, theirs) = (desired.links(address), cluster.election.link_addresses_of(node));
                let hop = cluster.sockets.next_hop(address, &links, theirs)?;
                Some(Action::ViaOnLink {
                    gateway: hop.gateway,
                    link: hop.link,
                })
            })
        };
        let members = cluster.election.record();
        let view = EgressView {
            own: &self.own,
            owner: &|address| self.owners.get(&address).cloned().flatten(),
            route: &route,
            has_announcer: &|node: &NodeName| members.is_none_or(|members| members.member(node).is_some()),
        };
        EgressPlan::new(objects, desired.addresses(), &view)
    }

    fn write(&mut self, plan: &mut EgressPlan, objects: &EgressObjects) {
        let state = EgressState::new(plan, &mut self.numbers);
        let is_empty = state.is_empty();
        match self.kernel.apply(&state) {
            Ok(refused) => {
                plan.add_unroutable(objects, &self.numbers.nodes(&refused));
                self.flusher.queue(state.changed_pods(&self.applied));
                self.applied = state;
                self.last_error = None;
            }
            // A kernel without the right or without nftables has no objects of an earlier process.
            Err(error) if is_empty => {
                tracing::debug!(%error, "egress tables not removed");
                self.last_error = None;
            }
            Err(error) => {
                let error = error.to_string();
                // The same error is logged once.
                if self.last_error.as_ref() != Some(&error) {
                    tracing::error!(error, "egress not applied; retrying");
                }
                self.last_error = Some(error);
            }
        }
        // The plan of a Service without Pods has ranges, but no Pods. A failed removal is retried.
        self.is_idle = is_empty && plan.inside.is_empty() && self.applied.is_empty();
    }
}

/// Returns the owner of each address of Services with egress.
fn owners(objects: &EgressObjects, election: &Election, now: Time) -> BTreeMap<IpAddr, Option<NodeName>> {
    let addresses = objects.services().flat_map(|(_, service)| &service.addresses);
    addresses
        .map(|address| (*address, election.owner(now, *address).cloned()))
        .collect()
}

fn routes() -> Vec<Route> {
    match Connection::open().and_then(|mut connection| connection.routes()) {
        Ok(routes) => routes,
        Err(error) => {
            tracing::warn!(%error, "routes to Pods of other nodes not listed");
            Vec::new()
        }
    }
}

/// Counts the addresses of Pods: translated, routed, blocked.
fn count(plan: &EgressPlan) -> [usize; 3] {
    let mut counts = [0; 3];
    for egress in plan.pods.values() {
        let [translated, routed, blocked] = &mut counts;
        match egress {
            PodEgress::Translated(_) => *translated += 1,
            PodEgress::Routed { .. } => *routed += 1,
            PodEgress::Blocked => *blocked += 1,
        }
    }
    counts
}
