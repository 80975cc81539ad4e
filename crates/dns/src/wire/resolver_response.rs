//! Responses of resolvers, as the cache stores them and the server sends them on.
//!
//! A response is parsed once. It must match the question, each record must be complete, and names may point to
//! earlier names only. The result stores the offsets of the TTLs. Parts that concern one exchange only (OPT,
//! transaction signatures) are removed. Sending it on is then a copy with another identifier, flags and TTLs.

use super::name_offsets::NameOffsets;
use super::record::skip_record;
use super::reply::bytes_u16;
use super::{
    CLASS_IN, HEADER_BYTES, Name, Query, ResponseCode, TCP_BYTES_MAX, UDP_BYTES_MIN, flag, kind, read_u16,
    read_u32,
};

/// Seconds for which an error response is cached (RFC 9520: 1 to 300; `servfail` of CoreDNS' cache: 5).
const FAILURE_SECONDS: u32 = 5;
/// Seconds for which a missing response is cached.
const NO_RESPONSE_SECONDS: u32 = 1;
/// Length of an OPT record without options, in bytes.
const OPT_BYTES: usize = 11;
/// Length of type, class, TTL and content length of a record, in bytes.
const FIXED_BYTES: usize = 10;

/// Question for resolvers. Equal questions get the same response.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Name, in the case of the query.
    pub name: Name,
    /// Query type.
    pub kind: u16,
    /// True if the client desires recursion.
    pub recursion_desired: bool,
    /// True if the client validates signatures itself.
    pub checking_disabled: bool,
    /// True if the client accepts signatures.
    pub dnssec_ok: bool,
}

/// Length of the longest [`Question::key`] in bytes.
pub const QUESTION_KEY_BYTES_MAX: usize = 255 + 3;

impl Question {
    /// Returns the question of a query.
    pub fn of(query: &Query) -> Self {
        Self {
            name: query.name,
            kind: query.kind,
            recursion_desired: query.flags & flag::RECURSION_DESIRED != 0,
            checking_disabled: query.flags & flag::CHECKING_DISABLED != 0,
            dnssec_ok: query.edns.is_some_and(|edns| edns.dnssec_ok),
        }
    }

    /// Returns the question for records of a name, with default flags.
    pub fn about(name: Name, kind: u16) -> Self {
        Self {
            name,
            kind,
            recursion_desired: true,
            checking_disabled: false,
            dnssec_ok: false,
        }
    }

    /// Writes the cache key of the question into `buffer`: the name in lower case, the type, and the flags that
    /// affect the response.
    pub fn key<'r>(&self, buffer: &'r mut [u8; QUESTION_KEY_BYTES_MAX]) -> &'r [u8] {
        let lower = self.name.to_lower();
        let wire = lower.as_wire();
        let [high, low] = self.kind.to_be_bytes();
        let flags = u8::from(self.recursion_desired)
            | u8::from(self.checking_disabled) << 1
            | u8::from(self.dnssec_ok) << 2;
        let end = wire.len() + 3;
        if let Some((name, rest)) = buffer.split_at_mut_checked(wire.len()) {
            name.copy_from_slice(wire);
            if let Some(tail) = rest.first_chunk_mut() {
                *tail = [high, low, flags];
            }
        }
        buffer.get(..end).unwrap_or_default()
    }

    /// Encodes the question as a query. `udp_bytes` is the EDNS payload size; `None` omits EDNS.
    pub fn encode(&self, id: u16, udp_bytes: Option<u16>) -> Vec<u8> {
        let bit = |on: bool, flag: u16| if on { flag } else { 0 };
        let flags = bit(self.recursion_desired, flag::RECURSION_DESIRED)
            | bit(self.checking_disabled, flag::CHECKING_DISABLED);
        let mut message = Vec::with_capacity(HEADER_BYTES + self.name.as_wire().len() + 4 + OPT_BYTES);
        for word in [id, flags, 1, 0, 0, u16::from(udp_bytes.is_some())] {
            message.extend(word.to_be_bytes());
        }
        message.extend(self.name.as_wire());
        message.extend(self.kind.to_be_bytes());
        message.extend(CLASS_IN.to_be_bytes());
        if let Some(udp_bytes) = udp_bytes {
            let [high, low] = udp_bytes.to_be_bytes();
            let dnssec_ok = if self.dnssec_ok { 0x80 } else { 0 };
            message.extend([0, 0, 41, high, low, 0, 0, dnssec_ok, 0, 0, 0]);
        }
        message
    }
}

