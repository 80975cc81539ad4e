//! Elements as they are wanted, and differences between lists of them.

use std::cmp::Ordering;
use std::sync::Arc;

use netlink::nftables::{Element, ElementData, Verdict};
use plan::Family;

use super::bytes::Bytes;
use super::layout::{FAMILIES, MASQUERADED, Map, TREATMENTS};

/// A set or map of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// One that there is for each family.
    Map(Map, Family),
    /// [`TREATMENTS`].
    Treatments,
    /// [`MASQUERADED`].
    Masqueraded,
}

impl Place {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        let maps = Map::ALL
            .into_iter()
            .flat_map(|map| FAMILIES.map(|family| Self::Map(map, family)));
        maps.chain([Self::Treatments, Self::Masqueraded])
    }

    /// The place of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|place| place.name() == name)
    }

    /// Whether nobody but packets says what is in it.
    pub const fn is_filled_by_rules(self) -> bool {
        matches!(self, Self::Map(Map::Affinity, _))
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Map(map, family) => map.name(family),
            Self::Treatments => TREATMENTS,
            Self::Masqueraded => MASQUERADED,
        }
    }
}

/// What a map holds for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Nothing: it is a set.
    None,
    /// Fields.
    Value(Bytes),
    /// A verdict.
    Verdict(Verdict<String>),
}

/// An element that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where.
    pub place: Place,
    /// Its key, or the first of a range.
    pub key: Bytes,
    /// The last key of a range, where keys have several fields.
    pub key_end: Option<Box<Bytes>>,
    /// Whether it ends a range, where keys have one field.
    pub is_interval_end: bool,
    /// What it holds.
    pub datum: Datum,
    /// Which Service port it is for, as people name it.
    pub comment: Option<Arc<str>>,
}

impl Item {
    /// An element of a set.
    pub fn key(place: Place, key: Bytes) -> Self {
        Self {
            place,
            key,
            key_end: None,
            is_interval_end: false,
            datum: Datum::None,
            comment: None,
        }
    }

    /// An element of a data map.
    pub fn pair(place: Place, key: Bytes, value: Bytes) -> Self {
        Self {
            datum: Datum::Value(value),
            ..Self::key(place, key)
        }
    }

    /// The same with a comment.
    pub fn with_comment(self, comment: &Arc<str>) -> Self {
        Self {
            comment: Some(comment.clone()),
            ..self
        }
    }

    /// For a message.
    pub fn element(&self) -> Element<'_> {
        Element {
            key: self.key.as_slice(),
            key_end: self.key_end.as_ref().map(|end| end.as_slice()),
            is_interval_end: self.is_interval_end,
            data: match &self.datum {
                Datum::None => None,
                Datum::Value(value) => Some(ElementData::Value(value.as_slice())),
                Datum::Verdict(verdict) => Some(ElementData::Verdict(verdict.as_deref())),
            },
            timeout_ms: None,
            comment: self.comment.as_deref().unwrap_or_default(),
        }
    }

    /// Order by what an element is told from others by.
    fn order(&self, other: &Self) -> Ordering {
        (self.place, &self.key, self.is_interval_end, &self.key_end).cmp(&(
            other.place,
            &other.key,
            other.is_interval_end,
            &other.key_end,
        ))
    }
}

/// What is to go and what is to come, so that `old` becomes `new`. An element that holds something else now
/// goes and comes.
pub fn difference(mut old: Vec<Item>, mut new: Vec<Item>) -> (Vec<Item>, Vec<Item>) {
    old.sort_unstable_by(Item::order);
    new.sort_unstable_by(Item::order);
    let (mut going, mut coming) = (Vec::new(), Vec::new());
    let mut old = old.into_iter().peekable();
    for item in new {
        while let Some(gone) = old.next_if(|former| former.order(&item) == Ordering::Less) {
            going.push(gone);
        }
        match old.next_if(|former| former.order(&item) == Ordering::Equal) {
            Some(former) if former == item => {}
            Some(former) => {
                going.push(former);
                coming.push(item);
            }
            None => coming.push(item),
        }
    }
    going.extend(old);
    (going, coming)
}
