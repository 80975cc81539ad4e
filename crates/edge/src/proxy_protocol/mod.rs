//! PROXY protocol, versions 1 and 2 (haproxy's `proxy-protocol.txt`), by which a proxy names the client of a
//! connection. Pure: reads headers from bytes and writes them to bytes.

mod version1;
mod version2;

use std::net::SocketAddr;

pub use version1::write as write_version1;
pub use version2::write as write_version2;

/// Longest accepted header, with addresses and all extensions. Known senders stay far below, and version 1 has at
/// most 107 bytes.
pub const HEADER_BYTES_MAX: usize = 4_096;

/// Content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The connection is for a client.
    For(Addresses),
    /// The connection is the sender's own (`LOCAL`), or its client is unknown (`UNKNOWN`, or no internet protocol).
    Own,
}

/// Both ends of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Address of the client.
    pub source: SocketAddr,
    /// Address that it connected to.
    pub destination: SocketAddr,
}

/// Result of reading the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseResult {
    /// The bytes may become a header.
    Incomplete,
    /// The bytes begin with a header.
    Complete {
        /// Content of the header.
        header: Header,
        /// Length of the header; the bytes after it are the client's.
        bytes: usize,
    },
}

/// Reason why bytes are not a header, and cannot become one. The connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedHeader {
    /// The bytes begin like neither version.
    #[error("expected a PROXY header, found other bytes")]
    NoSignature,
    /// Line that version 1 does not permit.
    #[error("PROXY version 1: {0}")]
    Version1(&'static str),
    /// Block that version 2 does not permit.
    #[error("PROXY version 2: {0}")]
    Version2(&'static str),
}

/// Reads a header of either version from the first bytes of a connection.
///
/// # Errors
/// See [`MalformedHeader`].
pub fn read(bytes: &[u8]) -> Result<ParseResult, MalformedHeader> {
    if begins(bytes, version2::SIGNATURE) {
        version2::read(bytes)
    } else if begins(bytes, version1::SIGNATURE) {
        version1::read(bytes)
    } else {
        Err(MalformedHeader::NoSignature)
    }
}

/// Returns true if the bytes are a beginning of the signature, or begin with it.
fn begins(bytes: &[u8], signature: &[u8]) -> bool {
    bytes
        .iter()
        .zip(signature)
        .all(|(byte, expected)| byte == expected)
}

#[cfg(test)]
mod tests;
