//! Capabilities in OPENs (RFC 5492).

use super::notification::Notification;
use super::reader::Reader;
use crate::{AutonomousSystem, Family};

const MULTIPROTOCOL: u8 = 1;
const ROUTE_REFRESH: u8 = 2;
const EXTENDED_NEXT_HOP: u8 = 5;
const GRACEFUL_RESTART: u8 = 64;
const FOUR_OCTET_AS: u8 = 65;

/// Bit of the restart state in a graceful restart capability (RFC 4724, section 3).
const RESTARTED: u16 = 0x8000;
/// Bit of the support of NOTIFICATIONs (RFC 8538, section 2).
const NOTIFICATIONS: u16 = 0x4000;
const RESTART_SECONDS: u16 = 0x0fff;
/// Bit of a preserved forwarding state.
const FORWARDING: u8 = 0x80;

/// Capabilities of a speaker that this implementation supports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Families with a multiprotocol capability (RFC 4760).
    pub families: Vec<Family>,
    /// True if a received capability names another family. It is not sent.
    pub has_other_families: bool,
    /// True if the speaker resends routes on request (RFC 2918).
    pub has_route_refresh: bool,
    /// True if routes of IPv4 may have a next hop of IPv6 (RFC 8950).
    pub has_extended_next_hop: bool,
    /// Number of the autonomous system with four octets (RFC 6793).
    pub four_octet_as: Option<AutonomousSystem>,
    /// Graceful restart (RFC 4724).
    pub graceful_restart: Option<GracefulRestart>,
}

/// Graceful restart of a speaker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GracefulRestart {
    /// True if the speaker has restarted.
    pub is_restarted: bool,
    /// True if routes survive NOTIFICATIONs that are not a hard reset (RFC 8538).
    pub has_notifications: bool,
    /// Time in seconds for which the peer keeps the routes, at most 4,095.
    pub restart_seconds: u16,
    /// Families, each with the preservation of its forwarding state.
    pub families: Vec<(Family, bool)>,
}

impl Capabilities {
    /// Reads the capabilities of one optional parameter into this value. Unknown ones are skipped.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Result<(), Notification> {
        let malformed = || Notification::new(Notification::OPEN, 0);
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let code = reader.u8().ok_or_else(malformed)?;
            let length = reader.u8().ok_or_else(malformed)?;
            let value = reader.take(usize::from(length)).ok_or_else(malformed)?;
            self.decode_one(code, value).ok_or_else(malformed)?;
        }
        Ok(())
    }

    fn decode_one(&mut self, code: u8, value: &[u8]) -> Option<()> {
        let mut reader = Reader::new(value);
        match code {
            MULTIPROTOCOL => {
                let afi = reader.u16()?;
                reader.u8()?;
                match Family::of_identifiers(afi, reader.u8()?) {
                    Some(family) if self.families.contains(&family) => {}
                    Some(family) => self.families.push(family),
                    None => self.has_other_families = true,
                }
            }
            ROUTE_REFRESH => self.has_route_refresh = true,
            EXTENDED_NEXT_HOP => {
                while !reader.is_empty() {
                    let (afi, safi, next_hop) = (reader.u16()?, reader.u16()?, reader.u16()?);
                    let is_ours = (afi, safi, next_hop) == (1, u16::from(Family::UNICAST), 2);
                    self.has_extended_next_hop |= is_ours;
                }
            }
            GRACEFUL_RESTART => self.graceful_restart = Some(GracefulRestart::decode(&mut reader)?),
            FOUR_OCTET_AS => self.four_octet_as = Some(reader.u32()?),
            _ => {}
        }
        Some(())
    }

    /// Encodes the capabilities, each after its code and length.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for family in &self.families {
            let [high, low] = family.afi().to_be_bytes();
            bytes.extend_from_slice(&[MULTIPROTOCOL, 4, high, low, 0, Family::UNICAST]);
        }
        if self.has_route_refresh {
            bytes.extend_from_slice(&[ROUTE_REFRESH, 0]);
        }
        if self.has_extended_next_hop {
            bytes.extend_from_slice(&[EXTENDED_NEXT_HOP, 6, 0, 1, 0, Family::UNICAST, 0, 2]);
        }
        if let Some(restart) = &self.graceful_restart {
            let value = restart.encode();
            bytes.extend_from_slice(&[GRACEFUL_RESTART, u8::try_from(value.len()).unwrap_or(0)]);
            bytes.extend_from_slice(&value);
        }
        if let Some(number) = self.four_octet_as {
            bytes.extend_from_slice(&[FOUR_OCTET_AS, 4]);
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes
    }
}

impl GracefulRestart {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let flags = reader.u16()?;
        let mut families = Vec::new();
        while !reader.is_empty() {
            let (afi, safi, flags) = (reader.u16()?, reader.u8()?, reader.u8()?);
            if let Some(family) = Family::of_identifiers(afi, safi) {
                families.push((family, flags & FORWARDING != 0));
            }
        }
        Some(Self {
            is_restarted: flags & RESTARTED != 0,
            has_notifications: flags & NOTIFICATIONS != 0,
            restart_seconds: flags & RESTART_SECONDS,
            families,
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut flags = self.restart_seconds.min(RESTART_SECONDS);
        if self.is_restarted {
            flags |= RESTARTED;
        }
        if self.has_notifications {
            flags |= NOTIFICATIONS;
        }
        let mut bytes = flags.to_be_bytes().to_vec();
        for (family, is_preserved) in &self.families {
            let [high, low] = family.afi().to_be_bytes();
            let flags = if *is_preserved { FORWARDING } else { 0 };
            bytes.extend_from_slice(&[high, low, Family::UNICAST, flags]);
        }
        bytes
    }
}
