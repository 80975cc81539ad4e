//! Path attributes of received UPDATEs, with the error handling of RFC 7606.

use std::net::Ipv4Addr;

use super::reader::Reader;
use super::update::ErrorHandling;
use super::{Context, Notification};
use crate::AutonomousSystem;
use crate::community::{Community, LargeCommunity};

pub(super) const ORIGIN: u8 = 1;
pub(super) const AS_PATH: u8 = 2;
pub(super) const NEXT_HOP: u8 = 3;
const MULTI_EXIT_DISC: u8 = 4;
pub(super) const LOCAL_PREF: u8 = 5;
const ATOMIC_AGGREGATE: u8 = 6;
const AGGREGATOR: u8 = 7;
pub(super) const COMMUNITIES: u8 = 8;
const ORIGINATOR_ID: u8 = 9;
const CLUSTER_LIST: u8 = 10;
pub(super) const MP_REACH: u8 = 14;
pub(super) const MP_UNREACH: u8 = 15;
const EXTENDED_COMMUNITIES: u8 = 16;
pub(super) const AS4_PATH: u8 = 17;
const AS4_AGGREGATOR: u8 = 18;
pub(super) const LARGE_COMMUNITIES: u8 = 32;

const OPTIONAL: u8 = 0x80;
const TRANSITIVE: u8 = 0x40;
pub(super) const EXTENDED_LENGTH: u8 = 0x10;

const AS_SET: u8 = 1;
pub(super) const AS_SEQUENCE: u8 = 2;

/// Origin of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Origin {
    /// Interior.
    Igp,
    /// Learned by EGP.
    Egp,
    /// Other.
    Incomplete,
}

/// Segment of an AS path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// True for AS_SET, whose order has no meaning.
    pub is_set: bool,
    /// Autonomous systems.
    pub numbers: Vec<AutonomousSystem>,
}

/// Attributes of the routes of an UPDATE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// ORIGIN.
    pub origin: Option<Origin>,
    /// AS_PATH.
    pub as_path: Option<Vec<Segment>>,
    /// NEXT_HOP, for the prefixes of IPv4 outside of MP_REACH_NLRI.
    pub next_hop: Option<Ipv4Addr>,
    /// MULTI_EXIT_DISC.
    pub multi_exit_discriminator: Option<u32>,
    /// LOCAL_PREF of an internal peer.
    pub local_preference: Option<u32>,
    /// ATOMIC_AGGREGATE.
    pub is_atomic_aggregate: bool,
    /// AGGREGATOR: its autonomous system and address.
    pub aggregator: Option<(AutonomousSystem, Ipv4Addr)>,
    /// COMMUNITIES.
    pub communities: Vec<Community>,
    /// EXTENDED_COMMUNITIES (RFC 4360).
    pub extended_communities: Vec<[u8; 8]>,
    /// LARGE_COMMUNITY.
    pub large_communities: Vec<LargeCommunity>,
    /// AS4_PATH of a peer with AS numbers of two octets.
    pub as4_path: Option<Vec<Segment>>,
}

/// One attribute on the wire.
pub(super) struct RawAttribute<'b> {
    pub(super) flags: u8,
    pub(super) kind: u8,
    pub(super) value: &'b [u8],
}

/// Reads the next attribute; `None` if it is longer than the rest of the list.
pub(super) fn next<'b>(reader: &mut Reader<'b>) -> Option<RawAttribute<'b>> {
    let (flags, kind) = (reader.u8()?, reader.u8()?);
    let length = if flags & EXTENDED_LENGTH == 0 {
        usize::from(reader.u8()?)
    } else {
        usize::from(reader.u16()?)
    };
    let value = reader.take(length)?;
    Some(RawAttribute { flags, kind, value })
}

/// Returns the flags with which a type is sent.
pub(super) fn flags_of(kind: u8) -> u8 {
    match kind {
        ORIGIN | AS_PATH | NEXT_HOP | LOCAL_PREF | ATOMIC_AGGREGATE => TRANSITIVE,
        MULTI_EXIT_DISC | ORIGINATOR_ID | CLUSTER_LIST | MP_REACH | MP_UNREACH => OPTIONAL,
        _ => OPTIONAL | TRANSITIVE,
    }
}

/// Returns true if this speaker supports the type.
fn is_known(kind: u8) -> bool {
    matches!(kind, ORIGIN..=CLUSTER_LIST | MP_REACH..=AS4_AGGREGATOR | LARGE_COMMUNITIES)
}

impl RawAttribute<'_> {
    /// Returns the attribute as it arrived, for the data of a NOTIFICATION (RFC 4271, section 6.3).
    pub(super) fn encoded(&self) -> Vec<u8> {
        let [high, low] = u16::try_from(self.value.len()).unwrap_or(u16::MAX).to_be_bytes();
        let mut bytes = vec![self.flags, self.kind];
        if self.flags & EXTENDED_LENGTH != 0 {
            bytes.push(high);
        }
        bytes.push(low);
        bytes.extend_from_slice(self.value);
        bytes
    }

    /// Returns the error of the flags: they conflict with the type, or an unknown type is well-known.
    pub(super) fn flag_error(&self) -> Result<Option<ErrorHandling>, Notification> {
        if !is_known(self.kind) {
            if self.flags & OPTIONAL == 0 {
                return Err(Notification::with_data(Notification::UPDATE, 2, &self.encoded()));
            }
            return Ok(None);
        }
        let mask = OPTIONAL | TRANSITIVE;
        let is_conflict = self.flags & mask != flags_of(self.kind);
        Ok(is_conflict.then_some(ErrorHandling::TreatAsWithdraw))
    }
}

