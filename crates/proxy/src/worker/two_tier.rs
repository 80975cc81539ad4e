//! Two-tier forwarding: tables and links follow the plan and the Nodes, with retries.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use api::object::ObjectKey;
use dataplane::Dataplane;
use dataplane::two_tier::{self, PORTS_MAX, TwoTier, TwoTierError, XdpState};
use plan::{PortKey, TWO_TIER_ANNOTATION};
use tokio::sync::watch;

use super::{Retry, Worker};
use crate::reports::faults::ServiceFault;

/// Period in which the XDP program follows changed neighbours. Until then, it sends frames to a former Ethernet address.
const REFRESH_PERIOD: Duration = Duration::from_secs(5);

impl<D: Dataplane> Worker<D> {
    /// Starts the watch of all Nodes by this channel once a Service has two-tier forwarding.
    pub(crate) fn watch_nodes_by(mut self, sender: watch::Sender<bool>) -> Self {
        self.two_tier_state.node_watch = Some(sender);
        self
    }

    /// Records changed Services.
    pub(super) fn record_forwarded(&mut self, services: &[ObjectKey]) {
        self.two_tier_state.knows_services = true;
        for service in services {
            let is_forwarded = self
                .plan
                .ports_of(service)
                .any(|port| port.serving_nodes.is_some());
            if is_forwarded {
                self.two_tier_state.services.insert(service.clone());
                self.two_tier_state.is_due = true;
            } else {
                self.two_tier_state.is_due |= self.two_tier_state.services.remove(service);
            }
        }
    }

    /// Forwards connections as planned, once all Nodes are known. After a failure, the next attempt follows later.
    pub(super) fn forward_connections(&mut self) {
        let state = &mut self.two_tier_state;
        let is_waiting = self
            .forwarding_retry
            .is_some_and(|retry| Instant::now() < retry.at);
        if !state.knows_services || is_waiting || !self.dataplane.supports_two_tier() {
            return;
        }
        if state.services.is_empty() {
            self.stop_forwarding();
            return;
        }
        state.start_node_watch();
        if !state.is_due || !state.has_nodes {
            // The update with the Nodes starts the next attempt. With a deadline in the past, the worker would not wait
            // until then.
            self.forwarding_retry = None;
            return;
        }
        match self.apply_forwarding() {
            Ok(excess) => {
                let state = &mut self.two_tier_state;
                (state.is_due, self.forwarding_retry) = (false, None);
                let concerned: BTreeSet<ObjectKey> = excess
                    .symmetric_difference(&state.excess)
                    .map(|port| port.service.clone())
                    .collect();
                state.excess = excess;
                let concerned: Vec<ObjectKey> = concerned.into_iter().collect();
                self.report_faults(&concerned);
                self.report_forwarding(None);
            }
            Err(error) => {
                self.forwarding_retry = Some(Retry::after(self.forwarding_retry));
                self.report_forwarding(Some(error.to_string()));
            }
        }
    }

    fn apply_forwarding(&mut self) -> Result<BTreeSet<PortKey>, TwoTierError> {
        let state = &mut self.two_tier_state;
        state.has_removed_leftovers = false;
        let two_tier = match &mut state.two_tier {
            Some(two_tier) => two_tier,
            none => {
                let mut two_tier = TwoTier::open(&self.config.node_name)?;
                if let Some(interface) = &self.config.xdp_interface {
                    two_tier.forward_at(interface.clone());
                }
                none.insert(two_tier)
            }
        };
        let excess = two_tier.apply(&self.plan, &state.nodes);
        self.report_program();
        Ok(excess?.into_iter().collect())
    }

    /// Adapts the XDP program to the neighbours at intervals: the kernel adds and removes them.
    pub(super) fn refresh_program(&mut self) {
        if self
            .two_tier_state
            .refresh_at
            .is_none_or(|at| Instant::now() < at)
        {
            return;
        }
        if let Some(two_tier) = &mut self.two_tier_state.two_tier {
            two_tier.refresh();
        }
        self.report_program();
    }

