//! Reading queries.

use super::{HEADER_OCTETS, Name, ResponseCode, UDP_OCTETS_MIN, flag, kind, read_u16, read_u32};

/// Records that a query may carry besides its question: an OPT and perhaps a signature. More is no query
/// that any resolver sends.
const EXTRA_RECORDS_MAX: usize = 4;

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
    pub udp_octets: u16,
    /// Version of EDNS.
    pub version: u8,
    /// DO flag, which responses repeat.
    pub dnssec_ok: bool,
}

impl Query {
    /// Returns the limit of a UDP response in octets, at most `octets_max`.
    pub fn udp_limit(&self, octets_max: usize) -> usize {
        let accepted_octets = self
            .edns
            .map_or(UDP_OCTETS_MIN, |edns| usize::from(edns.udp_octets));
        accepted_octets.clamp(UDP_OCTETS_MIN, octets_max)
    }
}

/// A message that is not processed as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// No response: the message is too short to have an identifier, or is itself a response, in which case two
    /// servers would answer each other for ever.
    Silently,
    /// The response is a header with this code.
    With {
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
/// Returns [`Reject`] with the response to a message that is no valid query.
pub fn parse_query(message: &[u8]) -> Result<Query, Reject> {
    let (Some(id), Some(flags)) = (read_u16(message, 0), read_u16(message, 2)) else {
        return Err(Reject::Silently);
    };
    if message.len() < HEADER_OCTETS || flags & flag::RESPONSE != 0 {
        return Err(Reject::Silently);
    }
    if flags & flag::OPCODE != 0 {
        return Err(Reject::With {
            id,
            flags,
            code: ResponseCode::NotImplemented,
        });
    }
    parse_body(message, id, flags).ok_or(Reject::With {
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
    let (name, end) = Name::read(message, HEADER_OCTETS).ok()?;
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
        let [_, version, high_flags, _] = ttl.to_be_bytes();
        query.edns = Some(Edns {
            udp_octets: class,
            version,
            dnssec_ok: high_flags & 0x80 != 0,
        });
    }
    Some(end)
}
