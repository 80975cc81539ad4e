//! Reading queries.

use super::{HEADER_OCTETS, Name, ResponseCode, UDP_OCTETS_MIN, flag, kind, read_u16, read_u32};

/// Records that a query may carry besides its question: an OPT and perhaps a signature. More is no query
/// that any resolver sends.
const EXTRA_RECORDS_MAX: usize = 4;

/// A query as it was asked.
#[derive(Clone, Debug)]
pub struct Query {
    /// Identifier that the answer must repeat.
    pub id: u16,
    /// The header's second word.
    pub flags: u16,
    /// The name, spelled as it was asked.
    pub name: Name,
    /// Type asked for; see [`kind`].
    pub kind: u16,
    /// Class asked for.
    pub class: u16,
    /// What the OPT record says, if there is one.
    pub edns: Option<Edns>,
}

/// What an OPT record says (RFC 6891 section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// Octets that the client can take over UDP.
    pub udp_octets: u16,
    /// Version of EDNS.
    pub version: u8,
    /// Whether signatures are wanted, which is only repeated.
    pub dnssec_ok: bool,
}

impl Query {
    /// Octets that an answer over UDP may have, at most `octets_max`.
    pub fn udp_limit(&self, octets_max: usize) -> usize {
        let asked = self
            .edns
            .map_or(UDP_OCTETS_MIN, |edns| usize::from(edns.udp_octets));
        asked.clamp(UDP_OCTETS_MIN, octets_max)
    }
}

/// A message that is not answered as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Not even an error is due: too short to have an identifier, or itself an answer (two servers
    /// would answer each other for ever).
    Silently,
    /// A header with this code is the answer.
    With {
        /// Identifier of the message.
        id: u16,
        /// The header's second word.
        flags: u16,
        /// Why.
        code: ResponseCode,
    },
}

/// Reads a query. Exactly one question is accepted, as everywhere.
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
    let (name, behind) = Name::read(message, HEADER_OCTETS).ok()?;
    let mut query = Query {
        id,
        flags,
        name,
        kind: read_u16(message, behind)?,
        class: read_u16(message, behind + 2)?,
        edns: None,
    };
    let mut at = behind + 4;
    for _ in 0..records {
        at = parse_extra(message, at, &mut query)?;
    }
    Some(query)
}

/// Reads the record at `at`; only OPT is of interest, and only one is allowed (RFC 6891 section 6.1.1).
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
