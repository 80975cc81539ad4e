//! Two-tier forwarding of connections to load balancer IPs.
//!
//! Any node may receive the packets of a connection. Routers distribute connections over the nodes that announce an
//! address, and an address moves between nodes. The node that receives a packet chooses the serving node by a hash of
//! the addresses. The hash selects a slot of a Maglev table of nodes, which are weighted by their endpoints
//! (`slots`). The node forwards the packet through a VXLAN link (`links`). The serving node translates the
//! destination to one of its own endpoints, and answers the client directly. Only the serving node tracks the
//! connection. Each slot keeps its previous nodes: they receive the packets of connections that the current node
//! does not track. Previous nodes without endpoints come last, since a failed node forwards no packets.
//!
//! `rules` builds one nftables table for each IP family, independent of the table of the data plane. At one interface, an
//! XDP program may forward packets in place of the rules (`xdp`).

mod counters;
mod error;
mod expressions;
mod frontends;
mod links;
mod peers;
mod recovery;
mod rules;
mod slots;
mod state;
mod xdp;

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::sync::Arc;

use netlink::nftables::Nftables;
use netlink::route::{Connection, LinkIndex, LinkName};
use plan::{Family, Plan, PortKey, ServicePortPlan};

pub use counters::ForwardedPackets;
pub use error::TwoTierError;
pub use frontends::forwarded_tcp_frontends;
pub use links::UDP_PORT;
pub use peers::NodeAddresses;
pub use state::PORTS_MAX;
pub use xdp::XdpState;

use peers::Peers;
use recovery::RecoveredState;
use slots::Weights;
use state::{HOPS, NumberedSlots, State, is_forwarded};
use xdp::Xdp;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Forwarding of this node, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct TwoTier {
    connection: Connection,
    nftables: Nftables,
    own_name: String,
    peers: Peers,
    slots: NumberedSlots,
    links: Option<[LinkIndex; HOPS]>,
    /// True if the state of an earlier process was read.
    has_recovered: bool,
    /// State that the kernel holds, by family; `None` if it is unknown.
    applied: [Option<State>; 2],
    /// Program of an interface, if the operator named one.
    xdp: Option<Xdp>,
    /// Address of this node, if links and tables are those of the last plan.
    local: Option<IpAddr>,
}

impl TwoTier {
    /// Opens the network in the namespace of the calling thread. The first [`TwoTier::apply`] takes over the state of
    /// an earlier process.
    ///
    /// # Errors
    ///
    /// A [`TwoTierError`] if a socket cannot be opened.
    pub fn open(own_name: &str) -> Result<Self, TwoTierError> {
        Ok(Self {
            connection: Connection::open()?,
            nftables: Nftables::open().map_err(TwoTierError::Nftables)?,
            own_name: own_name.to_owned(),
            peers: Peers::default(),
            slots: NumberedSlots::default(),
            links: None,
            has_recovered: false,
            applied: [None, None],
            xdp: None,
            local: None,
        })
    }

    /// Forwards by an XDP program at this interface, too, where it can: the interface of clients and other nodes. Its
    /// driver has to run programs.
    pub fn forward_at(&mut self, interface: LinkName) {
        self.xdp = Some(Xdp::new(interface));
    }

    /// Returns the state of the XDP program after the last [`TwoTier::apply`]; `None` without an interface for it.
    pub fn xdp_state(&self) -> Option<&XdpState> {
        self.xdp.as_ref().map(Xdp::xdp_state)
    }

    /// Returns the number of packets that the XDP program forwarded since its creation. [`ForwardedPackets`] does not
    /// contain them.
    pub fn xdp_forwarded_packets(&self) -> u64 {
        self.xdp.as_ref().map_or(0, Xdp::forwarded_packets)
    }

    /// Forwards the connections of all Service ports that `plan` forwards. `nodes` are all Nodes. Returns the ports
    /// beyond [`PORTS_MAX`], which are not forwarded. A failure of the XDP program is not an error, as the rules
    /// forward its packets then ([`TwoTier::xdp_state`]).
    ///
    /// # Errors
    ///
    /// A [`TwoTierError`]; the caller may retry.
    pub fn apply(&mut self, plan: &Plan, nodes: &NodeAddresses) -> Result<Vec<PortKey>, TwoTierError> {
        let applied = self.apply_rules(plan, nodes);
        self.local = applied.as_ref().ok().map(|(local, _)| *local);
        self.refresh();
        applied.map(|(_, excess)| excess)
    }

    /// Adapts the XDP program to the neighbours and the interface, which change without a change of the plan.
    pub fn refresh(&mut self) {
        let Some(xdp) = &mut self.xdp else {
            return;
        };
        match (self.local, &self.applied) {
            (Some(local), [Some(state), _]) => {
                xdp.apply(&mut self.connection, state, &self.own_name, local, &self.peers);
            }
            // The program would forward by an earlier plan.
            _ => xdp.detach(),
        }
    }

    /// Detaches the XDP program. The next [`TwoTier::apply`] attaches it again.
    pub fn detach_program(&mut self) {
        self.local = None;
        self.refresh();
    }

