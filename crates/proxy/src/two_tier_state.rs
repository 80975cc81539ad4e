//! State of two-tier forwarding: the Services that use it, and the addresses of all Nodes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use api::object::{Node, ObjectKey};
use client::Event;
use dataplane::two_tier::{NodeAddresses, TwoTier, XdpState};
use plan::PortKey;
use tokio::sync::watch;

use crate::node;

/// State of two-tier forwarding.
#[derive(Debug, Default)]
pub(crate) struct TwoTierState {
    /// True after the first sync: the Services below are all of them.
    pub(crate) knows_services: bool,
    /// Services with two-tier forwarding.
    pub(crate) services: BTreeSet<ObjectKey>,
    /// Addresses of all Nodes by name.
    pub(crate) nodes: NodeAddresses,
    /// True if the initial list of Nodes is complete.
    pub(crate) has_nodes: bool,
    /// Starts the watch of Nodes, once.
    pub(crate) node_watch: Option<watch::Sender<bool>>,
    /// Tables and links, from the first Service on.
    pub(crate) two_tier: Option<TwoTier>,
    /// True if leftovers of an earlier process are removed.
    pub(crate) has_removed_leftovers: bool,
    /// True if the kernel may differ from the plan.
    pub(crate) is_due: bool,
    /// Failure, as it was last reported.
    pub(crate) failure: Option<String>,
    /// Next comparison of the XDP program with the neighbours; `None` without a program.
    pub(crate) refresh_at: Option<Instant>,
    /// Use of the XDP program, as it was last reported.
    pub(crate) xdp_state: Option<XdpState>,
    /// Service ports that are not forwarded, because there are too many.
    pub(crate) excess: BTreeSet<PortKey>,
}

impl TwoTierState {
    /// Applies an event of a Node.
    pub(crate) fn apply_node(&mut self, event: Event<Node>) {
        match event {
            Event::Applied(node) => {
                let addresses = node::ips(Some(&node), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                let name: &str = &node.metadata.name;
                if self.nodes.get(name) != Some(&addresses) {
                    self.nodes.insert(name.into(), addresses);
                    self.is_due = true;
                }
            }
            Event::Deleted(key) => {
                self.is_due |= self.nodes.remove(&*key.name).is_some();
            }
            Event::Synced => {
                self.has_nodes = true;
                self.is_due = true;
            }
            Event::Malformed { key, error } => {
                tracing::warn!(kind = "Node", %key, %error, "malformed object; its previous state stays");
            }
        }
    }

    /// Compares the kernel with the plan at the next attempt.
    pub(crate) fn verify(&mut self) {
        if let Some(two_tier) = &mut self.two_tier {
            two_tier.verify();
            self.is_due = true;
        }
    }

    /// Starts the watch of Nodes unless it runs.
    pub(crate) fn start_node_watch(&mut self) {
        if let Some(sender) = self.node_watch.take() {
            sender.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests;
