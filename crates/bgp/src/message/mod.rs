//! Messages on the wire (RFC 4271, section 4).
//!
//! Each message is at most [`MESSAGE_BYTES_MAX`] long, so buffers have that bound. A message that ends a session becomes a
//! [`Notification`] with the code that the RFC names.

pub mod attributes;
pub mod capability;
pub mod encode;
pub mod notification;
pub mod open;
mod prefix;
mod reader;
pub mod update;

pub use attributes::{Attributes, Origin, Segment};
pub use notification::Notification;
pub use open::Open;
pub use update::{ErrorHandling, Update};

use crate::{AutonomousSystem, Family};
use reader::Reader;

#[cfg(test)]
mod tests;

/// Length of a header.
pub const HEADER_BYTES: usize = 19;
/// Maximum length of a message (RFC 4271, section 4.1). Extended messages (RFC 8654) are not negotiated.
pub const MESSAGE_BYTES_MAX: usize = 4_096;
const MARKER: [u8; 16] = [0xff; 16];

const OPEN: u8 = 1;
const UPDATE: u8 = 2;
const NOTIFICATION: u8 = 3;
const KEEPALIVE: u8 = 4;
const ROUTE_REFRESH: u8 = 5;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// First message of both speakers.
    Open(Open),
    /// Routes.
    Update(Update),
    /// Error or end of the session.
    Notification(Notification),
    /// Sign of life.
    Keepalive,
    /// Request for all routes of a family again (RFC 2918); `None` for a family that this speaker does not support.
    RouteRefresh(Option<Family>),
}

/// Results of the negotiation that the meaning of messages depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// True if AS numbers in AS_PATH have four octets (RFC 6793).
    pub has_four_octet_as: bool,
    /// True if the peer is in the same autonomous system.
    pub is_internal: bool,
    /// Number of this speaker's autonomous system.
    pub local_as: AutonomousSystem,
}

/// Returns the length of the message at the start of `bytes`; `None` if more bytes are needed to know it.
///
/// # Errors
/// A NOTIFICATION for a wrong marker, length or type.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, Notification> {
    let marker = &bytes[..bytes.len().min(MARKER.len())];
    if marker.iter().any(|byte| *byte != 0xff) {
        return Err(Notification::new(Notification::HEADER, 1));
    }
    let Some(header) = bytes.get(MARKER.len()..HEADER_BYTES) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([header[0], header[1]]));
    let kind = header[2];
    let (shortest, longest) = match kind {
        OPEN => (29, MESSAGE_BYTES_MAX),
        UPDATE => (23, MESSAGE_BYTES_MAX),
        NOTIFICATION => (21, MESSAGE_BYTES_MAX),
        KEEPALIVE => (HEADER_BYTES, HEADER_BYTES),
        ROUTE_REFRESH => (23, 23),
        _ => return Err(Notification::with_data(Notification::HEADER, 3, &[kind])),
    };
    if !(shortest..=longest).contains(&length) {
        return Err(Notification::with_data(Notification::HEADER, 2, &header[..2]));
    }
    Ok(Some(length))
}

impl Message {
    /// Decodes one message, whose length [`frame_length`] has returned.
    ///
    /// # Errors
    /// A NOTIFICATION for a message that ends the session.
    pub fn decode(bytes: &[u8], context: &Context) -> Result<Self, Notification> {
        let length = frame_length(bytes)?.filter(|length| *length == bytes.len());
        if length.is_none() {
            return Err(Notification::new(Notification::HEADER, 2));
        }
        let body = &bytes[HEADER_BYTES..];
        match bytes[HEADER_BYTES - 1] {
            OPEN => Open::decode(body).map(Self::Open),
            UPDATE => Update::decode(body, context).map(Self::Update),
            NOTIFICATION => Ok(Self::Notification(Notification::decode(body))),
            KEEPALIVE => Ok(Self::Keepalive),
            _ => Ok(Self::RouteRefresh(route_refresh(body))),
        }
    }
}

fn route_refresh(body: &[u8]) -> Option<Family> {
    let mut reader = Reader::new(body);
    let afi = reader.u16()?;
    let subtype = reader.u8()?;
    let safi = reader.u8()?;
    // Other subtypes belong to the enhanced refresh of RFC 7313, which is not negotiated.
    Family::of_identifiers(afi, safi).filter(|_| subtype == 0)
}
