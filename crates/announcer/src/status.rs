//! What an announcer knows of the members and of who has which address, for people and for programs that look after it.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::desired_announcements::Demand;
use crate::election::Core;
use crate::{NodeName, Time};

/// How an announcer sees the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Whether enough members hear this node that it could have addresses.
    pub is_quorate: bool,
    /// The members, this node among them, and those who join.
    pub members: Vec<MemberStatus>,
    /// Families of addresses whose connections do not go on when they move as planned, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cannot_lead: Vec<String>,
    /// All addresses that are to be announced.
    pub addresses: Vec<AddressStatus>,
}

/// How another node is, as seen from here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// The Node.
    pub node: NodeName,
    /// Where its probes go.
    pub address: SocketAddr,
    /// Whether it is this node.
    pub is_this: bool,
    /// Whether it is on the list only as one that is to become a member.
    pub is_joining: bool,
    /// Milliseconds since it was heard last; `None` if it never was, and for this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_milliseconds_ago: Option<u64>,
    /// Whether it was heard lately, so that it counts as there; this node always is.
    pub is_heard: bool,
    /// Whether it is about to end, and gives its addresses away.
    pub is_leaving: bool,
}

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressStatus {
    /// The address.
    pub ip: IpAddr,
    /// The node that announces it: this one, or the one that this node's vote is lent to.
    pub node: Option<NodeName>,
    /// The node that this one sends packets of connections on to that it does not know: one that had the address before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub led_to: Option<NodeName>,
    /// The reason why it is not announced from here although a Service has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// How many nodes may announce it. Without any, nobody does.
    pub candidates: usize,
    /// The Services that have it, as `namespace/name`.
    pub services: Vec<String>,
    /// Whether this node has it and answers for it only when its edge serves it, which it does not yet.
    pub waits_for_edge: bool,
}

impl Status {
    /// How things are now. `may_answer` says whether this node answers for an address, where its edge has to serve it first.
    pub(crate) fn of(core: &Core, demand: &Demand, now: Time, may_answer: impl Fn(IpAddr) -> bool) -> Self {
        let addresses = demand.addresses().map(|address| AddressStatus {
            ip: address,
            node: core.owner(now, address).cloned(),
            led_to: core.led_to(address).cloned(),
            withheld: demand.withheld(address).map(|reason| reason.to_string()),
            candidates: core.candidates(address),
            services: demand
                .services_of(address)
                .map(|(key, _)| key.to_string())
                .collect(),
            waits_for_edge: core.may_answer(now, address) && !may_answer(address),
        });
        Self {
            is_quorate: core.is_quorate(),
            members: core.members(now),
            cannot_lead: Vec::new(),
            addresses: addresses.collect(),
        }
    }
}
