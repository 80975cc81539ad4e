//! Compact records of EndpointSlices.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{AddressType, Endpoint, EndpointSlice, Protocol};

use crate::address::parse_address;
use crate::fault::Fault;
use crate::interner::Interner;
use crate::types::Family;

/// Maximum number of distinct sets of zone hints in a slice. The API allows 1,000 endpoints, so no slice reaches it.
const ZONE_SETS_MAX: usize = u16::MAX as usize - 1;

/// Fields of a slice that affect decisions.
#[derive(Debug, PartialEq)]
pub(crate) struct SliceRecord {
    pub(crate) family: Family,
    /// Ports, sorted by name and protocol.
    pub(crate) ports: Box<[SlicePort]>,
    pub(crate) endpoints: Box<[EndpointRecord]>,
    /// Distinct sets of zone hints of the endpoints.
    zone_sets: Box<[Box<[Arc<str>]>]>,
    /// Distinct names of the other nodes that have endpoints.
    nodes: Box<[Arc<str>]>,
    pub(crate) fault: Option<Box<Fault>>,
}

/// A port of a slice that has a name and a number (KPR-13).
#[derive(Debug, PartialEq)]
pub(crate) struct SlicePort {
    pub(crate) name: Arc<str>,
    pub(crate) protocol: Protocol,
    pub(crate) number: u16,
}

/// An endpoint in 22 bytes, because a node may hold 250,000 of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EndpointRecord {
    pub(crate) address: IpAddr,
    flags: u8,
    /// Index into `zone_sets`, from 1; 0 for no hint.
    zone_set: u16,
    /// Index into `nodes`, from 1; 0 for this node and for no node.
    node: u16,
}

const READY: u8 = 1;
const SERVING: u8 = 2;
const TERMINATING: u8 = 4;
const LOCAL: u8 = 8;
const NODE_HINTS: u8 = 16;
const HINTED_FOR_NODE: u8 = 32;
const WITHOUT_NODE: u8 = 64;

impl EndpointRecord {
    pub(crate) fn is_ready(&self) -> bool {
        self.flags & READY != 0
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.flags & SERVING != 0
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.flags & TERMINATING != 0
    }

    /// Returns true if the endpoint is on this node (KPR-16).
    pub(crate) fn is_local(&self) -> bool {
        self.flags & LOCAL != 0
    }

    /// Returns true if the endpoint is on this node, or its slice does not name its node.
    pub(crate) fn can_be_local(&self) -> bool {
        self.flags & (LOCAL | WITHOUT_NODE) != 0
    }

    pub(crate) fn has_node_hints(&self) -> bool {
        self.flags & NODE_HINTS != 0
    }

    pub(crate) fn is_hinted_for_node(&self) -> bool {
        self.flags & HINTED_FOR_NODE != 0
    }
}

impl SliceRecord {
    /// Reads a slice on the node `node_name`. Returns `None` for slices of names, which no proxy uses.
    pub(crate) fn read(slice: &EndpointSlice, node_name: &str, names: &mut Interner) -> Option<Self> {
        let family = match slice.address_type {
            AddressType::IPv4 => Family::V4,
            AddressType::IPv6 => Family::V6,
            AddressType::Fqdn => return None,
        };
        let ports = slice.ports.iter().filter_map(|port| {
            let number = port.port.filter(|number| *number != 0)?;
            let name = names.intern(port.name.as_deref()?);
            Some(SlicePort {
                name,
                protocol: port.protocol.unwrap_or_default(),
                number,
            })
        });
        let mut ports: Box<[SlicePort]> = ports.collect();
        ports.sort_by(|a, b| (&*a.name, a.protocol).cmp(&(&*b.name, b.protocol)));
        let mut zone_sets = Vec::new();
        let mut nodes = NodeNames::default();
        let mut endpoints = Vec::with_capacity(slice.endpoints.len());
        let mut invalid: Option<(&str, usize)> = None;
        for endpoint in &slice.endpoints {
            let Some(text) = endpoint.addresses.first() else {
                continue;
            };
            let Some(address) = parse_address(text).filter(|address| Family::of(*address) == family) else {
                invalid.get_or_insert((text, 0)).1 += 1;
                continue;
            };
            let zone_set = zone_set(endpoint, &mut zone_sets, names);
            endpoints.push(EndpointRecord {
                address,
                flags: flags(endpoint, node_name),
                zone_set,
                node: nodes.index(endpoint, node_name, names),
            });
        }
        let fault = invalid.map(|(value, count)| {
            let slice = slice.metadata.name.clone();
            Box::new(Fault::Endpoint {
                slice,
                value: value.to_owned(),
                count,
            })
        });
        Some(Self {
            family,
            ports,
            endpoints: endpoints.into(),
            zone_sets: zone_sets.into(),
            nodes: nodes.names.into(),
            fault,
        })
    }

