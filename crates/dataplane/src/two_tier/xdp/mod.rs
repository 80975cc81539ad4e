//! Forwarding by an XDP program at one interface, before the kernel allocates a packet.
//!
//! The program forwards the packets of clients to the current nodes of their slots, as the rules do. It uses the same
//! form: VXLAN through the link of the first hop. It serves IPv4 packets of TCP and UDP whose hash contains the
//! connection. All other packets pass to the rules, which stay complete. These are:
//!
//! - packets of slots that this node serves or served: it may track their connections
//! - packets to nodes that are not neighbours of the interface: frames leave by the interface by which they came
//! - packets that need more work: errors, options, fragments, packets that are too large, packets of Pods
//!
//! The program ends with this process, and the rules forward all packets then.

mod layout;
mod program;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;

use ipnet::IpNet;
use maglev::TABLE_SIZE;
use netlink::bpf::{BpfError, Map, XdpAttachment, XdpProgram};
use netlink::route::{Connection, LinkIndex, LinkName, RouteError};
use plan::PodDetection;

use super::peers::{Peer, Peers, ethernet_of};
use super::state::{HashInput, PORTS_MAX, State};
use layout::{
    FORWARDED_SHAPE, FRONTEND_BYTES, FRONTENDS_SHAPE, NODE_BYTES, NODES_MAX, NODES_SHAPE, NodeEntry,
    SLOTS_SHAPE, frontend_bytes, number_bytes,
};
use program::{MapDescriptors, Parameters, program};

/// Name of the program for tools.
const PROGRAM_NAME: &str = "two_tier";
/// Maximum number of ranges of Pods. The program compares the source of each packet with all of them.
const POD_RANGES_MAX: usize = 16;
/// Number of a slot without another node.
const NO_NODE: u32 = 0;

/// State of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XdpState {
    /// No Service port has frontends that the program serves.
    Idle,
    /// The program forwards packets to this number of nodes.
    Forwards {
        /// Nodes that are neighbours of the interface.
        nodes: usize,
    },
    /// The rules forward all packets, for this reason.
    Unusable(String),
}

/// Reasons why the program forwards no packets. A retry may help, except without capabilities.
#[derive(Debug, thiserror::Error)]
enum XdpError {
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error("interface {0} has no Ethernet address")]
    NoEthernet(LinkName),
    #[error("Pods are behind interface {0}; name the interface of clients and other nodes")]
    PodInterface(LinkName),
    #[error("expected at most {POD_RANGES_MAX} IPv4 ranges of Pods, found {0}")]
    PodRanges(usize),
    #[error("expected an IPv4 address of the Node, found {0}")]
    NodeAddress(IpAddr),
}

/// The program of one interface.
#[derive(Debug)]
pub(crate) struct Xdp {
    interface: LinkName,
    objects: Option<Objects>,
    xdp_state: XdpState,
}

/// Maps and program in the kernel.
#[derive(Debug)]
struct Objects {
    maps: Maps,
    /// The attached program, with the interface and the constants that it has.
    attached: Option<(XdpAttachment, LinkIndex, Parameters)>,
    contents: MapContents,
}

/// Maps of the program.
#[derive(Debug)]
struct Maps {
    frontends: Map,
    slots: Map,
    nodes: Map,
    forwarded: Map,
}

/// Contents of the maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MapContents {
    /// Positions of Service ports in the map of slots, by the number of their slots.
    places: BTreeMap<u32, u32>,
    /// First slot by frontend.
    frontends: BTreeMap<[u8; FRONTEND_BYTES], u32>,
    /// Numbers of nodes by slot.
    slots: BTreeMap<u32, u32>,
    nodes: BTreeMap<u32, [u8; NODE_BYTES]>,
}

impl Xdp {
    /// Creates the forwarding of an interface, without effect until [`Xdp::apply`].
    pub(crate) fn new(interface: LinkName) -> Self {
        Self {
            interface,
            objects: None,
            xdp_state: XdpState::Idle,
        }
    }

    /// Returns the state of the program.
    pub(crate) fn xdp_state(&self) -> &XdpState {
        &self.xdp_state
    }

    /// Returns the number of packets that the program forwarded since its creation.
    pub(crate) fn forwarded_packets(&self) -> u64 {
        let mut packets = 0;
        if let Some(objects) = &self.objects {
            // This report omits a counter that is not readable.
            let read = objects
                .maps
                .forwarded
                .read_sums(|_, sums| packets += sums.iter().sum::<u64>());
            if let Err(error) = read {
                tracing::debug!(%error, "counter of the XDP program not read");
            }
        }
        packets
    }

