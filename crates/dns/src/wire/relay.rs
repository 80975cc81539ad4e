//! Answers of upstream resolvers as they are kept and given out again.
//!
//! An answer is read through once: it must belong to the question, every record must be whole, names may point
//! to earlier names only, and the places of the TTLs are noted. What concerned only the one exchange (OPT, signatures of transactions) is
//! cut off. Giving it out again is then a copy with the identifier, the flags and the TTLs put in.

use super::name_places::NamePlaces;
use super::record::skip_record;
use super::reply::octets_u16;
use super::{
    CLASS_IN, HEADER_OCTETS, Name, Query, ResponseCode, TCP_OCTETS_MAX, UDP_OCTETS_MIN, flag, kind, read_u16,
    read_u32,
};

/// Seconds for which a resolver's failure is kept (RFC 9520: 1 to 300; `servfail` of CoreDNS' cache: 5).
const FAILURE_SECONDS: u32 = 5;
/// Seconds for which it is kept that no resolver answered.
const SILENCE_SECONDS: u32 = 1;
/// Octets of an OPT record without options.
const OPT_OCTETS: usize = 11;
/// Octets of a record between its owner and its content: type, class, TTL and length.
const FIXED_OCTETS: usize = 10;

/// What is asked upstream. Clients that ask the same get the same answer.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The name, spelled as it was asked.
    pub name: Name,
    /// The type.
    pub kind: u16,
    /// Whether recursion is desired.
    pub recursion_desired: bool,
    /// Whether the client checks signatures itself.
    pub checking_disabled: bool,
    /// Whether signatures are wanted.
    pub dnssec_ok: bool,
}

/// Octets of the longest [`Question::key`].
pub const QUESTION_KEY_OCTETS_MAX: usize = 255 + 3;

impl Question {
    /// What a query asks.
    pub fn of(query: &Query) -> Self {
        Self {
            name: query.name,
            kind: query.kind,
            recursion_desired: query.flags & flag::RECURSION_DESIRED != 0,
            checking_disabled: query.flags & flag::CHECKING_DISABLED != 0,
            dnssec_ok: query.edns.is_some_and(|edns| edns.dnssec_ok),
        }
    }

    /// The plain question for records of a name.
    pub fn about(name: Name, kind: u16) -> Self {
        Self {
            name,
            kind,
            recursion_desired: true,
            checking_disabled: false,
            dnssec_ok: false,
        }
    }

    /// Octets that are equal for equal questions, written into `room`: the name in lower case, the type, and
    /// the flags that change the answer.
    pub fn key<'r>(&self, room: &'r mut [u8; QUESTION_KEY_OCTETS_MAX]) -> &'r [u8] {
        let lower = self.name.to_lower();
        let wire = lower.as_wire();
        let [high, low] = self.kind.to_be_bytes();
        let flags = u8::from(self.recursion_desired)
            | u8::from(self.checking_disabled) << 1
            | u8::from(self.dnssec_ok) << 2;
        let end = wire.len() + 3;
        if let Some((name, rest)) = room.split_at_mut_checked(wire.len()) {
            name.copy_from_slice(wire);
            if let Some(tail) = rest.first_chunk_mut() {
                *tail = [high, low, flags];
            }
        }
        room.get(..end).unwrap_or_default()
    }

    /// Writes the question as a message that says it takes `udp_octets`, or without EDNS for none.
    pub fn encode(&self, id: u16, udp_octets: Option<u16>) -> Vec<u8> {
        let bit = |on: bool, flag: u16| if on { flag } else { 0 };
        let flags = bit(self.recursion_desired, flag::RECURSION_DESIRED)
            | bit(self.checking_disabled, flag::CHECKING_DISABLED);
        let mut message = Vec::with_capacity(HEADER_OCTETS + self.name.as_wire().len() + 4 + OPT_OCTETS);
        for word in [id, flags, 1, 0, 0, u16::from(udp_octets.is_some())] {
            message.extend(word.to_be_bytes());
        }
        message.extend(self.name.as_wire());
        message.extend(self.kind.to_be_bytes());
        message.extend(CLASS_IN.to_be_bytes());
        if let Some(octets) = udp_octets {
            let [high, low] = octets.to_be_bytes();
            let dnssec_ok = if self.dnssec_ok { 0x80 } else { 0 };
            message.extend([0, 0, 41, high, low, 0, 0, dnssec_ok, 0, 0, 0]);
        }
        message
    }
}

/// Why a message is not taken as the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// It is no answer, or one to another question: late or forged. The right one may still come.
    #[error("it belongs to another question")]
    Foreign,
    /// It is for this question, but cannot be read to its end.
    #[error("it is malformed")]
    Malformed,
}