    /// Reports a changed use of the XDP program and its packets. The next comparison follows later.
    fn report_program(&mut self) {
        let two_tier = self.two_tier_state.two_tier.as_ref();
        let found = two_tier.and_then(TwoTier::xdp_state).cloned();
        self.two_tier_state.refresh_at = found.as_ref().map(|_| Instant::now() + REFRESH_PERIOD);
        let packets = two_tier.map_or(0, TwoTier::xdp_forwarded_packets);
        self.shared_status
            .metrics
            .update(|values| values.xdp_forwarded_packets = found.as_ref().map(|_| packets));
        if found == self.two_tier_state.xdp_state {
            return;
        }
        let before = std::mem::replace(&mut self.two_tier_state.xdp_state, found);
        match &self.two_tier_state.xdp_state {
            Some(XdpState::Unusable(reason)) => {
                tracing::warn!(
                    error = reason,
                    "XDP program unusable; nftables forwards all packets"
                );
                let message = format!("nftables forwards all packets of two-tier forwarding: {reason}");
                self.events.record_node_warning("XdpForwardingFailed", message);
            }
            Some(XdpState::Forwards { nodes }) => {
                tracing::info!(nodes, "packets forwarded by an XDP program");
                if matches!(before, Some(XdpState::Unusable(_))) {
                    let message = "the XDP program forwards packets again".to_owned();
                    self.events.record_node_event("XdpForwardingUsable", message);
                }
            }
            Some(XdpState::Idle) | None => {}
        }
    }

    /// Removes tables and links after the last Service, and those of an earlier process.
    fn stop_forwarding(&mut self) {
        if self.two_tier_state.has_removed_leftovers {
            return;
        }
        if let Some(two_tier) = &mut self.two_tier_state.two_tier {
            two_tier.detach_program();
        }
        match two_tier::remove() {
            Ok(_) => {
                let state = &mut self.two_tier_state;
                state.two_tier = None;
                state.has_removed_leftovers = true;
                state.excess.clear();
                (state.is_due, self.forwarding_retry) = (false, None);
                self.report_forwarding(None);
                self.report_program();
            }
            Err(error) => {
                self.forwarding_retry = Some(Retry::after(self.forwarding_retry));
                tracing::warn!(%error, "tables and links of two-tier forwarding not removed");
            }
        }
    }

    fn report_forwarding(&mut self, failure: Option<String>) {
        if failure == self.two_tier_state.failure {
            return;
        }
        match &failure {
            Some(reason) => {
                tracing::error!(
                    error = reason,
                    "connections not forwarded to the nodes of endpoints"
                );
                let message = format!("connections are not forwarded to the nodes of endpoints: {reason}");
                self.events
                    .record_node_warning("TwoTierForwardingFailed", message);
            }
            None => {
                let message = "the failure of two-tier forwarding has ended".to_owned();
                self.events.record_node_event("TwoTierForwardingUsable", message);
            }
        }
        self.two_tier_state.failure = failure;
    }

    /// Returns the faults of a Service that requests two-tier forwarding without effect.
    pub(super) fn forwarding_faults(&self, service: &ObjectKey) -> impl Iterator<Item = ServiceFault> {
        let is_requested = self.plan.requests_two_tier(service);
        let unsupported = (is_requested && !self.dataplane.supports_two_tier()).then(|| ServiceFault {
            reason: "TwoTierForwardingNotSupported",
            message: format!(
                "annotation {TWO_TIER_ANNOTATION} has no effect in {} mode: the node that receives a connection chooses its endpoint",
                self.config.proxy_mode
            ),
        });
        let is_excess = self
            .two_tier_state
            .excess
            .iter()
            .any(|port| port.service == *service);
        let excess = is_excess.then(|| ServiceFault {
            reason: "TwoTierForwardingFull",
            message: format!(
                "nodes serve connections with their own endpoints only: {PORTS_MAX} Service ports have two-tier forwarding already; use it for fewer Services"
            ),
        });
        unsupported.into_iter().chain(excess)
    }
}
