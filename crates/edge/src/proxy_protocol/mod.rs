//! The PROXY protocol, versions 1 and 2 (haproxy's `proxy-protocol.txt`): who a client is, told by who passed its
//! connection on. Pure: bytes in, a header out, and the other way round.

mod version1;
mod version2;

use std::net::SocketAddr;

pub use version1::write as write_version1;
pub use version2::write as write_version2;

/// The longest header that is taken, addresses and all extensions together. Known senders stay far below; version 1 has
/// 107 bytes at most.
pub const HEADER_BYTES_MAX: usize = 4_096;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The connection is made for this client.
    For(Addresses),
    /// The connection is the sender's own (`LOCAL`), or it does not know whose (`UNKNOWN`, or no internet protocol).
    Own,
}

/// The two ends of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// Where it connected to.
    pub destination: SocketAddr,
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So far they may become a header.
    Incomplete,
    /// A header.
    Complete {
        /// What it says.
        header: Header,
        /// How many bytes it takes; what follows is the client's.
        bytes: usize,
    },
}

/// Why bytes are no header, and never become one. The connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They begin like neither version.
    #[error("a PROXY header was expected, and something else came")]
    NoSignature,
    /// A line that is not as version 1 has it.
    #[error("PROXY version 1: {0}")]
    Version1(&'static str),
    /// A block that is not as version 2 has it.
    #[error("PROXY version 2: {0}")]
    Version2(&'static str),
}

/// Reads a header from the first bytes of a connection, of either version.
pub fn read(bytes: &[u8]) -> Result<Read, Malformed> {
    if begins(bytes, version2::SIGNATURE) {
        version2::read(bytes)
    } else if begins(bytes, version1::SIGNATURE) {
        version1::read(bytes)
    } else {
        Err(Malformed::NoSignature)
    }
}

/// Whether the bytes that there are, are those of the signature.
fn begins(bytes: &[u8], signature: &[u8]) -> bool {
    bytes
        .iter()
        .zip(signature)
        .all(|(byte, expected)| byte == expected)
}

#[cfg(test)]
mod tests;