/// Failure to accept a message as the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolverResponseError {
    /// The message is not a response to this question: it is late or forged. The response can still arrive.
    #[error("expected a response to the question of the query, found another question")]
    Mismatch,
    /// The response is malformed.
    #[error("malformed response")]
    Malformed,
}

/// Lifetime of a response in the cache, by its kind (RFC 2308).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// Response with records of the query type.
    Success {
        /// Lifetime in seconds: the smallest TTL.
        seconds: u32,
    },
    /// Negative response with the SOA of the zone.
    Denial {
        /// Lifetime in seconds: the smallest of the TTLs and the SOA's minimum.
        seconds: u32,
    },
    /// Failure, which is not retried at once (RFC 9520).
    Failure {
        /// Lifetime in seconds.
        seconds: u32,
    },
    /// Not cacheable.
    Uncacheable,
}

/// A response of a resolver, prepared for sending on.
#[derive(Debug, PartialEq, Eq)]
pub struct ResolverResponse {
    message: Box<[u8]>,
    /// Offsets of the TTLs.
    ttls: Box<[u16]>,
    /// Offset after the question.
    question_end: u16,
    /// True if the response is truncated.
    pub truncated: bool,
    /// Response code, including the extended bits of OPT.
    pub code: u16,
    /// Lifetime in the cache.
    pub cache_policy: CachePolicy,
}

impl ResolverResponse {
    /// Parses the response to `question`, which was sent with the identifier `id`.
    ///
    /// # Errors
    ///
    /// Returns [`ResolverResponseError`] if the message does not match the question or is malformed.
    pub fn read(message: &[u8], id: u16, question: &Question) -> Result<Self, ResolverResponseError> {
        let question_end = match_question(message, id, question).ok_or(ResolverResponseError::Mismatch)?;
        let message = message
            .get(..message.len().min(TCP_BYTES_MAX))
            .unwrap_or_default();
        let flags = read_u16(message, 2).ok_or(ResolverResponseError::Malformed)?;
        let mut parser = ResponseParser::new(message, question_end, question.kind, flags)
            .ok_or(ResolverResponseError::Malformed)?;
        // A truncated response may end within a record.
        let truncated = flags & flag::TRUNCATED != 0;
        if parser.sections().is_none() && !truncated {
            return Err(ResolverResponseError::Malformed);
        }
        Ok(parser.finish(truncated))
    }

    /// Returns the SERVFAIL response for a question that no resolver answered.
    pub fn no_response(question: &Question) -> Self {
        let mut message = question.encode(0, None);
        let flags = flag::RESPONSE | ResponseCode::ServerFailure as u16;
        if let Some(bytes) = message.get_mut(2..4) {
            bytes.copy_from_slice(&flags.to_be_bytes());
        }
        Self {
            question_end: u16::try_from(message.len()).unwrap_or(u16::MAX),
            message: message.into(),
            ttls: Box::default(),
            truncated: false,
            code: ResponseCode::ServerFailure as u16,
            cache_policy: CachePolicy::Failure {
                seconds: NO_RESPONSE_SECONDS,
            },
        }
    }

    /// Returns true if the question repeats `name` in exactly this case.
    pub fn repeats(&self, name: &Name) -> bool {
        let wire = name.as_wire();
        self.message.get(HEADER_BYTES..HEADER_BYTES + wire.len()) == Some(wire)
    }

    /// Returns the memory of the message in bytes.
    pub fn size_bytes(&self) -> usize {
        self.message.len() + 2 * self.ttls.len()
    }

