//! SPDY/3.1, as far as streams to containers need it.

mod connection;
mod dictionary;
mod frame;
mod header_block;

use std::collections::BTreeMap;

pub use connection::{Connection, Event, Role, STREAMS_MAX};
pub use frame::{DATA_BYTES_MAX, FRAME_BYTES_MAX};
pub use header_block::HEADER_BYTES_MAX;

#[cfg(test)]
mod tests;

/// Headers of a stream. Names are in lower case.
pub type Headers = BTreeMap<String, String>;

/// Violation of the protocol. The connection cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A control frame of another version.
    #[error("expected SPDY version 3, found version {0}")]
    Version(u16),
    /// A frame is longer than the limit.
    #[error("expected a frame of at most {FRAME_BYTES_MAX} bytes, found {0}")]
    FrameTooLarge(usize),
    /// A control frame is shorter than its fields.
    #[error("a control frame of type {0} is truncated")]
    Truncated(u16),
    /// A header block cannot be decompressed.
    #[error("a header block cannot be decompressed")]
    Compression,
    /// A header block is larger than the limit after decompression.
    #[error("a header block exceeds {HEADER_BYTES_MAX} bytes after decompression")]
    HeadersTooLarge,
    /// A header block has invalid lengths or text.
    #[error("a header block is invalid")]
    Headers,
    /// A stream has an ID that the peer must not use.
    #[error("stream ID {0} is not a new ID of the peer")]
    StreamId(u32),
}