impl Attributes {
    /// Adds an attribute other than MP_REACH_NLRI and MP_UNREACH_NLRI.
    ///
    /// # Errors
    /// The handling of a malformed value (RFC 7606, section 7).
    pub(super) fn add(
        &mut self,
        attribute: &RawAttribute<'_>,
        context: &Context,
    ) -> Result<(), ErrorHandling> {
        let value = attribute.value;
        let handling = match attribute.kind {
            ATOMIC_AGGREGATE | AGGREGATOR | AS4_PATH | AS4_AGGREGATOR => ErrorHandling::DiscardAttribute,
            LOCAL_PREF | ORIGINATOR_ID | CLUSTER_LIST if !context.is_internal => {
                return Err(ErrorHandling::DiscardAttribute);
            }
            _ => ErrorHandling::TreatAsWithdraw,
        };
        self.set(attribute.kind, value, context).ok_or(handling)
    }

    /// Sets the value of an attribute; `None` if it is malformed. Unknown optional attributes are ignored.
    fn set(&mut self, kind: u8, value: &[u8], context: &Context) -> Option<()> {
        match kind {
            ORIGIN => self.origin = Some(origin(value)?),
            AS_PATH => self.as_path = Some(as_path(value, context.has_four_octet_as)?),
            NEXT_HOP => self.next_hop = Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?)),
            MULTI_EXIT_DISC => self.multi_exit_discriminator = Some(number(value)?),
            LOCAL_PREF => self.local_preference = Some(number(value)?),
            ATOMIC_AGGREGATE => {
                if !value.is_empty() {
                    return None;
                }
                self.is_atomic_aggregate = true;
            }
            AGGREGATOR => self.aggregator = Some(aggregator(value, context.has_four_octet_as)?),
            COMMUNITIES => {
                let communities = chunks::<4>(value)?.into_iter().map(u32::from_be_bytes);
                self.communities = communities.map(Community).collect();
            }
            ORIGINATOR_ID => {
                number(value)?;
            }
            CLUSTER_LIST => {
                chunks::<4>(value)?;
            }
            EXTENDED_COMMUNITIES => self.extended_communities = chunks::<8>(value)?,
            AS4_PATH => self.as4_path = Some(as_path(value, true)?),
            AS4_AGGREGATOR => {
                aggregator(value, true)?;
            }
            LARGE_COMMUNITIES => {
                let large = chunks::<12>(value)?.into_iter();
                self.large_communities = large.filter_map(large_community).collect();
            }
            _ => {}
        }
        Some(())
    }

    /// Returns true if the attributes that routes need are present. Prefixes outside of MP_REACH_NLRI need a next
    /// hop. Routes of internal peers need a preference.
    pub(super) fn is_complete(&self, has_prefixes: bool, context: &Context) -> bool {
        self.origin.is_some()
            && self.as_path.is_some()
            && (!has_prefixes || self.next_hop.is_some())
            && (!context.is_internal || self.local_preference.is_some())
    }
}

fn origin(value: &[u8]) -> Option<Origin> {
    match value {
        [0] => Some(Origin::Igp),
        [1] => Some(Origin::Egp),
        [2] => Some(Origin::Incomplete),
        _ => None,
    }
}

fn as_path(value: &[u8], has_four_octets: bool) -> Option<Vec<Segment>> {
    let mut reader = Reader::new(value);
    let mut segments = Vec::new();
    while !reader.is_empty() {
        let kind = reader.u8()?;
        let count = reader.u8()?;
        if !matches!(kind, AS_SET | AS_SEQUENCE) || count == 0 {
            return None;
        }
        let mut numbers = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            numbers.push(if has_four_octets {
                reader.u32()?
            } else {
                u32::from(reader.u16()?)
            });
        }
        segments.push(Segment {
            is_set: kind == AS_SET,
            numbers,
        });
    }
    Some(segments)
}

fn aggregator(value: &[u8], has_four_octets: bool) -> Option<(AutonomousSystem, Ipv4Addr)> {
    let mut reader = Reader::new(value);
    let number = if has_four_octets {
        reader.u32()?
    } else {
        u32::from(reader.u16()?)
    };
    let address = Ipv4Addr::from(reader.u32()?);
    reader.is_empty().then_some((number, address))
}

fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

/// Splits a value into chunks; `None` if it is empty or no multiple of the size.
fn chunks<const SIZE: usize>(value: &[u8]) -> Option<Vec<[u8; SIZE]>> {
    let (chunks, rest) = value.as_chunks::<SIZE>();
    (!chunks.is_empty() && rest.is_empty()).then(|| chunks.to_vec())
}

fn large_community(value: [u8; 12]) -> Option<LargeCommunity> {
    let mut reader = Reader::new(&value);
    Some(LargeCommunity([reader.u32()?, reader.u32()?, reader.u32()?]))
}