    /// Returns the message as received, without OPT.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Writes the message as the response to `query` and returns its length. `ttl` maps the received TTLs to the
    /// sent ones. A message longer than `limit` becomes empty and truncated.
    pub fn write(&self, query: &Query, buffer: &mut [u8], limit: usize, ttl: impl Fn(u32) -> u32) -> usize {
        let opt_bytes = if query.edns.is_some() { OPT_BYTES } else { 0 };
        let limit = limit.min(buffer.len()).max(UDP_BYTES_MIN.min(buffer.len()));
        let fits = self.message.len() + opt_bytes <= limit;
        let end = if fits {
            self.message.len()
        } else {
            usize::from(self.question_end)
        };
        let (Some(message), Some(source)) = (buffer.get_mut(..end), self.message.get(..end)) else {
            return 0;
        };
        message.copy_from_slice(source);
        self.write_header(query, message, !fits);
        if fits {
            for at in self.ttls.iter().map(|at| usize::from(*at)) {
                if let (Some(now), Some(bytes)) = (read_u32(source, at), message.get_mut(at..at + 4)) {
                    bytes.copy_from_slice(&ttl(now).to_be_bytes());
                }
            }
        }
        self.write_opt(query, buffer, end, limit)
    }

    /// Writes the parts that depend on the client: identifier, flags, and the case of the name.
    fn write_header(&self, query: &Query, buffer: &mut [u8], is_cut: bool) {
        let repeated_flags = flag::RECURSION_DESIRED | flag::CHECKING_DISABLED;
        // The AD flag is only for clients that signal that they understand it (RFC 6840 section 5.7).
        let accepts_authentic_data =
            query.flags & flag::AUTHENTIC_DATA != 0 || query.edns.is_some_and(|edns| edns.dnssec_ok);
        let stored = read_u16(buffer, 2).unwrap_or(0);
        let forwarded_flags = stored
            & if accepts_authentic_data {
                flag::AUTHENTIC_DATA
            } else {
                0
            };
        let truncated = if is_cut || self.truncated {
            flag::TRUNCATED
        } else {
            0
        };
        let flags = flag::RESPONSE
            | flag::RECURSION_AVAILABLE
            | forwarded_flags
            | truncated
            | query.flags & repeated_flags
            | self.code & 0xF;
        if let Some(start) = buffer.first_chunk_mut() {
            let [a, b] = query.id.to_be_bytes();
            let [c, d] = flags.to_be_bytes();
            *start = [a, b, c, d];
        }
        if is_cut && let Some(counts) = buffer.get_mut(6..HEADER_BYTES) {
            counts.fill(0);
        }
        let name = query.name.as_wire();
        if let Some(bytes) = buffer.get_mut(HEADER_BYTES..HEADER_BYTES + name.len()) {
            bytes.copy_from_slice(name);
        }
    }

    fn write_opt(&self, query: &Query, buffer: &mut [u8], end: usize, limit: usize) -> usize {
        let Some(edns) = query.edns else { return end };
        let [high, low] = edns.udp_bytes.min(bytes_u16(limit)).to_be_bytes();
        let dnssec_ok = if edns.dnssec_ok { 0x80 } else { 0 };
        let Some(record) = buffer.get_mut(end..end + OPT_BYTES) else {
            return end;
        };
        record.copy_from_slice(&[0, 0, 41, high, low, 0, 0, dnssec_ok, 0, 0, 0]);
        let count = read_u16(buffer, 10).unwrap_or(0).saturating_add(1);
        if let Some(bytes) = buffer.get_mut(10..12) {
            bytes.copy_from_slice(&count.to_be_bytes());
        }
        end + OPT_BYTES
    }
}

/// Returns the offset after the question, if the message is a response to `question` with this identifier.
fn match_question(message: &[u8], id: u16, question: &Question) -> Option<usize> {
    let flags = read_u16(message, 2)?;
    let (name, end) = Name::read(message, HEADER_BYTES).ok()?;
    let is_match = read_u16(message, 0)? == id
        && flags & flag::RESPONSE != 0
        && flags & flag::OPCODE == 0
        && read_u16(message, 4)? == 1
        // The question has no compressed name, so the lengths must be equal too.
        && end == HEADER_BYTES + question.name.as_wire().len()
        && name.to_lower() == question.name.to_lower()
        && read_u16(message, end)? == question.kind
        && read_u16(message, end + 2)? == CLASS_IN;
    is_match.then_some(end + 4)
}