/// How long an answer may be kept, and as what (RFC 2308).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It has what was asked for.
    Success {
        /// Seconds; the smallest TTL.
        seconds: u32,
    },
    /// It says that there is no such name or record, with the zone's SOA.
    Denial {
        /// Seconds; the smallest of the TTLs and of the SOA's minimum.
        seconds: u32,
    },
    /// Nobody could answer, which is not tried again at once (RFC 9520).
    Failure {
        /// Seconds.
        seconds: u32,
    },
    /// It must not be kept.
    No,
}

/// An answer from upstream, ready to be given out.
#[derive(Debug, PartialEq, Eq)]
pub struct Relayed {
    message: Box<[u8]>,
    /// Offsets of the TTLs.
    ttls: Box<[u16]>,
    /// Offset behind the question.
    question_end: u16,
    /// Whether more is to be had over TCP.
    pub truncated: bool,
    /// The response code, with the part that OPT has.
    pub code: u16,
    /// How long it may be kept.
    pub keep: Keep,
}

impl Relayed {
    /// Reads the answer to `question`, which was asked with this identifier.
    pub fn read(message: &[u8], id: u16, question: &Question) -> Result<Self, RelayError> {
        let question_end = belongs(message, id, question).ok_or(RelayError::Foreign)?;
        let message = message
            .get(..message.len().min(TCP_OCTETS_MAX))
            .unwrap_or_default();
        let flags = read_u16(message, 2).ok_or(RelayError::Malformed)?;
        let mut reading =
            Reading::new(message, question_end, question.kind, flags).ok_or(RelayError::Malformed)?;
        // Of a cut answer the rest may be missing in the middle of a record.
        let truncated = flags & flag::TRUNCATED != 0;
        if reading.sections().is_none() && !truncated {
            return Err(RelayError::Malformed);
        }
        Ok(reading.finish(truncated))
    }

    /// What is given out when no resolver answered.
    pub fn silence(question: &Question) -> Self {
        let mut message = question.encode(0, None);
        let flags = flag::RESPONSE | ResponseCode::ServerFailure as u16;
        if let Some(place) = message.get_mut(2..4) {
            place.copy_from_slice(&flags.to_be_bytes());
        }
        Self {
            question_end: u16::try_from(message.len()).unwrap_or(u16::MAX),
            message: message.into(),
            ttls: Box::default(),
            truncated: false,
            code: ResponseCode::ServerFailure as u16,
            keep: Keep::Failure {
                seconds: SILENCE_SECONDS,
            },
        }
    }

    /// Whether its question has the name in this very spelling.
    pub fn repeats(&self, name: &Name) -> bool {
        let wire = name.as_wire();
        self.message.get(HEADER_OCTETS..HEADER_OCTETS + wire.len()) == Some(wire)
    }

    /// Octets that it holds.
    pub fn octets(&self) -> usize {
        self.message.len() + 2 * self.ttls.len()
    }

    /// The message without OPT, as it came.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Writes it as the answer to `query` with TTLs as `ttl` makes them of the ones it came with; returns its
    /// length. One that is longer than `limit` is left empty and marked as truncated.
    pub fn write(&self, query: &Query, buffer: &mut [u8], limit: usize, ttl: impl Fn(u32) -> u32) -> usize {
        let kept = if query.edns.is_some() { OPT_OCTETS } else { 0 };
        let limit = limit.min(buffer.len()).max(UDP_OCTETS_MIN.min(buffer.len()));
        let fits = self.message.len() + kept <= limit;
        let end = if fits {
            self.message.len()
        } else {
            usize::from(self.question_end)
        };
        let (Some(room), Some(source)) = (buffer.get_mut(..end), self.message.get(..end)) else {
            return 0;
        };
        room.copy_from_slice(source);
        self.write_header(query, room, !fits);
        if fits {
            for at in self.ttls.iter().map(|at| usize::from(*at)) {
                if let (Some(now), Some(place)) = (read_u32(source, at), room.get_mut(at..at + 4)) {
                    place.copy_from_slice(&ttl(now).to_be_bytes());
                }
            }
        }
        self.write_opt(query, buffer, end, limit)
    }

    /// Puts in what is the client's own: identifier, flags, and the spelling of the name.
    fn write_header(&self, query: &Query, room: &mut [u8], cut: bool) {
        let repeated = flag::RECURSION_DESIRED | flag::CHECKING_DISABLED;
        // Validation upstream is of use to those only who said that they know what it means (RFC 6840 5.7).
        let wants_ad =
            query.flags & flag::AUTHENTIC_DATA != 0 || query.edns.is_some_and(|edns| edns.dnssec_ok);
        let stored = read_u16(room, 2).unwrap_or(0);
        let passed = stored & if wants_ad { flag::AUTHENTIC_DATA } else { 0 };
        let truncated = if cut || self.truncated { flag::TRUNCATED } else { 0 };
        let flags = flag::RESPONSE
            | flag::RECURSION_AVAILABLE
            | passed
            | truncated
            | query.flags & repeated
            | self.code & 0xF;
        if let Some(start) = room.first_chunk_mut() {
            let [a, b] = query.id.to_be_bytes();
            let [c, d] = flags.to_be_bytes();
            *start = [a, b, c, d];
        }
        if cut && let Some(counts) = room.get_mut(6..HEADER_OCTETS) {
            counts.fill(0);
        }
        let name = query.name.as_wire();
        if let Some(place) = room.get_mut(HEADER_OCTETS..HEADER_OCTETS + name.len()) {
            place.copy_from_slice(name);
        }
    }

