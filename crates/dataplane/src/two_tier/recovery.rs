//! Numbers of peers, and slots with their previous nodes, as an earlier process wrote them to the kernel.
//!
//! A restarted process has to use the same numbers and slots. Otherwise, packets of open connections would go to other
//! nodes. The link has the number of each peer as the address of a neighbour, whose Ethernet address follows from the
//! name of the Node. Parts that cannot be read are empty, and new ones take their place.

use std::collections::BTreeMap;
use std::sync::Arc;

use maglev::TABLE_SIZE;
use netlink::nftables::{Element, ElementData, Nftables};
use netlink::route::{Connection, RouteError};
use plan::{Family, ServicePortPlan};

use super::links::hop_name;
use super::peers::{NodeAddresses, PeerNumber, ethernet_of};
use super::rules::{TABLE, choices, frontend_bytes, frontends, table_family};
use super::slots::{Levels, Slots};
use super::state::{HashInput, LEVELS, frontend_keys};

/// State of an earlier process.
#[derive(Debug, Default)]
pub(crate) struct RecoveredState {
    /// Numbers of peers by the names of their Nodes.
    pub(crate) numbers: BTreeMap<Arc<str>, PeerNumber>,
    families: [FamilySlots; 2],
}

/// Slots of one IP family.
#[derive(Debug, Default)]
struct FamilySlots {
    /// Number of the slots of each frontend.
    frontends: BTreeMap<Vec<u8>, u32>,
    /// Nodes of each slot, by the number of the slots. Slots of the earlier process's own node have no nodes.
    nodes: BTreeMap<u32, Vec<Levels>>,
}

impl RecoveredState {
    /// Reads the state. Without tables or links, it is empty. `nodes` are all Nodes.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel does not list links or neighbours.
    pub(crate) fn read(
        connection: &mut Connection,
        nftables: &mut Nftables,
        nodes: &NodeAddresses,
    ) -> Result<Self, RouteError> {
        let mut recovered = Self::default();
        let Some(link) = connection.link(&hop_name(1).parse()?)? else {
            return Ok(recovered);
        };
        let names: BTreeMap<[u8; 6], &Arc<str>> =
            nodes.keys().map(|name| (ethernet_of(name), name)).collect();
        let neighbours = connection.neighbours()?.into_iter();
        for neighbour in neighbours.filter(|neighbour| neighbour.link == link.index) {
            let name = neighbour.ethernet.and_then(|ethernet| names.get(&ethernet));
            let number = PeerNumber::of_gateway(neighbour.address);
            if let (Some(name), Some(number)) = (name, number) {
                recovered.numbers.insert((**name).clone(), number);
            }
        }
        let by_number: BTreeMap<PeerNumber, Arc<str>> = recovered
            .numbers
            .iter()
            .map(|(name, number)| (*number, name.clone()))
            .collect();
        for family in [Family::V4, Family::V6] {
            recovered.families[family as usize] = read_family(nftables, family, &by_number);
        }
        Ok(recovered)
    }

    /// Returns the slots of a Service port and their number. `own` is the name of this node.
    pub(crate) fn slots_of(&self, port: &ServicePortPlan, own: &str) -> Option<(u32, Slots)> {
        let family = self.families.get(port.key.family as usize)?;
        let mut keys = frontend_keys(port);
        let number = *keys.find_map(|key| family.frontends.get(&frontend_bytes(&key)))?;
        let nodes = family.nodes.get(&number)?;
        Some((number, Slots::recovered(nodes, &own.into())))
    }
}

fn read_family(
    nftables: &mut Nftables,
    family: Family,
    by_number: &BTreeMap<PeerNumber, Arc<str>>,
) -> FamilySlots {
    let mut read = FamilySlots::default();
    for input in HashInput::ALL {
        for (key, value) in elements(nftables, family, frontends(input)) {
            if let Some(number) = read_number(&value) {
                read.frontends.insert(key, number);
                let slots = || vec![Levels::default(); TABLE_SIZE as usize];
                read.nodes.entry(number).or_insert_with(slots);
            }
        }
    }
    for level in 0..LEVELS {
        for (key, gateway) in elements(nftables, family, &choices(level)) {
            let Some((number, index)) = key.split_at_checked(4) else {
                continue;
            };
            let (Some(number), Some(index)) = (read_number(number), read_number(index)) else {
                continue;
            };
            let slots = read.nodes.get_mut(&number);
            let slot = slots.and_then(|slots| slots.get_mut(index as usize));
            if let Some(node) = slot.and_then(|levels| levels.get_mut(level)) {
                let number = PeerNumber::of_bytes(&gateway);
                *node = number.and_then(|number| by_number.get(&number)).cloned();
            }
        }
    }
    read
}

/// Returns the keys and values of a map; none without the map.
fn elements(nftables: &mut Nftables, family: Family, map: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = |element: Element<'_>| match element.data {
        Some(ElementData::Value(value)) => Some((element.key.to_vec(), value.to_vec())),
        Some(ElementData::Verdict(_)) | None => None,
    };
    match nftables.elements_of_family(table_family(family), TABLE, map, read) {
        Ok(elements) => elements.into_iter().flatten().collect(),
        // Most likely the table does not exist.
        Err(error) => {
            tracing::debug!(%error, map, "slots of an earlier process not found");
            Vec::new()
        }
    }
}

fn read_number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}