/// Parser of a response.
struct ResponseParser<'m> {
    message: &'m [u8],
    question_end: usize,
    kind: u16,
    at: usize,
    names: NameOffsets,
    ttls: Vec<u16>,
    counts: [u16; 3],
    /// Response code of the header, and the higher bits of OPT.
    code: u16,
    ttl_min: u32,
    has_query_type: bool,
    soa_seconds: Option<u32>,
}

impl<'m> ResponseParser<'m> {
    fn new(message: &'m [u8], question_end: usize, kind: u16, flags: u16) -> Option<Self> {
        let mut names = NameOffsets::default();
        names.read(message, HEADER_BYTES)?;
        Some(Self {
            message,
            question_end,
            kind,
            at: question_end,
            names,
            ttls: Vec::new(),
            counts: [0; 3],
            code: flags & 0xF,
            ttl_min: u32::MAX,
            has_query_type: false,
            soa_seconds: None,
        })
    }

    /// Parses all three sections. In the last section, all records after OPT or a signature are removed as well.
    /// Their names can point to offsets that move.
    fn sections(&mut self) -> Option<()> {
        for section in 0..3 {
            let count = read_u16(self.message, 6 + 2 * section)?;
            for _ in 0..count {
                if !self.record(section)? {
                    return Some(());
                }
            }
        }
        Some(())
    }

    /// Parses one record; returns `false` where the message is cut off.
    fn record(&mut self, section: usize) -> Option<bool> {
        let record = skip_record(self.message, self.at)?;
        match record.kind {
            kind::OPT if section == 2 => {
                self.code |= u16::from(record.ttl_seconds.to_be_bytes()[0]) << 4;
                return Some(false);
            }
            kind::TSIG | kind::SIG0 if section == 2 => return Some(false),
            kind::OPT | kind::TSIG => return None,
            _ => {}
        }
        let content = self.names.read(self.message, self.at)? + FIXED_BYTES;
        self.names
            .read_content(self.message, record.kind, content, record.end)?;
        if section < 2 {
            // A TTL with the highest bit set counts as zero (RFC 2181 section 8).
            let seconds = if record.ttl_seconds > i32::MAX as u32 {
                0
            } else {
                record.ttl_seconds
            };
            self.ttl_min = self.ttl_min.min(seconds);
        }
        if section == 0 && (record.kind == self.kind || self.kind == kind::ANY) {
            self.has_query_type = true;
        }
        if section == 1 && record.kind == kind::SOA {
            let minimum = read_u32(self.message, record.end.checked_sub(4)?)?;
            self.soa_seconds = Some(minimum);
        }
        if let Some(count) = self.counts.get_mut(section) {
            *count += 1;
        }
        self.ttls.push(u16::try_from(record.ttl_at).ok()?);
        self.at = record.end;
        Some(true)
    }

    fn finish(self, truncated: bool) -> ResolverResponse {
        let mut message: Box<[u8]> = self.message.get(..self.at).unwrap_or_default().into();
        for (index, count) in self.counts.iter().enumerate() {
            if let Some(bytes) = message.get_mut(6 + 2 * index..8 + 2 * index) {
                bytes.copy_from_slice(&count.to_be_bytes());
            }
        }
        let cache_policy = self.cache_policy(truncated);
        ResolverResponse {
            message,
            ttls: self.ttls.into(),
            // A question is at most 12 + 255 + 4 bytes.
            question_end: u16::try_from(self.question_end).unwrap_or(u16::MAX),
            truncated,
            code: self.code,
            cache_policy,
        }
    }

    fn cache_policy(&self, truncated: bool) -> CachePolicy {
        let is = |code: ResponseCode| self.code == code as u16;
        if truncated {
            return CachePolicy::Uncacheable;
        }
        if is(ResponseCode::ServerFailure) {
            return CachePolicy::Failure {
                seconds: FAILURE_SECONDS,
            };
        }
        if is(ResponseCode::NoError) && self.has_query_type {
            return CachePolicy::Success {
                seconds: self.ttl_min,
            };
        }
        match self.soa_seconds {
            // Without SOA the negative TTL is unknown, so the response is not cached (RFC 2308 section 5).
            Some(minimum) if is(ResponseCode::NoError) || is(ResponseCode::NameError) => {
                CachePolicy::Denial {
                    seconds: self.ttl_min.min(minimum),
                }
            }
            _ => CachePolicy::Uncacheable,
        }
    }
}