    /// Writes links and tables. Returns the address of this node, and the ports beyond [`PORTS_MAX`].
    fn apply_rules(
        &mut self,
        plan: &Plan,
        nodes: &NodeAddresses,
    ) -> Result<(IpAddr, Vec<PortKey>), TwoTierError> {
        let local = nodes
            .get(self.own_name.as_str())
            .and_then(|addresses| addresses.first());
        let local = *local.ok_or_else(|| TwoTierError::NoAddress(self.own_name.clone()))?;
        self.recover(plan, nodes)?;
        self.peers.update(nodes, &self.own_name, local);
        let mut forwarded: [Vec<&ServicePortPlan>; 2] = [Vec::new(), Vec::new()];
        let mut excess = Vec::new();
        for port in ports_by_age(plan) {
            let family_ports = &mut forwarded[port.key.family as usize];
            if family_ports.len() < PORTS_MAX {
                family_ports.push(port);
            } else {
                excess.push(port.key.clone());
            }
        }
        let ports: BTreeSet<&PortKey> = forwarded.iter().flatten().map(|port| &port.key).collect();
        self.slots.retain(&ports);
        let families: Vec<Family> = FAMILIES
            .into_iter()
            .filter(|family| !forwarded[*family as usize].is_empty())
            .collect();
        self.write_closed_table_without_links()?;
        let links = links::ensure(
            &mut self.connection,
            &self.own_name,
            local,
            &self.peers,
            &families,
        )?;
        if self.links.replace(links) != Some(links) {
            self.applied = [None, None];
        }
        for family in FAMILIES {
            let ports = &forwarded[family as usize];
            // Encapsulated packets are of the family of the nodes, whatever the family of the connections.
            if ports.is_empty() && family != Family::of(local) {
                self.applied[family as usize] = None;
                self.nftables.commit(rules::closed_table(family))?;
                continue;
            }
            let state = self.state(family, ports, plan);
            self.write(family, state, &links)?;
        }
        Ok((local, excess))
    }

    /// Writes the closed table if the links do not exist yet. The full table refers to the links, so it follows them.
    fn write_closed_table_without_links(&mut self) -> Result<(), TwoTierError> {
        if self.connection.link(&links::hop_name(1).parse()?)?.is_some() {
            return Ok(());
        }
        self.applied = [None, None];
        for family in FAMILIES {
            self.nftables.commit(rules::closed_table(family))?;
        }
        Ok(())
    }

    /// Takes over the numbers and slots of an earlier process, so that its connections continue.
    fn recover(&mut self, plan: &Plan, nodes: &NodeAddresses) -> Result<(), TwoTierError> {
        if self.has_recovered {
            return Ok(());
        }
        let mut recovered = RecoveredState::read(&mut self.connection, &mut self.nftables, nodes)?;
        self.peers.reserve(std::mem::take(&mut recovered.numbers));
        for port in plan.ports().filter(|port| is_forwarded(port)) {
            if let Some((number, slots)) = recovered.slots_of(port, &self.own_name) {
                self.slots.recover(&port.key, number, slots);
            }
        }
        self.has_recovered = true;
        Ok(())
    }

    /// Makes the next [`TwoTier::apply`] write a table again if another program deleted it.
    pub fn verify(&mut self) {
        for family in FAMILIES {
            let table = rules::table_family(family);
            let read = self
                .nftables
                .elements_of_family(table, rules::TABLE, rules::SOURCES, |_| ());
            if read.is_err() {
                self.applied[family as usize] = None;
            }
        }
    }

    fn state(&mut self, family: Family, ports: &[&ServicePortPlan], plan: &Plan) -> State {
        let mut state = State::new(family, &self.peers, &plan.settings().pods);
        for port in ports {
            let serving = port.serving_nodes.as_deref().unwrap_or_default();
            // A node without a known address cannot be reached; the other ones share its connections.
            let weights: Weights = serving
                .iter()
                .filter(|node| *node.name == *self.own_name || self.peers.get(&node.name).is_some())
                .map(|node| (Arc::clone(&node.name), node.endpoints))
                .collect();
            let (number, slots) = self.slots.entry(&port.key);
            slots.update(&weights, &self.own_name);
            // Without endpoints, each node rejects new connections.
            if weights.values().any(|weight| *weight > 0) {
                state.add(port, *number, slots, &self.peers);
            }
        }
        state
    }

    fn write(&mut self, family: Family, state: State, links: &[LinkIndex; HOPS]) -> Result<(), TwoTierError> {
        let applied = self.applied[family as usize].take();
        if applied.as_ref() != Some(&state) {
            let update = applied
                .filter(|applied| applied.pods == state.pods)
                .map(|applied| rules::difference(family, &applied, &state));
            // A difference fails if another program changed the table; then it is written as a whole.
            let is_updated = update.is_some_and(|update| self.nftables.commit(update).is_ok());
            if !is_updated {
                let table = rules::table(family, links, &state, is_conntrack_loose());
                self.nftables.commit(table)?;
            }
        }
        self.applied[family as usize] = Some(state);
        Ok(())
    }
}

/// Returns the forwarded Service ports, those of the oldest Services first.
fn ports_by_age(plan: &Plan) -> Vec<&ServicePortPlan> {
    let mut ports: Vec<&ServicePortPlan> = plan.ports().filter(|port| is_forwarded(port)).collect();
    // The sort keeps the order by name.
    ports.sort_by_cached_key(|port| plan.creation_order(&port.key.service));
    ports
}

/// Removes the tables and links of this network namespace. Returns true if some existed.
///
/// # Errors
///
/// A [`TwoTierError`] if the kernel refuses.
pub fn remove() -> Result<bool, TwoTierError> {
    let mut connection = Connection::open()?;
    let mut is_removed = links::remove(&mut connection)?;
    // A kernel without nftables has no tables.
    let Ok(mut nftables) = Nftables::open() else {
        return Ok(is_removed);
    };
    for family in FAMILIES {
        is_removed |= nftables.delete_table(rules::table_family(family), rules::TABLE)?;
    }
    Ok(is_removed)
}

/// Returns true if conntrack picks up established connections (`nf_conntrack_tcp_loose` of the kernel's
/// `nf_conntrack-sysctl`), which is the default.
fn is_conntrack_loose() -> bool {
    let setting = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_tcp_loose");
    setting.map_or(true, |text| text.trim() != "0")
}

#[cfg(test)]
mod tests;
