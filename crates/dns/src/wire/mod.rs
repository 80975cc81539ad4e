//! DNS wire format (RFC 1035, EDNS of RFC 6891): parsing of queries and records, writing of responses.
//!
//! Parsing queries and writing responses does not allocate. No input panics.

mod name;
mod name_offsets;
mod query;
mod record;
mod reply;
mod resolver_response;

pub use name::{Name, NameError};
pub use query::{Edns, Query, Reject, parse_query};
pub use record::{Record, RecordValue, Records};
pub use reply::{NameRef, Reply, ResponseFull, Section, reject};
pub use resolver_response::{
    CachePolicy, QUESTION_KEY_BYTES_MAX, Question, ResolverResponse, ResolverResponseError,
};

/// Length of a message header in bytes (RFC 1035 section 4.1.1).
pub const HEADER_BYTES: usize = 12;
/// Limit of a UDP response in bytes for a client without EDNS (RFC 1035 section 4.2.1).
pub const UDP_BYTES_MIN: usize = 512;
/// Longest message over TCP in bytes: the range of the length prefix.
pub const TCP_BYTES_MAX: usize = 65_535;

/// Record and query types with their numbers in the IANA registry.
pub mod kind {
    /// IPv4 address.
    pub const A: u16 = 1;
    /// Name server of a zone.
    pub const NS: u16 = 2;
    /// Canonical name.
    pub const CNAME: u16 = 5;
    /// Start of authority.
    pub const SOA: u16 = 6;
    /// Name of an address.
    pub const PTR: u16 = 12;
    /// Mailbox or list of a mailbox.
    pub const MINFO: u16 = 14;
    /// Mail exchange.
    pub const MX: u16 = 15;
    /// Text strings.
    pub const TXT: u16 = 16;
    /// Responsible person (RFC 1183).
    pub const RP: u16 = 17;
    /// AFS database (RFC 1183).
    pub const AFSDB: u16 = 18;
    /// Route through (RFC 1183).
    pub const RT: u16 = 21;
    /// X.400 mail mapping (RFC 2163).
    pub const PX: u16 = 26;
    /// IPv6 address.
    pub const AAAA: u16 = 28;
    /// Location of a service (RFC 2782).
    pub const SRV: u16 = 33;
    /// Naming authority pointer (RFC 3403).
    pub const NAPTR: u16 = 35;
    /// Key exchanger (RFC 2230).
    pub const KX: u16 = 36;
    /// Name of a whole subtree (RFC 6672).
    pub const DNAME: u16 = 39;
    /// EDNS pseudo record (RFC 6891).
    pub const OPT: u16 = 41;
    /// Signature of records (RFC 4034).
    pub const RRSIG: u16 = 46;
    /// Next name of a signed zone (RFC 4034).
    pub const NSEC: u16 = 47;
    /// Binding of a service (RFC 9460).
    pub const SVCB: u16 = 64;
    /// Binding of a service for HTTPS (RFC 9460).
    pub const HTTPS: u16 = 65;
    /// Signature of a transaction by public key (RFC 2931).
    pub const SIG0: u16 = 24;
    /// Signature of a transaction by a shared secret (RFC 8945).
    pub const TSIG: u16 = 250;
    /// Incremental zone transfer.
    pub const IXFR: u16 = 251;
    /// Zone transfer.
    pub const AXFR: u16 = 252;
    /// All records of a name.
    pub const ANY: u16 = 255;
}

/// Class of the Internet, the only one that the server supports.
pub const CLASS_IN: u16 = 1;

/// Response code (RFC 1035 section 4.1.1, RFC 6891 for `BadVersion`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ResponseCode {
    /// Success, possibly without records.
    NoError = 0,
    /// The query is malformed.
    FormatError = 1,
    /// The server cannot answer.
    ServerFailure = 2,
    /// The name does not exist.
    NameError = 3,
    /// The server does not support this kind of query.
    NotImplemented = 4,
    /// A policy refuses the query.
    Refused = 5,
    /// The EDNS version is not supported.
    BadVersion = 16,
}

/// Bits of the header's second word.
pub(crate) mod flag {
    pub(crate) const RESPONSE: u16 = 0x8000;
    pub(crate) const OPCODE: u16 = 0x7800;
    pub(crate) const AUTHORITATIVE: u16 = 0x0400;
    pub(crate) const TRUNCATED: u16 = 0x0200;
    pub(crate) const RECURSION_DESIRED: u16 = 0x0100;
    pub(crate) const RECURSION_AVAILABLE: u16 = 0x0080;
    pub(crate) const AUTHENTIC_DATA: u16 = 0x0020;
    pub(crate) const CHECKING_DISABLED: u16 = 0x0010;
}

/// Returns the 16-bit number at `offset`, if the message is long enough.
pub(crate) fn read_u16(message: &[u8], offset: usize) -> Option<u16> {
    let bytes = message.get(offset..offset.checked_add(2)?)?;
    Some(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]))
}

/// Returns the 32-bit number at `offset`, if the message is long enough.
pub(crate) fn read_u32(message: &[u8], offset: usize) -> Option<u32> {
    let high = read_u16(message, offset)?;
    let low = read_u16(message, offset.checked_add(2)?)?;
    Some(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests;