    /// Detaches the program: the rules forward all packets.
    pub(crate) fn detach(&mut self) {
        self.objects = None;
        self.xdp_state = XdpState::Idle;
    }

    /// Writes maps and program for a state of IPv4, so that the program forwards as the rules do. After a failure, the
    /// rules forward all packets.
    pub(crate) fn apply(
        &mut self,
        connection: &mut Connection,
        state: &State,
        own_name: &str,
        local: IpAddr,
        peers: &Peers,
    ) {
        if state.frontends[HashInput::Connection as usize].is_empty() {
            self.detach();
            return;
        }
        self.xdp_state = match self.try_apply(connection, state, own_name, local, peers) {
            Ok(nodes) => XdpState::Forwards { nodes },
            Err(error) => {
                self.objects = None;
                XdpState::Unusable(error.to_string())
            }
        };
    }

    /// Writes the maps and attaches the program. Returns the number of peers that it sends to.
    fn try_apply(
        &mut self,
        connection: &mut Connection,
        state: &State,
        own_name: &str,
        local: IpAddr,
        peers: &Peers,
    ) -> Result<usize, XdpError> {
        let IpAddr::V4(local) = local else {
            return Err(XdpError::NodeAddress(local));
        };
        let index = connection.link_index(&self.interface)?;
        let link = connection.link(&self.interface)?;
        let found = link.and_then(|link| Some((link.ethernet?, link.mtu_bytes)));
        let (ethernet, mtu_bytes) = found.ok_or_else(|| XdpError::NoEthernet(self.interface.clone()))?;
        let parameters = Parameters {
            ethernet,
            pods: pod_ranges(&state.pods, &self.interface)?,
            mtu_bytes,
        };
        let neighbours: BTreeMap<IpAddr, [u8; 6]> = connection
            .neighbours()?
            .into_iter()
            .filter(|neighbour| neighbour.link == index && !neighbour.is_unanswered())
            .filter_map(|neighbour| Some((neighbour.address, neighbour.ethernet?)))
            .collect();
        let own_inner_ethernet = ethernet_of(own_name);
        let entry = |peer: &Peer| {
            let IpAddr::V4(host) = peer.host else {
                return None;
            };
            let entry = NodeEntry {
                ethernet: [*neighbours.get(&peer.host)?, ethernet],
                addresses: [local, host],
                inner_ethernet: [peer.ethernet, own_inner_ethernet],
            };
            let number = u32::from(peer.number.get());
            (number < NODES_MAX).then(|| (number, entry.to_bytes()))
        };
        let nodes: BTreeMap<u32, [u8; NODE_BYTES]> = peers.iter().filter_map(entry).collect();
        let count = nodes.len();
        let objects = match &mut self.objects {
            Some(objects) => objects,
            none => none.insert(Objects::create()?),
        };
        let contents = MapContents::new(state, &objects.contents.places, nodes);
        objects.write(contents)?;
        objects.attach(index, parameters)?;
        Ok(count)
    }
}

impl Objects {
    fn create() -> Result<Self, BpfError> {
        Ok(Self {
            maps: Maps {
                frontends: Map::create(FRONTENDS_SHAPE)?,
                slots: Map::create(SLOTS_SHAPE)?,
                nodes: Map::create(NODES_SHAPE)?,
                forwarded: Map::create(FORWARDED_SHAPE)?,
            },
            attached: None,
            contents: MapContents::default(),
        })
    }

    /// Writes the differences. Frontends lead to slots and these to nodes, so removed frontends come first and added
    /// ones last.
    fn write(&mut self, contents: MapContents) -> Result<(), BpfError> {
        let before = std::mem::take(&mut self.contents);
        let removed = before.frontends.iter();
        let removed = removed.filter(|(key, first)| contents.frontends.get(*key) != Some(*first));
        let removed: Vec<u8> = removed.flat_map(|(key, _)| *key).collect();
        self.maps.frontends.delete(&removed)?;
        let number_key = |number: &u32| number.to_ne_bytes();
        let nodes = difference(&before.nodes, &contents.nodes, number_key, |node| {
            node.map_or([0; NODE_BYTES], |node| *node)
        });
        self.maps.nodes.update(&nodes.0, &nodes.1)?;
        let slots = difference(&before.slots, &contents.slots, number_key, |number| {
            number_bytes(number.copied().unwrap_or(NO_NODE))
        });
        self.maps.slots.update(&slots.0, &slots.1)?;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (key, first) in &contents.frontends {
            if before.frontends.get(key) != Some(first) {
                keys.extend(key);
                values.extend(number_bytes(*first));
            }
        }
        self.maps.frontends.update(&keys, &values)?;
        self.contents = contents;
        Ok(())
    }