    /// Returns the ports with a name and a protocol: one, unless the slice repeats it.
    pub(crate) fn ports_named(&self, name: &str, protocol: Protocol) -> impl Iterator<Item = &SlicePort> {
        let key = |port: &SlicePort| (&*port.name, port.protocol).cmp(&(name, protocol));
        let first = self.ports.partition_point(|port| key(port).is_lt());
        let last = self.ports.partition_point(|port| key(port).is_le());
        self.ports.get(first..last).into_iter().flatten()
    }

    /// Returns the zones of an endpoint's hints.
    pub(crate) fn zone_hints(&self, endpoint: &EndpointRecord) -> &[Arc<str>] {
        let index = usize::from(endpoint.zone_set).checked_sub(1);
        index
            .and_then(|index| self.zone_sets.get(index))
            .map_or(&[], |zones| zones)
    }

    /// Returns the name of the other node that has an endpoint, if the slice states one.
    pub(crate) fn node_of(&self, endpoint: &EndpointRecord) -> Option<&Arc<str>> {
        self.nodes.get(usize::from(endpoint.node).checked_sub(1)?)
    }
}

/// Distinct names of nodes in a slice.
#[derive(Default)]
struct NodeNames<'a> {
    names: Vec<Arc<str>>,
    indexes: HashMap<&'a str, u16>,
}

impl<'a> NodeNames<'a> {
    /// Returns the index of an endpoint's node, from 1; 0 if the slice states none, or this node.
    fn index(&mut self, endpoint: &'a Endpoint, own_name: &str, names: &mut Interner) -> u16 {
        let name = endpoint.node_name.as_deref().unwrap_or_default();
        if name.is_empty() || name == own_name {
            return 0;
        }
        if let Some(index) = self.indexes.get(name) {
            return *index;
        }
        // The API allows 1,000 endpoints in a slice; the nodes of further ones are not recorded.
        let Ok(index) = u16::try_from(self.names.len() + 1) else {
            return 0;
        };
        self.names.push(names.intern(name));
        self.indexes.insert(name, index);
        index
    }
}

fn flags(endpoint: &Endpoint, node_name: &str) -> u8 {
    let conditions = &endpoint.conditions;
    let nodes = endpoint.hints.as_ref().map_or(&[][..], |hints| &hints.for_nodes);
    let node_of_endpoint = endpoint.node_name.as_deref().unwrap_or_default();
    let is_local = !node_name.is_empty() && node_of_endpoint == node_name;
    [
        (READY, conditions.ready.unwrap_or(true)),
        (SERVING, conditions.serving.unwrap_or(true)),
        (TERMINATING, conditions.terminating.unwrap_or(false)),
        (LOCAL, is_local),
        (WITHOUT_NODE, node_of_endpoint.is_empty()),
        (NODE_HINTS, !nodes.is_empty()),
        (HINTED_FOR_NODE, nodes.iter().any(|hint| hint.name == node_name)),
    ]
    .into_iter()
    .filter_map(|(flag, is_set)| is_set.then_some(flag))
    .sum()
}

/// Returns the index of an endpoint's zone hints among `sets`, from 1; 0 if it has none.
fn zone_set(endpoint: &Endpoint, sets: &mut Vec<Box<[Arc<str>]>>, names: &mut Interner) -> u16 {
    let hints = endpoint.hints.as_ref().map_or(&[][..], |hints| &hints.for_zones);
    if hints.is_empty() {
        return 0;
    }
    let known = sets.iter().position(|set| {
        set.len() == hints.len() && set.iter().zip(hints).all(|(zone, hint)| **zone == *hint.name)
    });
    let index = known.unwrap_or_else(|| {
        if sets.len() < ZONE_SETS_MAX {
            sets.push(hints.iter().map(|hint| names.intern(&hint.name)).collect());
        }
        sets.len() - 1
    });
    u16::try_from(index + 1).unwrap_or(0)
}

#[cfg(test)]
mod tests;
