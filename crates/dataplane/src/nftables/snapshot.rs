//! What the kernel has, read back and compared with what is wanted.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink::nftables::{Chain, Element, ElementData, Nftables, ReadError, Rule};
use plan::{Family, Set};

use super::bytes::Bytes;
use super::codes::Codes;
use super::item::{Datum, Item, Place};
use super::layout::{self, FAMILIES, Map, TREATMENTS, address_bytes};
use super::skeleton;

/// Whether the table is there, and of this layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none.
    Nothing,
    /// There is one of another layout, or a damaged one.
    Other,
    /// It is as it should be, but for rules and elements.
    Ours,
}

/// Looks for the table.
pub fn find(nftables: &mut Nftables, table: &str, chains: &[(Chain, Vec<Rule>)]) -> Result<Found, ReadError> {
    let Some(found) = nftables.table(table)? else {
        return Ok(Found::Nothing);
    };
    if found != skeleton::table(table) {
        return Ok(Found::Other);
    }
    let sets: HashMap<String, _> = nftables
        .sets(table)?
        .into_iter()
        .map(|set| (set.name.clone(), set))
        .collect();
    if layout::sets().iter().any(|set| sets.get(&set.name) != Some(set)) {
        return Ok(Found::Other);
    }
    let is_damaged = |found: &Chain| {
        let wanted = chains.iter().find(|(wanted, _)| wanted.name == found.name);
        found.base != wanted.and_then(|(wanted, _)| wanted.base)
    };
    let damaged = nftables.chains(table)?.iter().any(is_damaged);
    Ok(if damaged { Found::Other } else { Found::Ours })
}

/// Learns the codes that an earlier process gave.
pub fn read_codes(nftables: &mut Nftables, table: &str, codes: &mut Codes) -> Result<(), ReadError> {
    let pairs = nftables.elements(table, TREATMENTS, |element| {
        let code = element.key.try_into().map(u32::from_ne_bytes).ok()?;
        match element.data? {
            ElementData::Verdict(verdict) => Some((code, verdict.to_owned())),
            ElementData::Value(_) => None,
        }
    })?;
    for (code, verdict) in pairs.into_iter().flatten() {
        codes.remember(code, verdict);
    }
    Ok(())
}

/// The endpoints of all Service ports by index, as an earlier process left them.
#[derive(Debug, Default)]
pub struct FormerEndpoints(HashMap<(Bytes, bool), Vec<SocketAddr>>);

impl FormerEndpoints {
    /// Reads them.
    pub fn read(nftables: &mut Nftables, table: &str) -> Result<Self, ReadError> {
        let mut found: HashMap<(Bytes, bool), Vec<(u32, SocketAddr)>> = HashMap::new();
        for family in FAMILIES {
            for (map, is_local) in [(Map::ClusterEndpoints, false), (Map::LocalEndpoints, true)] {
                let elements = nftables.elements(table, map.name(family), |element| slot(family, element))?;
                for (key, index, endpoint) in elements.into_iter().flatten() {
                    found.entry((key, is_local)).or_default().push((index, endpoint));
                }
            }
        }
        let in_order = |mut slots: Vec<(u32, SocketAddr)>| -> Vec<SocketAddr> {
            slots.sort_unstable();
            slots.into_iter().map(|(_, endpoint)| endpoint).collect()
        };
        Ok(Self(
            found
                .into_iter()
                .map(|(key, slots)| (key, in_order(slots)))
                .collect(),
        ))
    }

    /// Those of one Service port.
    pub fn of(&self, key: &Bytes, set: Set) -> Vec<SocketAddr> {
        let found = self.0.get(&(*key, set == Set::Local));
        found.cloned().unwrap_or_default()
    }
}

fn slot(family: Family, element: Element<'_>) -> Option<(Bytes, u32, SocketAddr)> {
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
        Bytes::from_slice(key)?,
        u32::from_ne_bytes(*index),
        SocketAddr::new(ip, port),
    ))
}

/// The elements of a set or map, compactly: a hundred thousand of them are not to take more than a few megabytes.
#[derive(Debug)]
pub struct Elements {
    place: Place,
    key_bytes: usize,
    /// By identity, each once.
    found: Vec<FoundElement>,
}

