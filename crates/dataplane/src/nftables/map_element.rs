//! Elements of maps and sets, and differences between lists of them.

use std::cmp::Ordering;
use std::sync::Arc;

use netlink::nftables::{Element, ElementData, Verdict};
use plan::Family;

use super::bytes::MapBytes;
use super::layout::{FAMILIES, MASQUERADED, Map, VERDICTS};

/// Identifier of a map or set in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum MapId {
    /// A map that exists once per IP family.
    Map(Map, Family),
    /// The map [`VERDICTS`].
    Verdicts,
    /// The map [`MASQUERADED`].
    Masqueraded,
}

impl MapId {
    /// Returns the identifiers of all maps and sets.
    pub(super) fn all() -> impl Iterator<Item = Self> + Clone {
        let maps = Map::ALL
            .into_iter()
            .flat_map(|map| FAMILIES.map(|family| Self::Map(map, family)));
        maps.chain([Self::Verdicts, Self::Masqueraded])
    }

    /// Returns the identifier for a name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|map_id| map_id.name() == name)
    }

    /// Returns true if packets add the elements, not this process.
    pub(super) const fn is_dynamic(self) -> bool {
        matches!(self, Self::Map(Map::Affinity, _))
    }

    /// Returns the name in the table.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Map(map, family) => map.name(family),
            Self::Verdicts => VERDICTS,
            Self::Masqueraded => MASQUERADED,
        }
    }
}

/// Value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MapValue {
    /// No value: an element of a set.
    None,
    /// Concatenated fields.
    Value(MapBytes),
    /// A verdict.
    Verdict(Verdict<String>),
}

/// A desired element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapElement {
    /// Map or set of the element.
    pub map_id: MapId,
    /// Key, or first key of a range.
    pub key: MapBytes,
    /// Last key of a range of concatenated fields.
    pub key_end: Option<Box<MapBytes>>,
    /// True if the element ends a range of single-field keys.
    pub is_interval_end: bool,
    /// Value of the element.
    pub map_value: MapValue,
    /// Service port of the element, for readers of `nft list`.
    pub comment: Option<Arc<str>>,
}

impl MapElement {
    /// Creates an element of a set.
    pub(super) fn key(map_id: MapId, key: MapBytes) -> Self {
        Self {
            map_id,
            key,
            key_end: None,
            is_interval_end: false,
            map_value: MapValue::None,
            comment: None,
        }
    }

    /// Creates an element of a data map.
    pub(super) fn pair(map_id: MapId, key: MapBytes, value: MapBytes) -> Self {
        Self {
            map_value: MapValue::Value(value),
            ..Self::key(map_id, key)
        }
    }

    /// Returns the element with a comment.
    pub(super) fn with_comment(self, comment: &Arc<str>) -> Self {
        Self {
            comment: Some(comment.clone()),
            ..self
        }
    }

    /// Returns the element in the form of a netlink message.
    pub(super) fn as_netlink(&self) -> Element<'_> {
        Element {
            key: self.key.as_slice(),
            key_end: self.key_end.as_ref().map(|end| end.as_slice()),
            is_interval_end: self.is_interval_end,
            data: match &self.map_value {
                MapValue::None => None,
                MapValue::Value(value) => Some(ElementData::Value(value.as_slice())),
                MapValue::Verdict(verdict) => Some(ElementData::Verdict(verdict.as_deref())),
            },
            timeout_milliseconds: None,
            expiration_milliseconds: None,
            comment: self.comment.as_deref().unwrap_or_default(),
        }
    }

    /// Orders elements by identity.
    fn order(&self, other: &Self) -> Ordering {
        (self.map_id, &self.key, self.is_interval_end, &self.key_end).cmp(&(
            other.map_id,
            &other.key,
            other.is_interval_end,
            &other.key_end,
        ))
    }
}

/// Returns the elements to remove and to add, so that `old` becomes `new`. An element with another value is removed
/// and added.
pub(super) fn difference(
    mut old: Vec<MapElement>,
    mut new: Vec<MapElement>,
) -> (Vec<MapElement>, Vec<MapElement>) {
    old.sort_unstable_by(MapElement::order);
    new.sort_unstable_by(MapElement::order);
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let mut old = old.into_iter().peekable();
    for element in new {
        while let Some(gone) = old.next_if(|former| former.order(&element) == Ordering::Less) {
            removed.push(gone);
        }
        match old.next_if(|former| former.order(&element) == Ordering::Equal) {
            Some(former) if former == element => {}
            Some(former) => {
                removed.push(former);
                added.push(element);
            }
            None => added.push(element),
        }
    }
    removed.extend(old);
    (removed, added)
}
