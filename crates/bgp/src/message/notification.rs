//! NOTIFICATION: the error that ends a session (RFC 4271, section 4.5), and its text (RFC 9003).

use std::fmt;

use super::reader::Reader;

/// Maximum length of a shutdown text in bytes (RFC 9003, section 2).
pub const SHUTDOWN_TEXT_BYTES_MAX: usize = 255;
/// Maximum number of bytes of data that are kept and sent.
const DATA_BYTES_MAX: usize = 512;

/// Error that ends a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Error code.
    pub code: u8,
    /// Error subcode.
    pub subcode: u8,
    /// Data about the error.
    pub data: Vec<u8>,
}

impl Notification {
    /// Code of errors in headers.
    pub const HEADER: u8 = 1;
    /// Code of errors in OPENs.
    pub const OPEN: u8 = 2;
    /// Code of errors in UPDATEs.
    pub const UPDATE: u8 = 3;
    /// Code of an expired hold timer.
    pub const HOLD_TIMER: u8 = 4;
    /// Code of a message that the state does not permit.
    pub const STATE: u8 = 5;
    /// Code of an end without an error of the peer.
    pub const CEASE: u8 = 6;
    /// Subcode of CEASE: administrative shutdown.
    pub const SHUTDOWN: u8 = 2;
    /// Subcode of CEASE: the peer is not configured any more.
    pub const DECONFIGURED: u8 = 3;
    /// Subcode of CEASE: administrative reset, because settings have changed.
    pub const RESET: u8 = 4;
    /// Subcode of CEASE: another connection to the same peer won.
    pub const COLLISION: u8 = 7;
    /// Subcode of CEASE: the peer has to drop the routes in spite of graceful restart (RFC 8538).
    pub const HARD_RESET: u8 = 9;

    /// Creates a NOTIFICATION without data.
    pub fn new(code: u8, subcode: u8) -> Self {
        Self::with_data(code, subcode, &[])
    }

    /// Creates a NOTIFICATION with data, cut to a bound.
    pub fn with_data(code: u8, subcode: u8, data: &[u8]) -> Self {
        let data = data[..data.len().min(DATA_BYTES_MAX)].to_vec();
        Self { code, subcode, data }
    }

    /// Creates a CEASE with a shutdown text, cut at a character (RFC 9003).
    pub fn cease(subcode: u8, text: &str) -> Self {
        let mut end = text.len().min(SHUTDOWN_TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut data = vec![u8::try_from(end).unwrap_or(0)];
        data.extend_from_slice(&text.as_bytes()[..end]);
        Self::with_data(Self::CEASE, subcode, &data)
    }

    /// Wraps the NOTIFICATION into a hard reset, which makes the peer drop the routes (RFC 8538, section 3).
    pub fn into_hard_reset(self) -> Self {
        let mut data = vec![self.code, self.subcode];
        data.extend_from_slice(&self.data);
        Self::with_data(Self::CEASE, Self::HARD_RESET, &data)
    }

    /// Returns the shutdown text of a CEASE; `None` without a valid one.
    pub fn text(&self) -> Option<&str> {
        let has_text = self.code == Self::CEASE && matches!(self.subcode, Self::SHUTDOWN | Self::RESET);
        let (length, text) = self.data.split_first().filter(|_| has_text)?;
        let text = text.get(..usize::from(*length))?;
        std::str::from_utf8(text).ok().filter(|text| !text.is_empty())
    }

    /// Decodes the body of a NOTIFICATION, whose length the header has established.
    pub(super) fn decode(body: &[u8]) -> Self {
        let mut reader = Reader::new(body);
        let (code, subcode) = (reader.u8().unwrap_or(0), reader.u8().unwrap_or(0));
        Self::with_data(code, subcode, reader.rest())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = vec![self.code, self.subcode];
        body.extend_from_slice(&self.data[..self.data.len().min(DATA_BYTES_MAX)]);
        body
    }

    fn name(&self) -> &'static str {
        match (self.code, self.subcode) {
            (Self::HEADER, 1) => "connection not synchronized",
            (Self::HEADER, 2) => "bad message length",
            (Self::HEADER, 3) => "bad message type",
            (Self::OPEN, 1) => "unsupported version",
            (Self::OPEN, 2) => "bad peer AS",
            (Self::OPEN, 3) => "bad BGP identifier",
            (Self::OPEN, 4) => "unsupported optional parameter",
            (Self::OPEN, 6) => "unacceptable hold time",
            (Self::OPEN, 7) => "unsupported capability",
            (Self::UPDATE, 1) => "malformed attribute list",
            (Self::UPDATE, 2) => "unrecognized well-known attribute",
            (Self::UPDATE, 9) => "optional attribute error",
            (Self::UPDATE, 10) => "invalid network field",
            (Self::HOLD_TIMER, _) => "hold timer expired",
            (Self::STATE, _) => "message not expected in this state",
            (Self::CEASE, 1) => "maximum number of prefixes reached",
            (Self::CEASE, Self::SHUTDOWN) => "administrative shutdown",
            (Self::CEASE, Self::DECONFIGURED) => "peer deconfigured",
            (Self::CEASE, Self::RESET) => "administrative reset",
            (Self::CEASE, 5) => "connection rejected",
            (Self::CEASE, 6) => "configuration changed",
            (Self::CEASE, Self::COLLISION) => "connection collision",
            (Self::CEASE, Self::HARD_RESET) => "hard reset",
            (Self::CEASE, 10) => "BFD down",
            _ => "error",
        }
    }
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}/{})", self.name(), self.code, self.subcode)?;
        match self.text() {
            Some(text) => write!(f, ": {text:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Notification {}
