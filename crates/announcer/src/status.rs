//! Status of an announcer: members, and owners of addresses in its view.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use telemetry::{MetricType, MetricsText};

use crate::desired_announcements::DesiredAnnouncements;
use crate::election::Election;
use crate::{NodeName, Time};

/// The cluster in the view of one announcer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// True if a majority of the members leases votes to this node.
    pub is_quorate: bool,
    /// Members and joining nodes, including this one.
    pub members: Vec<MemberStatus>,
    /// IP families without forwarding, each with the reason. Their connections break when an address moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forwarding_unavailable: Vec<String>,
    /// Addresses that the assigner has recorded.
    pub addresses: Vec<AddressStatus>,
}

/// A member in the view of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Name of the Node.
    pub node: NodeName,
    /// Address of its UDP socket for probes.
    pub address: SocketAddr,
    /// True if the member is this node.
    pub is_this: bool,
    /// True if the node is not a member yet.
    pub is_joining: bool,
    /// Age of the last probe; `None` without a probe, and for this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_age_milliseconds: Option<u64>,
    /// True if the node is not suspected; always true for this node.
    pub is_reachable: bool,
    /// True if the node shuts down and hands its addresses over.
    pub is_leaving: bool,
}

/// An address in the view of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressStatus {
    /// Load balancer IP.
    pub ip: IpAddr,
    /// The owner: this node, or the holder of this node's vote.
    pub node: Option<NodeName>,
    /// Previous owner that this node forwards packets of unknown connections to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_to: Option<NodeName>,
    /// Reason why this node does not announce the address although a Service has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// Number of candidates.
    pub candidates: usize,
    /// Services with the address, as `namespace/name`.
    pub services: Vec<String>,
    /// True if this node owns the address and does not announce it until its edge serves it.
    pub waits_for_edge: bool,
}

impl Status {
    /// Reports the current state. `may_answer` returns true if this node answers for an address, served by its edge if
    /// necessary.
    pub(crate) fn new(
        election: &Election,
        desired: &DesiredAnnouncements,
        now: Time,
        may_answer: impl Fn(IpAddr) -> bool,
    ) -> Self {
        let addresses = desired.addresses().map(|address| AddressStatus {
            ip: address,
            node: election.owner(now, address).cloned(),
            forwarded_to: election.forwarded_to(address).cloned(),
            withheld: desired.withheld(address).map(|reason| reason.to_string()),
            candidates: election.candidate_count(address),
            services: desired
                .services_of(address)
                .map(|(key, _)| key.to_string())
                .collect(),
            waits_for_edge: election.may_answer(now, address) && !may_answer(address),
        });
        Self {
            is_quorate: election.is_quorate(),
            members: election.members(now),
            forwarding_unavailable: Vec::new(),
            addresses: addresses.collect(),
        }
    }

    /// Writes the state of the election, the addresses of Services, and those that this node announces (`owned`) under the
    /// name of MetalLB.
    pub(crate) fn write_metrics(&self, owned: &BTreeSet<IpAddr>, text: &mut MetricsText) {
        text.single(
            "portolan_announcer_quorate",
            MetricType::Gauge,
            "1 if a majority of the members leases votes to this node, otherwise 0.",
            u8::from(self.is_quorate),
        );
        let name = "portolan_announcer_members";
        text.family(
            name,
            MetricType::Gauge,
            "Number of members of the election in the view of this node, by state.",
        );
        let reachable = self.members.iter().filter(|member| member.is_reachable).count();
        text.sample(name, "state=\"reachable\"", reachable);
        text.sample(name, "state=\"suspected\"", self.members.len() - reachable);
        let name = "portolan_announcer_assigned";
        text.family(
            name,
            MetricType::Gauge,
            "Number of nodes that may announce an address of a Service, in the view of this node.",
        );
        let assigned = self
            .addresses
            .iter()
            .filter(|address| !address.services.is_empty());
        for address in assigned.clone() {
            text.sample(name, &format!("ip=\"{}\"", address.ip), address.candidates);
        }
        let name = "metallb_speaker_announced";
        text.family(
            name,
            MetricType::Gauge,
            "Services being announced from this node. This is desired state, it does not guarantee that the routing \
             protocols have converged.",
        );
        let this = self.members.iter().find(|member| member.is_this);
        let node = this.map_or("", |member| &member.node);
        for address in assigned.filter(|address| owned.contains(&address.ip)) {
            for service in &address.services {
                let labels = format!(
                    "ip=\"{}\",node=\"{node}\",protocol=\"layer2\",service=\"{service}\"",
                    address.ip
                );
                text.sample(name, &labels, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests;
