//! Contents of the table of one family. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use plan::{Family, FrontendKind, PodDetection, PortKey, ServicePortPlan};

use super::peers::{PeerNumber, Peers};
use super::slots::{PREVIOUS_MAX, Slots};

/// Maximum number of Service ports with two-tier forwarding per family: about 30 MiB of the kernel's memory. All nodes
/// forward the same ones, those of the oldest Services: a new Service takes no place of another one.
pub const PORTS_MAX: usize = 64;

/// Levels of nodes: the current one and the previous ones.
pub(crate) const LEVELS: usize = PREVIOUS_MAX + 1;
/// Hops of a packet between nodes, each with a link: one for each level, and one more for a node with another table.
pub(crate) const HOPS: usize = LEVELS + 1;

/// Returns the levels that a node tries, in this order, for a packet in the middle of a connection that it does not
/// track. `hop` is the link by which it received the packet, from 1. It is 0 for a packet of a client, whose current
/// node was tried already.
///
/// The tables of two nodes differ while a change spreads, so the node tries the level by which it received the packet
/// itself. The table of a node that joined lacks earlier previous nodes, so the node tries the level before that
/// last.
pub(crate) fn levels_after(hop: usize) -> impl Iterator<Item = usize> {
    let first = if hop == 0 { 1 } else { hop - 1 };
    (first..LEVELS).chain(hop.checked_sub(2))
}

/// Returns the hop by which a packet that came by `hop` goes to the node of a level. Hops increase, so a packet takes
/// each link once at most.
pub(crate) fn hop_to(level: usize, hop: usize) -> usize {
    level.max(hop) + 1
}

/// Address, protocol and port of a load balancer IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FrontendKey {
    pub(crate) address: IpAddr,
    /// Number of the protocol in the IP header.
    pub(crate) protocol: u8,
    pub(crate) port: u16,
}

/// Input of the hash that selects a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HashInput {
    /// Addresses, ports and protocol.
    Connection,
    /// Address of the client, with session affinity.
    Client,
}

impl HashInput {
    pub(crate) const ALL: [Self; 2] = [Self::Connection, Self::Client];
}

/// Number of the slots of a Service port, and index of one of them.
pub(crate) type SlotKey = (u32, u32);

/// Contents of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Frontends with the number of their slots, by [`HashInput`].
    pub(crate) frontends: [BTreeMap<FrontendKey, u32>; 2],
    /// Node of each slot by level. Slots of this node and of unknown nodes are missing.
    pub(crate) choices: [BTreeMap<SlotKey, PeerNumber>; LEVELS],
    /// Slots with this node as a previous one, or with an unknown node: this node may track some of their connections.
    pub(crate) kept: BTreeSet<SlotKey>,
    /// Addresses of nodes, from which encapsulated packets are accepted.
    pub(crate) sources: BTreeSet<IpAddr>,
    /// Detection of Pods, whose packets are not forwarded.
    pub(crate) pods: PodDetection,
}

impl State {
    /// Creates the state of a family without Service ports.
    pub(crate) fn new(family: Family, peers: &Peers, pods: &PodDetection) -> Self {
        let sources = peers.iter().map(|peer| peer.host);
        Self {
            sources: sources.filter(|host| Family::of(*host) == family).collect(),
            pods: pods.clone(),
            ..Self::default()
        }
    }

    /// Adds a Service port, of which `number` identifies the slots.
    pub(crate) fn add(&mut self, port: &ServicePortPlan, number: u32, slots: &Slots, peers: &Peers) {
        if slots.count() == 0 {
            return;
        }
        let input = if port.affinity_seconds.is_some() {
            HashInput::Client
        } else {
            HashInput::Connection
        };
        let keys = frontend_keys(port).map(|key| (key, number));
        self.frontends[input as usize].extend(keys);
        self.kept
            .extend(kept_slots(slots, peers).map(|index| (number, index)));
        for (level, choices) in self.choices.iter_mut().enumerate() {
            let peer_choices = slots
                .at_level(level)
                .filter_map(|(index, node)| Some(((number, index), peers.get(node)?.number)));
            choices.extend(peer_choices);
        }
    }
}

/// Returns the slots with this node as a previous one, or with an unknown node; this node is not a peer.
pub(crate) fn kept_slots<'a>(slots: &'a Slots, peers: &'a Peers) -> impl Iterator<Item = u32> + 'a {
    let previous = (1..LEVELS).flat_map(|level| slots.at_level(level));
    previous
        .filter(|(_, node)| peers.get(node).is_none())
        .map(|(index, _)| index)
}

/// Returns the frontends of a Service port whose connections are forwarded.
pub(crate) fn frontend_keys(port: &ServicePortPlan) -> impl Iterator<Item = FrontendKey> {
    let balanced = port
        .frontends
        .iter()
        .filter(|frontend| frontend.kind == FrontendKind::LoadBalancerIp);
    balanced.filter_map(move |frontend| {
        Some(FrontendKey {
            address: frontend.address?,
            protocol: port.key.protocol.number(),
            port: frontend.port,
        })
    })
}

/// Returns true if the plan forwards connections of a Service port to the nodes of its endpoints.
pub(crate) fn is_forwarded(port: &ServicePortPlan) -> bool {
    port.serving_nodes.is_some()
}

/// Slots of the Service ports, and their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberedSlots {
    by_port: BTreeMap<PortKey, (u32, Slots)>,
    next: u32,
}

impl NumberedSlots {
    /// Drops the slots of other ports.
    pub(crate) fn retain(&mut self, ports: &BTreeSet<&PortKey>) {
        self.by_port.retain(|port, _| ports.contains(port));
    }

    /// Sets the slots of a port that has none, with their number.
    pub(crate) fn recover(&mut self, port: &PortKey, number: u32, slots: Slots) {
        self.next = self.next.max(number);
        self.by_port.entry(port.clone()).or_insert((number, slots));
    }

    /// Returns the slots of a port with their number; creates them if the port has no slots.
    pub(crate) fn entry(&mut self, port: &PortKey) -> &mut (u32, Slots) {
        let next = &mut self.next;
        self.by_port.entry(port.clone()).or_insert_with(|| {
            *next = next.wrapping_add(1);
            (*next, Slots::default())
        })
    }
}
