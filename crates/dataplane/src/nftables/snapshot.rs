//! Snapshots of the kernel's state, and their comparison with desired elements.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink::nftables::{Chain, Element, ElementData, Nftables, ReadError, Rule};
use plan::{EndpointSet, Family};

use super::base_ruleset;
use super::bytes::MapBytes;
use super::layout::{self, FAMILIES, Map, VERDICTS, address_bytes};
use super::map_element::{MapElement, MapId, MapValue};
use super::verdict_codes::VerdictCodes;

/// State of the table in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableState {
    /// The table does not exist.
    Absent,
    /// The table has another layout, or is damaged.
    Foreign,
    /// The table has the expected sets and base chains; rules and elements may differ.
    Own,
}

/// Reads the state of the table.
pub(super) fn table_state(
    nftables: &mut Nftables,
    table: &str,
    chains: &[(Chain, Vec<Rule>)],
) -> Result<TableState, ReadError> {
    let Some(found) = nftables.table(table)? else {
        return Ok(TableState::Absent);
    };
    if found != base_ruleset::table(table) {
        return Ok(TableState::Foreign);
    }
    let sets: HashMap<String, _> = nftables
        .sets(table)?
        .into_iter()
        .map(|set| (set.name.clone(), set))
        .collect();
    if layout::sets().iter().any(|set| sets.get(&set.name) != Some(set)) {
        return Ok(TableState::Foreign);
    }
    let is_damaged = |found: &Chain| {
        let desired = chains.iter().find(|(desired, _)| desired.name == found.name);
        found.base != desired.and_then(|(desired, _)| desired.base)
    };
    let damaged = nftables.chains(table)?.iter().any(is_damaged);
    Ok(if damaged {
        TableState::Foreign
    } else {
        TableState::Own
    })
}

/// Adopts the verdict codes of an earlier process.
pub(super) fn read_codes(
    nftables: &mut Nftables,
    table: &str,
    codes: &mut VerdictCodes,
) -> Result<(), ReadError> {
    let pairs = nftables.elements(table, VERDICTS, |element| {
        let code = element.key.try_into().map(u32::from_ne_bytes).ok()?;
        match element.data? {
            ElementData::Verdict(verdict) => Some((code, verdict.to_owned())),
            ElementData::Value(_) => None,
        }
    })?;
    for (code, verdict) in pairs.into_iter().flatten() {
        codes.adopt(code, verdict);
    }
    Ok(())
}

/// Endpoints of all Service ports by index, as an earlier process left them.
#[derive(Debug, Default)]
pub(super) struct FormerEndpoints(HashMap<(MapBytes, bool), Vec<SocketAddr>>);

impl FormerEndpoints {
    /// Reads the endpoints of both families.
    pub(super) fn read(nftables: &mut Nftables, table: &str) -> Result<Self, ReadError> {
        let mut found: HashMap<(MapBytes, bool), Vec<(u32, SocketAddr)>> = HashMap::new();
        for family in FAMILIES {
            for (map, is_local) in [(Map::ClusterEndpoints, false), (Map::LocalEndpoints, true)] {
                let elements = nftables.elements(table, map.name(family), |element| {
                    parse_indexed_endpoint(family, element)
                })?;
                for (key, index, endpoint) in elements.into_iter().flatten() {
                    found.entry((key, is_local)).or_default().push((index, endpoint));
                }
            }
        }
        let in_order = |mut endpoints: Vec<(u32, SocketAddr)>| -> Vec<SocketAddr> {
            endpoints.sort_unstable();
            endpoints.into_iter().map(|(_, endpoint)| endpoint).collect()
        };
        Ok(Self(
            found
                .into_iter()
                .map(|(key, endpoints)| (key, in_order(endpoints)))
                .collect(),
        ))
    }

    /// Returns the endpoints of one Service port.
    pub(super) fn endpoints(&self, key: &MapBytes, set: EndpointSet) -> Vec<SocketAddr> {
        let found = self.0.get(&(*key, set == EndpointSet::Local));
        found.cloned().unwrap_or_default()
    }
}

fn parse_indexed_endpoint(family: Family, element: Element<'_>) -> Option<(MapBytes, u32, SocketAddr)> {
    let (key, index) = element.key.split_last_chunk::<4>()?;
    let ElementData::Value(value) = element.data? else {
        return None;
    };
    let (ip, rest) = value.split_at_checked(address_bytes(family))?;
    let port = u16::from_be_bytes(*rest.first_chunk()?);
    let ip = match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(ip).ok()?)),
        Family::V6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?)),
    };
    Some((
        MapBytes::from_slice(key)?,
        u32::from_ne_bytes(*index),
        SocketAddr::new(ip, port),
    ))
}

/// Elements of a set or map, stored compactly: a hundred thousand take a few megabytes at most.
#[derive(Debug)]
pub(super) struct KernelElements {
    map_id: MapId,
    key_bytes: usize,
    /// Elements sorted by identity, without duplicates.
    found: Vec<KernelElement>,
}

/// An element in the kernel.
#[derive(Debug)]
struct KernelElement {
    /// Key, end of the key range, and interval flag.
    identity: Box<[u8]>,
    /// Hash of value and comment.
    content: u64,
    is_desired: bool,
}

