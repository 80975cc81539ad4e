//! OPEN: the first message of a session (RFC 4271, section 4.2).

use std::net::Ipv4Addr;

use super::capability::Capabilities;
use super::notification::Notification;
use super::reader::Reader;
use crate::AutonomousSystem;

/// Version of the protocol.
const VERSION: u8 = 4;
/// AS number that stands for one with four octets (RFC 6793).
pub const AS_TRANS: u16 = 23_456;
/// Type of the optional parameter with capabilities.
const CAPABILITIES: u8 = 2;
/// Parameter type and length that announce parameters with lengths of two octets (RFC 9072).
const EXTENDED_LENGTH: u8 = 255;

/// First message of a speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Number of the autonomous system, from the capability if there is one.
    pub autonomous_system: AutonomousSystem,
    /// Hold time in seconds: 0, or at least 3.
    pub hold_seconds: u16,
    /// BGP identifier, unique in the autonomous system and not zero.
    pub identifier: Ipv4Addr,
    /// Capabilities.
    pub capabilities: Capabilities,
}

impl Open {
    /// Decodes the body of an OPEN.
    pub(super) fn decode(body: &[u8]) -> Result<Self, Notification> {
        let malformed = || Notification::new(Notification::OPEN, 0);
        let mut reader = Reader::new(body);
        if reader.u8() != Some(VERSION) {
            let supported = u16::from(VERSION).to_be_bytes();
            return Err(Notification::with_data(Notification::OPEN, 1, &supported));
        }
        let two_octet_as = reader.u16().ok_or_else(malformed)?;
        let hold_seconds = reader.u16().ok_or_else(malformed)?;
        let identifier = Ipv4Addr::from(reader.u32().ok_or_else(malformed)?);
        if matches!(hold_seconds, 1 | 2) {
            return Err(Notification::new(Notification::OPEN, 6));
        }
        if identifier.is_unspecified() {
            return Err(Notification::new(Notification::OPEN, 3));
        }
        let capabilities = parameters(&mut reader)?;
        let autonomous_system = capabilities.four_octet_as.unwrap_or(u32::from(two_octet_as));
        if autonomous_system == 0 {
            return Err(Notification::new(Notification::OPEN, 2));
        }
        Ok(Self {
            autonomous_system,
            hold_seconds,
            identifier,
            capabilities,
        })
    }

    /// Encodes the message without its header.
    pub(super) fn encode(&self) -> Vec<u8> {
        let two_octet_as = u16::try_from(self.autonomous_system).unwrap_or(AS_TRANS);
        let mut body = vec![VERSION];
        body.extend_from_slice(&two_octet_as.to_be_bytes());
        body.extend_from_slice(&self.hold_seconds.to_be_bytes());
        body.extend_from_slice(&self.identifier.octets());
        let capabilities = self.capabilities.encode();
        // Two families and the other capabilities have fewer than 100 bytes.
        let length = u8::try_from(capabilities.len()).unwrap_or(0);
        if length == 0 {
            body.push(0);
        } else {
            body.extend_from_slice(&[length.saturating_add(2), CAPABILITIES, length]);
            body.extend_from_slice(&capabilities);
        }
        body
    }
}

/// Reads the optional parameters. Parameters other than capabilities are not supported.
fn parameters(reader: &mut Reader<'_>) -> Result<Capabilities, Notification> {
    let malformed = || Notification::new(Notification::OPEN, 0);
    let mut capabilities = Capabilities::default();
    let length = reader.u8().ok_or_else(malformed)?;
    let is_extended = length != 0 && reader.rest().first() == Some(&EXTENDED_LENGTH);
    let length = if is_extended {
        reader.u8().ok_or_else(malformed)?;
        usize::from(reader.u16().ok_or_else(malformed)?)
    } else {
        usize::from(length)
    };
    if reader.rest().len() != length {
        return Err(malformed());
    }
    while !reader.is_empty() {
        let kind = reader.u8().ok_or_else(malformed)?;
        let length = if is_extended {
            usize::from(reader.u16().ok_or_else(malformed)?)
        } else {
            usize::from(reader.u8().ok_or_else(malformed)?)
        };
        let value = reader.take(length).ok_or_else(malformed)?;
        if kind != CAPABILITIES {
            return Err(Notification::new(Notification::OPEN, 4));
        }
        capabilities.decode(value)?;
    }
    Ok(capabilities)
}
