//! Affinities of Service ports whose first frontend changes, such as a port with another number. The key of an affinity
//! contains the first frontend; kube-proxy records affinities by the name of the port (EPT-11).

use std::collections::{HashMap, HashSet};

use netlink::nftables::{Batch, Change, Element, ElementData, Nftables, ReadError};
use plan::Family;

use super::bytes::MapBytes;
use super::layout::{Map, address_bytes};
use super::transaction::NO_OWNER;

/// Affinity of a client, with the rest of its timeout.
pub(super) struct Affinity {
    /// Address of the client.
    client: MapBytes,
    /// Key of the Service port.
    service: MapBytes,
    /// Number of the endpoint.
    number: MapBytes,
    timeout_milliseconds: Option<u64>,
    expiration_milliseconds: Option<u64>,
}

impl Affinity {
    fn read(element: &Element<'_>, family: Family) -> Option<Self> {
        let (client, service) = element.key.split_at_checked(address_bytes(family))?;
        let Some(ElementData::Value(number)) = element.data else {
            return None;
        };
        Some(Self {
            client: MapBytes::from_slice(client)?,
            service: MapBytes::from_slice(service)?,
            number: MapBytes::from_slice(number)?,
            timeout_milliseconds: element.timeout_milliseconds,
            expiration_milliseconds: element.expiration_milliseconds,
        })
    }

    /// Returns the key in the map.
    fn key(&self) -> MapBytes {
        self.client.key(&self.service)
    }
}

/// Returns copies of affinities under the new keys of their Service ports. `moved` maps the former key of a Service
/// port and the number of an endpoint to the new key. An affinity that a client already has under a new key stays.
pub(super) fn copies(
    nftables: &mut Nftables,
    table: &str,
    family: Family,
    moved: &HashMap<MapBytes, MapBytes>,
) -> Result<Vec<Affinity>, ReadError> {
    let map = Map::Affinity.name(family);
    let found = nftables.elements(table, map, |element| Affinity::read(&element, family))?;
    let found: Vec<Affinity> = found.into_iter().flatten().collect();
    let present: HashSet<MapBytes> = found.iter().map(Affinity::key).collect();
    let copies = found.into_iter().filter_map(|affinity| {
        let service = *moved.get(&affinity.service.key(&affinity.number))?;
        Some(Affinity { service, ..affinity })
    });
    // The kernel reads an expiration of zero as the whole timeout.
    let is_new = |copy: &Affinity| !present.contains(&copy.key()) && copy.expiration_milliseconds != Some(0);
    Ok(copies.filter(is_new).collect())
}

/// Builds the transaction that adds affinities.
pub(super) fn batch(table: &str, family: Family, affinities: &[Affinity]) -> Batch {
    let mut batch = Batch::new(table, None);
    let mut list = batch.elements(Change::Add, Map::Affinity.name(family), NO_OWNER);
    for affinity in affinities {
        list.push(&Element {
            timeout_milliseconds: affinity.timeout_milliseconds,
            expiration_milliseconds: affinity.expiration_milliseconds,
            ..Element::pair(
                affinity.key().as_slice(),
                ElementData::Value(affinity.number.as_slice()),
            )
        });
    }
    drop(list);
    batch
}
