//! Parser of DNS queries, and rejection of other messages.

use super::{HEADER_BYTES, Name, ResponseCode, UDP_BYTES_MIN, flag, kind, read_u16, read_u32};

/// Maximum number of records that a query may contain besides its question: an OPT record and a signature. Resolvers do
/// not send queries with more records.
const EXTRA_RECORDS_MAX: usize = 4;

/// Codes of EDNS options with a fixed form.
mod option {
    /// RFC 7871.
    pub(super) const CLIENT_SUBNET: u16 = 8;
    /// RFC 7314.
    pub(super) const EXPIRE: u16 = 9;
    /// RFC 7828.
    pub(super) const TCP_KEEPALIVE: u16 = 11;
    /// RFC 8914.
    pub(super) const EXTENDED_ERROR: u16 = 15;
}

/// A parsed query.
#[derive(Clone, Debug)]
pub struct Query {
    /// Identifier, which the response repeats.
    pub id: u16,
    /// The header's second word.
    pub flags: u16,
    /// Query name, in the case of the client.
    pub name: Name,
    /// Query type; see [`kind`].
    pub kind: u16,
    /// Query class.
    pub class: u16,
    /// Contents of the OPT record, if there is one.
    pub edns: Option<Edns>,
}

/// Contents of an OPT record (RFC 6891 section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// EDNS payload size of the client.
    pub udp_bytes: u16,
    /// Version of EDNS.
    pub version: u8,
    /// DO flag, which responses repeat.
    pub dnssec_ok: bool,
}

impl Query {
    /// Returns the limit of a UDP response in bytes, at most `bytes_max`.
    pub fn udp_limit(&self, bytes_max: usize) -> usize {
        let accepted_bytes = self
            .edns
            .map_or(UDP_BYTES_MIN, |edns| usize::from(edns.udp_bytes));
        accepted_bytes.clamp(UDP_BYTES_MIN, bytes_max)
    }
}

/// A message that is not processed as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// No response. The message is too short to have an identifier, or is itself a response. An answer to a response
    /// could make two servers answer each other without end.
    WithoutResponse,
    /// The response is a header with this code.
    WithResponse {
        /// Identifier of the message.
        id: u16,
        /// The header's second word.
        flags: u16,
        /// Response code.
        code: ResponseCode,
    },
}

/// Parses a query with exactly one question.
///
/// # Errors
///
/// Returns [`Reject`] with the response to a message that is not a valid query.
pub fn parse_query(message: &[u8]) -> Result<Query, Reject> {
    let (Some(id), Some(flags)) = (read_u16(message, 0), read_u16(message, 2)) else {
        return Err(Reject::WithoutResponse);
    };
    if message.len() < HEADER_BYTES || flags & flag::RESPONSE != 0 {
        return Err(Reject::WithoutResponse);
    }
    if flags & flag::OPCODE != 0 {
        return Err(Reject::WithResponse {
            id,
            flags,
            code: ResponseCode::NotImplemented,
        });
    }
    parse_body(message, id, flags).ok_or(Reject::WithResponse {
        id,
        flags,
        code: ResponseCode::FormatError,
    })
}

fn parse_body(message: &[u8], id: u16, flags: u16) -> Option<Query> {
    let records = [6, 8, 10]
        .into_iter()
        .try_fold(0, |sum, at| Some(sum + usize::from(read_u16(message, at)?)))?;
    if read_u16(message, 4)? != 1 || records > EXTRA_RECORDS_MAX {
        return None;
    }
    let (name, end) = Name::read(message, HEADER_BYTES).ok()?;
    let mut query = Query {
        id,
        flags,
        name,
        kind: read_u16(message, end)?,
        class: read_u16(message, end + 2)?,
        edns: None,
    };
    let mut at = end + 4;
    for _ in 0..records {
        at = parse_extra(message, at, &mut query)?;
    }
    Some(query)
}

/// Parses the record at `at`. Only OPT matters, and only one is allowed (RFC 6891 section 6.1.1).
fn parse_extra(message: &[u8], at: usize, query: &mut Query) -> Option<usize> {
    let (owner, at) = Name::read(message, at).ok()?;
    let (kind, class) = (read_u16(message, at)?, read_u16(message, at + 2)?);
    let ttl = read_u32(message, at + 4)?;
    let end = at + 10 + usize::from(read_u16(message, at + 8)?);
    if end > message.len() {
        return None;
    }
    if kind == kind::OPT {
        if query.edns.is_some() || owner != Name::ROOT {
            return None;
        }
        if !are_options_valid(message.get(at + 10..end)?) {
            return None;
        }
        let [_, version, high_flags, _] = ttl.to_be_bytes();
        query.edns = Some(Edns {
            udp_bytes: class,
            version,
            dnssec_ok: high_flags & 0x80 != 0,
        });
    }
    Some(end)
}

/// Returns true if the options of an OPT record have the lengths of their RFCs, as CoreDNS requires.
fn are_options_valid(mut options: &[u8]) -> bool {
    while !options.is_empty() {
        let (Some(code), Some(length)) = (read_u16(options, 0), read_u16(options, 2)) else {
            return false;
        };
        let Some(data) = options.get(4..4 + usize::from(length)) else {
            return false;
        };
        if !is_option_valid(code, data) {
            return false;
        }
        options = options.get(4 + data.len()..).unwrap_or_default();
    }
    true
}

fn is_option_valid(code: u16, data: &[u8]) -> bool {
    match code {
        option::CLIENT_SUBNET => is_client_subnet_valid(data),
        option::EXPIRE => matches!(data.len(), 0 | 4),
        option::TCP_KEEPALIVE => matches!(data.len(), 0 | 2),
        option::EXTENDED_ERROR => data.len() >= 2,
        _ => true,
    }
}

/// Checks family and prefix lengths (RFC 7871, section 6).
fn is_client_subnet_valid(data: &[u8]) -> bool {
    let [high, low, source, scope, ..] = data else {
        return false;
    };
    let prefix_bits_max = match u16::from_be_bytes([*high, *low]) {
        0 => 0,
        1 => 32,
        2 => 128,
        _ => return false,
    };
    *source <= prefix_bits_max && *scope <= prefix_bits_max
}