    fn write_opt(&self, query: &Query, buffer: &mut [u8], end: usize, limit: usize) -> usize {
        let Some(edns) = query.edns else { return end };
        let [high, low] = edns.udp_octets.min(octets_u16(limit)).to_be_bytes();
        let dnssec_ok = if edns.dnssec_ok { 0x80 } else { 0 };
        let Some(room) = buffer.get_mut(end..end + OPT_OCTETS) else {
            return end;
        };
        room.copy_from_slice(&[0, 0, 41, high, low, 0, 0, dnssec_ok, 0, 0, 0]);
        let count = read_u16(buffer, 10).unwrap_or(0).saturating_add(1);
        if let Some(place) = buffer.get_mut(10..12) {
            place.copy_from_slice(&count.to_be_bytes());
        }
        end + OPT_OCTETS
    }
}

/// Whether a message is an answer to the question asked with this identifier; the offset behind the question.
fn belongs(message: &[u8], id: u16, question: &Question) -> Option<usize> {
    let flags = read_u16(message, 2)?;
    let (asked, behind) = Name::read(message, HEADER_OCTETS).ok()?;
    let ours = read_u16(message, 0)? == id
        && flags & flag::RESPONSE != 0
        && flags & flag::OPCODE == 0
        && read_u16(message, 4)? == 1
        // A question has no compressed name, so the length must be the same too.
        && behind == HEADER_OCTETS + question.name.as_wire().len()
        && asked.to_lower() == question.name.to_lower()
        && read_u16(message, behind)? == question.kind
        && read_u16(message, behind + 2)? == CLASS_IN;
    ours.then_some(behind + 4)
}

/// An answer being read through.
struct Reading<'m> {
    message: &'m [u8],
    question_end: usize,
    kind: u16,
    at: usize,
    names: NamePlaces,
    ttls: Vec<u16>,
    counts: [u16; 3],
    /// The header's code, and the higher bits of OPT.
    code: u16,
    ttl_min: u32,
    has_wanted: bool,
    soa_seconds: Option<u32>,
}

impl<'m> Reading<'m> {
    fn new(message: &'m [u8], question_end: usize, kind: u16, flags: u16) -> Option<Self> {
        let mut names = NamePlaces::default();
        names.read(message, HEADER_OCTETS)?;
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
            has_wanted: false,
            soa_seconds: None,
        })
    }

    /// Reads all three sections. What follows OPT or a signature in the last one is cut off with it: names
    /// behind might point to places that move.
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

    /// Reads one record; `false` where the message is cut off.
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
        let content = self.names.read(self.message, self.at)? + FIXED_OCTETS;
        self.names
            .read_content(self.message, record.kind, content, record.end)?;
        if section < 2 {
            // A TTL with its highest bit set counts as zero (RFC 2181 section 8).
            let seconds = if record.ttl_seconds > i32::MAX as u32 {
                0
            } else {
                record.ttl_seconds
            };
            self.ttl_min = self.ttl_min.min(seconds);
        }
        if section == 0 && (record.kind == self.kind || self.kind == kind::ANY) {
            self.has_wanted = true;
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

    fn finish(self, truncated: bool) -> Relayed {
        let mut message: Box<[u8]> = self.message.get(..self.at).unwrap_or_default().into();
        for (index, count) in self.counts.iter().enumerate() {
            if let Some(place) = message.get_mut(6 + 2 * index..8 + 2 * index) {
                place.copy_from_slice(&count.to_be_bytes());
            }
        }
        let keep = self.keep(truncated);
        Relayed {
            message,
            ttls: self.ttls.into(),
            // A question is at most 12 + 255 + 4 octets.
            question_end: u16::try_from(self.question_end).unwrap_or(u16::MAX),
            truncated,
            code: self.code,
            keep,
        }
    }

    fn keep(&self, truncated: bool) -> Keep {
        let is = |code: ResponseCode| self.code == code as u16;
        if truncated {
            return Keep::No;
        }
        if is(ResponseCode::ServerFailure) {
            return Keep::Failure {
                seconds: FAILURE_SECONDS,
            };
        }
        if is(ResponseCode::NoError) && self.has_wanted {
            return Keep::Success {
                seconds: self.ttl_min,
            };
        }
        match self.soa_seconds {
            // Without SOA nobody says for how long, so it is not kept (RFC 2308 section 5).
            Some(minimum) if is(ResponseCode::NoError) || is(ResponseCode::NameError) => Keep::Denial {
                seconds: self.ttl_min.min(minimum),
            },
            _ => Keep::No,
        }
    }
}
