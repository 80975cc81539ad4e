//! Desired state of the kernel, from the decisions about Pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use netlink::route::{Action, RouteTable, RuleFamily, RuleMark};

use super::plan::{EgressPlan, PodEgress};
use crate::NodeName;

#[cfg(test)]
mod tests;

/// Marks of packets, and numbers of routing tables, start here ("eg" in ASCII). Other programs are unlikely to use
/// these numbers. Bits 14 and 15 stay clear: kube-proxy and kubelet use them.
const NUMBER_BASE: u32 = 0x6567_0000;
/// Maximum number of owners that this process numbers.
const NUMBER_MAX: u32 = 0x3fff;

/// Marks of packets to any owner.
pub(crate) const ANY_OWNER: RuleMark = RuleMark {
    value: NUMBER_BASE,
    mask: !NUMBER_MAX,
};
/// Routing table for packets to an owner without a route.
pub(crate) const TABLE_WITHOUT_OWNER: RouteTable = RouteTable(NUMBER_BASE);

/// Mark of packets to an owner, which is also the number of the routing table with the route to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnerNumber(u32);

impl OwnerNumber {
    /// Returns the packet mark.
    pub(crate) fn mark(self) -> u32 {
        self.0
    }

    /// Returns the routing table.
    pub(crate) fn table(self) -> RouteTable {
        RouteTable(self.0)
    }

    /// Returns the number of a routing table; `None` for tables of other programs.
    pub(crate) fn of_table(table: RouteTable) -> Option<Self> {
        let is_own = (NUMBER_BASE + 1..=NUMBER_BASE + NUMBER_MAX).contains(&table.0);
        is_own.then_some(Self(table.0))
    }
}

/// Numbers of owners. A number is not used again while the process runs. A packet with a mark of an earlier table
/// therefore never takes the route to another node.
#[derive(Debug, Default)]
pub(crate) struct OwnerNumbers(BTreeMap<NodeName, OwnerNumber>);

impl OwnerNumbers {
    /// Returns the number of a node; `None` if no number is free.
    fn number(&mut self, node: &NodeName) -> Option<OwnerNumber> {
        if let Some(number) = self.0.get(node) {
            return Some(*number);
        }
        let next = u32::try_from(self.0.len()).ok()?.checked_add(1)?;
        let number = OwnerNumber(NUMBER_BASE + Some(next).filter(|next| *next <= NUMBER_MAX)?);
        self.0.insert(NodeName::clone(node), number);
        Some(number)
    }

    /// Returns the nodes with these numbers.
    pub(crate) fn nodes(&self, numbers: &[OwnerNumber]) -> BTreeSet<NodeName> {
        let known = self.0.iter().filter(|(_, number)| numbers.contains(number));
        known.map(|(node, _)| NodeName::clone(node)).collect()
    }
}

/// Tables, policy rules and routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EgressState {
    /// Destinations that are not affected.
    pub(crate) inside: BTreeSet<IpNet>,
    /// Source addresses of connections by Pod. On nodes that do not own the load balancer IP, the source is the address
    /// of the Pod, so that no other program translates it.
    pub(crate) sources: BTreeMap<IpAddr, IpAddr>,
    /// Owners by Pod.
    pub(crate) routed: BTreeMap<IpAddr, OwnerNumber>,
    /// Owners by load balancer IP, for replies that reach this node.
    pub(crate) replies: BTreeMap<IpAddr, OwnerNumber>,
    /// Pods whose packets are dropped.
    pub(crate) blocked: BTreeSet<IpAddr>,
    /// Routes to owners, by family.
    pub(crate) routes: BTreeMap<(RuleFamily, OwnerNumber), Action>,
}

impl EgressState {
    /// Derives the state from a plan.
    pub(crate) fn new(plan: &EgressPlan, numbers: &mut OwnerNumbers) -> Self {
        let mut state = Self {
            inside: plan.inside.clone(),
            ..Self::default()
        };
        for (address, (node, route)) in &plan.replies {
            if let Some(number) = numbers.number(node) {
                state.replies.insert(*address, number);
                state.routes.insert((RuleFamily::of(*address), number), *route);
            }
        }
        for (pod, egress) in &plan.pods {
            match egress {
                PodEgress::Translated(address) => {
                    state.sources.insert(*pod, *address);
                }
                PodEgress::Routed { node, route } => match numbers.number(node) {
                    Some(number) => {
                        state.sources.insert(*pod, *pod);
                        state.routed.insert(*pod, number);
                        state.routes.insert((RuleFamily::of(*pod), number), *route);
                    }
                    None => {
                        state.blocked.insert(*pod);
                    }
                },
                PodEgress::Blocked => {
                    state.blocked.insert(*pod);
                }
            }
        }
        state
    }

    /// Returns true if no packet is affected.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.blocked.is_empty() && self.replies.is_empty()
    }

    /// Returns the Pods whose connections have another source address than in `before`. Connections of blocked Pods stay:
    /// they continue if the same owner returns.
    pub(crate) fn changed_pods(&self, before: &Self) -> BTreeSet<IpAddr> {
        let sources = self.sources.iter();
        let translated = sources.filter(|(pod, source)| before.sources.get(*pod) != Some(*source));
        let earlier = before.sources.keys().chain(&before.blocked);
        let ended = earlier.filter(|pod| !self.sources.contains_key(*pod) && !self.blocked.contains(*pod));
        translated.map(|(pod, _)| pod).chain(ended).copied().collect()
    }
}