impl KernelElements {
    /// Reads the elements of a set or map.
    pub(super) fn read(nftables: &mut Nftables, table: &str, map_id: MapId) -> Result<Self, ReadError> {
        let mut found = nftables.elements(table, map_id.name(), |element| KernelElement {
            identity: identity(&element),
            content: content(&element),
            is_desired: false,
        })?;
        found.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
        found.dedup_by(|a, b| a.identity == b.identity);
        let key_bytes = match map_id {
            MapId::Map(map, family) => map.set(family).key_bytes(),
            MapId::Verdicts | MapId::Masqueraded => 4,
        };
        Ok(Self {
            map_id,
            key_bytes,
            found,
        })
    }

    /// Compares a desired element. A missing one is appended to `added`; one with other content is appended to
    /// `removed` and `added`.
    pub(super) fn compare(
        &mut self,
        desired: MapElement,
        removed: &mut Vec<MapElement>,
        added: &mut Vec<MapElement>,
    ) {
        let element = desired.as_netlink();
        let identity = identity(&element);
        let at = self.found.binary_search_by(|found| found.identity.cmp(&identity));
        match at.ok().and_then(|at| self.found.get_mut(at)) {
            Some(found) => {
                found.is_desired = true;
                if found.content != content(&element) {
                    removed.push(desired.clone());
                    added.push(desired);
                }
            }
            None => added.push(desired),
        }
    }

    /// Returns the elements that are not desired.
    pub(super) fn stale(self) -> impl Iterator<Item = MapElement> {
        let (map_id, key_bytes) = (self.map_id, self.key_bytes);
        let stale = self.found.into_iter().filter(|found| !found.is_desired);
        stale.filter_map(move |found| {
            let (flag, keys) = found.identity.split_first()?;
            // An element without a key is the catch-all element.
            let (key, key_end) = keys.split_at_checked(key_bytes.min(keys.len()))?;
            let key_end = (!key_end.is_empty()).then(|| MapBytes::from_slice(key_end));
            Some(MapElement {
                map_id,
                key: MapBytes::from_slice(key)?,
                key_end: key_end.flatten().map(Box::new),
                is_interval_end: *flag != 0,
                map_value: MapValue::None,
                comment: None,
            })
        })
    }
}

/// Digest of a list of elements, independent of their order. Two lists are equal if their digests with the same
/// `state` are equal; an attacker cannot construct a collision without `state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest {
    /// Number of elements.
    pub count: usize,
    /// Wrapping sum of the hashes.
    sum: u64,
}

impl Digest {
    /// Reads the digest of a set or map. While the kernel resizes the hash table, an element may be missing or appear
    /// twice.
    pub(super) fn read(
        nftables: &mut Nftables,
        table: &str,
        map_id: MapId,
        state: &RandomState,
    ) -> Result<Self, ReadError> {
        nftables.fold_elements(table, map_id.name(), |digest: &mut Self, element| {
            digest.add(&element, state);
        })
    }

    /// Adds an element.
    pub(super) fn add(&mut self, element: &Element<'_>, state: &RandomState) {
        let mut hasher = state.build_hasher();
        element.is_interval_end.hash(&mut hasher);
        element.key.hash(&mut hasher);
        element.key_end.hash(&mut hasher);
        hash_content(element, &mut hasher);
        self.count += 1;
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}

/// Returns the affinities to members for which `is_stale` returns true.
pub(super) fn stale_affinities(
    nftables: &mut Nftables,
    table: &str,
    family: Family,
    is_stale: impl Fn(&MapBytes) -> bool,
) -> Result<Vec<MapElement>, ReadError> {
    let map_id = MapId::Map(Map::Affinity, family);
    let elements = nftables.elements(table, map_id.name(), |element| {
        let service = MapBytes::from_slice(element.key.get(address_bytes(family)..)?)?;
        let Some(ElementData::Value(number)) = element.data else {
            return None;
        };
        let member = service.key(&MapBytes::from_slice(number)?);
        let key = MapBytes::from_slice(element.key)?;
        is_stale(&member).then(|| MapElement::key(map_id, key))
    })?;
    Ok(elements.into_iter().flatten().collect())
}

/// Returns the rules of a table by chain; a chain without rules has an empty list.
pub(super) fn read_chains(
    nftables: &mut Nftables,
    table: &str,
) -> Result<HashMap<String, Vec<Rule>>, ReadError> {
    let mut chains: HashMap<String, Vec<Rule>> = nftables
        .chains(table)?
        .into_iter()
        .map(|chain| (chain.name, Vec::new()))
        .collect();
    for (chain, rule) in nftables.rules(table)? {
        chains.entry(chain).or_default().push(rule);
    }
    Ok(chains)
}

fn identity(element: &Element<'_>) -> Box<[u8]> {
    let flag = [u8::from(element.is_interval_end)];
    [&flag, element.key, element.key_end.unwrap_or_default()]
        .concat()
        .into()
}

fn content(element: &Element<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_content(element, &mut hasher);
    hasher.finish()
}

fn hash_content(element: &Element<'_>, hasher: &mut impl Hasher) {
    match element.data {
        Some(ElementData::Value(value)) => value.hash(hasher),
        Some(ElementData::Verdict(verdict)) => verdict.hash(hasher),
        None => {}
    }
    element.comment.hash(hasher);
}