    /// Attaches the program unless it is attached. Without it, the rules forward all packets for a moment.
    fn attach(&mut self, index: LinkIndex, parameters: Parameters) -> Result<(), XdpError> {
        if let Some((_, at, present)) = &self.attached
            && (*at, present) == (index, &parameters)
        {
            return Ok(());
        }
        self.attached = None;
        let descriptors = MapDescriptors {
            frontends: self.maps.frontends.as_raw_fd(),
            slots: self.maps.slots.as_raw_fd(),
            nodes: self.maps.nodes.as_raw_fd(),
            forwarded: self.maps.forwarded.as_raw_fd(),
        };
        let instructions = program(descriptors, &parameters).map_err(BpfError::from)?;
        let attachment = XdpProgram::load(PROGRAM_NAME, &instructions)?.attach(index)?;
        self.attached = Some((attachment, index, parameters));
        Ok(())
    }
}

impl MapContents {
    /// Returns the contents for a state. Service ports keep their `places`.
    fn new(state: &State, places: &BTreeMap<u32, u32>, nodes: BTreeMap<u32, [u8; NODE_BYTES]>) -> Self {
        let forwarded = &state.frontends[HashInput::Connection as usize];
        let mut contents = Self {
            nodes,
            ..Self::default()
        };
        let mut used: Vec<u32> = Vec::new();
        for number in forwarded.values() {
            if let Some(place) = places.get(number)
                && contents.places.insert(*number, *place).is_none()
            {
                used.push(*place);
            }
        }
        let mut free = (0..PORTS_MAX as u32).filter(|place| !used.contains(place));
        for (key, number) in forwarded {
            let place = match contents.places.get(number) {
                Some(place) => Some(*place),
                None => free.next(),
            };
            let (Some(place), Some(key)) = (place, frontend_bytes(key)) else {
                continue;
            };
            contents.places.insert(*number, place);
            contents.frontends.insert(key, place * TABLE_SIZE);
        }
        let [current, ..] = &state.choices;
        for (slot, node) in current {
            let (number, index) = *slot;
            if let Some(place) = contents.places.get(&number)
                && !state.kept.contains(slot)
            {
                contents
                    .slots
                    .insert(place * TABLE_SIZE + index, u32::from(node.get()));
            }
        }
        contents
    }
}

/// Returns keys and values of the elements that differ. `value` gets `None` for removed ones.
fn difference<V: PartialEq, const N: usize>(
    before: &BTreeMap<u32, V>,
    after: &BTreeMap<u32, V>,
    key_bytes: impl Fn(&u32) -> [u8; 4],
    value_bytes: impl Fn(Option<&V>) -> [u8; N],
) -> (Vec<u8>, Vec<u8>) {
    let removed = before.keys().filter(|key| !after.contains_key(key));
    let removed = removed.map(|key| (key, None));
    let changed = after
        .iter()
        .filter(|(key, value)| before.get(key) != Some(value))
        .map(|(key, value)| (key, Some(value)));
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (key, value) in removed.chain(changed) {
        keys.extend(key_bytes(key));
        values.extend(value_bytes(value));
    }
    (keys, values)
}

/// Returns networks and masks of the ranges of Pods.
fn pod_ranges(pods: &PodDetection, interface: &LinkName) -> Result<Vec<[[u8; 4]; 2]>, XdpError> {
    let is_of_pods = match pods {
        PodDetection::Ranges(_) => false,
        PodDetection::Interface(name) => name.as_str() == interface.as_str(),
        PodDetection::InterfacePrefix(prefix) => interface.as_str().starts_with(prefix.as_str()),
    };
    if is_of_pods {
        return Err(XdpError::PodInterface(interface.clone()));
    }
    let PodDetection::Ranges(ranges) = pods else {
        return Ok(Vec::new());
    };
    let ranges: Vec<[[u8; 4]; 2]> = ranges
        .iter()
        .filter_map(|range| match range {
            IpNet::V4(range) => Some([range.network(), range.netmask()].map(|part: Ipv4Addr| part.octets())),
            IpNet::V6(_) => None,
        })
        .collect();
    if ranges.len() > POD_RANGES_MAX {
        return Err(XdpError::PodRanges(ranges.len()));
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests;
