//! UPDATE: routes that a peer announces and withdraws (RFC 4271, section 4.3; RFC 4760; RFC 7606).

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

use super::attributes::{self, Attributes, MP_REACH, MP_UNREACH, RawAttribute};
use super::reader::Reader;
use super::{Context, Notification, prefix};
use crate::Family;

/// Handling of an error that does not end the session (RFC 7606, section 2), from lenient to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorHandling {
    /// The attribute has no effect.
    DiscardAttribute,
    /// The announced routes count as withdrawn.
    TreatAsWithdraw,
}

/// Routes of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Withdrawn prefixes. With [`ErrorHandling::TreatAsWithdraw`] they include the announced ones.
    pub withdrawn: Vec<IpNet>,
    /// Announced prefixes.
    pub announced: Vec<IpNet>,
    /// Next hop of the prefixes in MP_REACH_NLRI.
    pub next_hop: Option<IpAddr>,
    /// Attributes of the announced prefixes.
    pub attributes: Attributes,
    /// Family whose initial routes are complete (RFC 4724, section 2).
    pub end_of_routes: Option<Family>,
    /// Strictest handling of an error in the attributes; `None` without errors.
    pub error: Option<ErrorHandling>,
}

impl Update {
    /// Decodes the body of an UPDATE.
    pub(super) fn decode(body: &[u8], context: &Context) -> Result<Self, Notification> {
        let malformed = || Notification::new(Notification::UPDATE, 1);
        let invalid_prefix = || Notification::new(Notification::UPDATE, 10);
        let mut reader = Reader::new(body);
        let length = reader.u16().ok_or_else(malformed)?;
        let withdrawn = reader.take(usize::from(length)).ok_or_else(malformed)?;
        let length = reader.u16().ok_or_else(malformed)?;
        let list = reader.take(usize::from(length)).ok_or_else(malformed)?;
        let announced = reader.rest();
        let mut update = Self {
            withdrawn: prefix::decode(withdrawn, Family::Ipv4).ok_or_else(invalid_prefix)?,
            announced: prefix::decode(announced, Family::Ipv4).ok_or_else(invalid_prefix)?,
            ..Self::default()
        };
        if body.len() == 4 {
            update.end_of_routes = Some(Family::Ipv4);
        }
        update.decode_attributes(list, context)?;
        Ok(update)
    }

    fn decode_attributes(&mut self, list: &[u8], context: &Context) -> Result<(), Notification> {
        let has_prefixes = !self.announced.is_empty();
        let mut reader = Reader::new(list);
        let mut seen = [false; 256];
        while !reader.is_empty() {
            let Some(attribute) = attributes::next(&mut reader) else {
                self.record_error(ErrorHandling::TreatAsWithdraw);
                break;
            };
            let is_repeated = std::mem::replace(&mut seen[usize::from(attribute.kind)], true);
            if is_repeated {
                if matches!(attribute.kind, MP_REACH | MP_UNREACH) {
                    return Err(Notification::new(Notification::UPDATE, 1));
                }
                // All but the first are discarded (RFC 7606, section 3 g).
                self.record_error(ErrorHandling::DiscardAttribute);
                continue;
            }
            self.decode_attribute(&attribute, context)?;
        }
        let is_end = self.announced.is_empty()
            && self.withdrawn.is_empty()
            && self.attributes == Attributes::default();
        if !(is_end && seen[usize::from(MP_UNREACH)]) {
            self.end_of_routes = self.end_of_routes.filter(|family| *family == Family::Ipv4);
        }
        if !self.announced.is_empty() && !self.attributes.is_complete(has_prefixes, context) {
            self.record_error(ErrorHandling::TreatAsWithdraw);
        }
        if self.error == Some(ErrorHandling::TreatAsWithdraw) {
            self.withdrawn.append(&mut self.announced);
        }
        Ok(())
    }

    fn decode_attribute(
        &mut self,
        attribute: &RawAttribute<'_>,
        context: &Context,
    ) -> Result<(), Notification> {
        if let Some(handling) = attribute.flag_error()? {
            self.record_error(handling);
        }
        let malformed = || Notification::with_data(Notification::UPDATE, 9, &attribute.encoded());
        match attribute.kind {
            MP_REACH => self.decode_reachable(attribute.value).ok_or_else(malformed),
            MP_UNREACH => self.decode_unreachable(attribute.value).ok_or_else(malformed),
            _ => {
                if let Err(handling) = self.attributes.add(attribute, context) {
                    self.record_error(handling);
                }
                Ok(())
            }
        }
    }

    /// Decodes MP_REACH_NLRI; `None` if it is malformed. Routes of families without support are ignored.
    fn decode_reachable(&mut self, value: &[u8]) -> Option<()> {
        let mut reader = Reader::new(value);
        let (afi, safi) = (reader.u16()?, reader.u8()?);
        let length = reader.u8()?;
        let next_hop = reader.take(usize::from(length))?;
        reader.u8()?;
        let Some(family) = Family::of_identifiers(afi, safi) else {
            return Some(());
        };
        self.next_hop = Some(match next_hop.len() {
            4 if family == Family::Ipv4 => IpAddr::from(<[u8; 4]>::try_from(next_hop).ok()?),
            // A global address, followed by the link-local one or not.
            16 | 32 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(&next_hop[..16]).ok()?)),
            _ => return None,
        });
        self.announced.extend(prefix::decode(reader.rest(), family)?);
        Some(())
    }

    /// Decodes MP_UNREACH_NLRI; `None` if it is malformed.
    fn decode_unreachable(&mut self, value: &[u8]) -> Option<()> {
        let mut reader = Reader::new(value);
        let (afi, safi) = (reader.u16()?, reader.u8()?);
        let Some(family) = Family::of_identifiers(afi, safi) else {
            return Some(());
        };
        if reader.is_empty() {
            self.end_of_routes = Some(family);
        }
        self.withdrawn.extend(prefix::decode(reader.rest(), family)?);
        Some(())
    }

    fn record_error(&mut self, handling: ErrorHandling) {
        self.error = self.error.max(Some(handling));
    }
}