#[derive(Debug)]
struct FoundElement {
    /// What it is told from others by.
    identity: Box<[u8]>,
    /// A hash of the rest.
    content: u64,
    is_wanted: bool,
}

impl Elements {
    /// Reads them.
    pub fn read(nftables: &mut Nftables, table: &str, place: Place) -> Result<Self, ReadError> {
        let mut found = nftables.elements(table, place.name(), |element| FoundElement {
            identity: identity(&element),
            content: content(&element),
            is_wanted: false,
        })?;
        found.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
        found.dedup_by(|a, b| a.identity == b.identity);
        let key_bytes = match place {
            Place::Map(map, family) => map.set(family).key_bytes(),
            Place::Treatments | Place::Masqueraded => 4,
        };
        Ok(Self {
            place,
            key_bytes,
            found,
        })
    }

    /// Compares with an element that is wanted. If another is there in its place, that has to go, then this has
    /// to come; if none is, this has to come.
    pub fn compare(&mut self, wanted: Item, going: &mut Vec<Item>, coming: &mut Vec<Item>) {
        let element = wanted.element();
        let identity = identity(&element);
        let at = self.found.binary_search_by(|found| found.identity.cmp(&identity));
        match at.ok().and_then(|at| self.found.get_mut(at)) {
            Some(found) => {
                found.is_wanted = true;
                if found.content != content(&element) {
                    going.push(wanted.clone());
                    coming.push(wanted);
                }
            }
            None => coming.push(wanted),
        }
    }

    /// What was not wanted.
    pub fn stale(self) -> impl Iterator<Item = Item> {
        let (place, key_bytes) = (self.place, self.key_bytes);
        let stale = self.found.into_iter().filter(|found| !found.is_wanted);
        stale.filter_map(move |found| {
            let (flag, keys) = found.identity.split_first()?;
            // Without a key it stands for all that no other has.
            let (key, key_end) = keys.split_at_checked(key_bytes.min(keys.len()))?;
            let key_end = (!key_end.is_empty()).then(|| Bytes::from_slice(key_end));
            Some(Item {
                place,
                key: Bytes::from_slice(key)?,
                key_end: key_end.flatten().map(Box::new),
                is_interval_end: *flag != 0,
                datum: Datum::None,
                comment: None,
            })
        })
    }
}

/// Elements in short, whatever their order: those of two lists are the same if their digests are, as long as these are
/// made with one `state`, which nobody else knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How many there are.
    pub count: usize,
    /// The sum of their hashes.
    sum: u64,
}

impl Digest {
    /// The digest of a set or map. While the kernel enlarges its hash table, an element may be missing or be there twice.
    pub fn read(
        nftables: &mut Nftables,
        table: &str,
        place: Place,
        state: &RandomState,
    ) -> Result<Self, ReadError> {
        nftables.fold_elements(table, place.name(), |digest: &mut Self, element| {
            digest.add(&element, state);
        })
    }

    /// Takes in an element.
    pub fn add(&mut self, element: &Element<'_>, state: &RandomState) {
        let mut hasher = state.build_hasher();
        element.is_interval_end.hash(&mut hasher);
        element.key.hash(&mut hasher);
        element.key_end.hash(&mut hasher);
        hash_content(element, &mut hasher);
        self.count += 1;
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}

/// Affinities that keep clients at endpoints for whose keys `is_stale`.
pub fn stale_affinities(
    nftables: &mut Nftables,
    table: &str,
    family: Family,
    is_stale: impl Fn(&Bytes) -> bool,
) -> Result<Vec<Item>, ReadError> {
    let place = Place::Map(Map::Affinity, family);
    let items = nftables.elements(table, place.name(), |element| {
        let service = Bytes::from_slice(element.key.get(address_bytes(family)..)?)?;
        let Some(ElementData::Value(number)) = element.data else {
            return None;
        };
        let member = service.key(&Bytes::from_slice(number)?);
        let key = Bytes::from_slice(element.key)?;
        is_stale(&member).then(|| Item::key(place, key))
    })?;
    Ok(items.into_iter().flatten().collect())
}

/// The rules of a table by chain; a chain without rules has none.
pub fn read_chains(nftables: &mut Nftables, table: &str) -> Result<HashMap<String, Vec<Rule>>, ReadError> {
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
