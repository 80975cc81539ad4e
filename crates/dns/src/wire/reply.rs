//! Writing of responses into a fixed buffer, with name compression and truncation.

use std::net::IpAddr;

use super::{CLASS_IN, HEADER_BYTES, Name, Query, Reject, ResponseCode, flag, kind};

/// Offset of the query name in every response.
const QUESTION_AT: u16 = 12;
/// Length of the OPT record of a response, in bytes.
const OPT_BYTES: usize = 11;
/// Highest target of a compression pointer, which has 14 bits.
const POINTER_MAX: usize = 0x3FFF;

/// The record does not fit; the response is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFull;

/// Section of a response. Sections are written in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Answer section.
    Answer,
    /// Authority section.
    Authority,
    /// Additional section.
    Additional,
}

/// Encoding of a name.
#[derive(Clone, Copy, Debug)]
pub enum NameRef<'a> {
    /// Pointer to a name that was written at this offset.
    At(u16),
    /// Labels without the root label, followed by a pointer to a name that was written at this offset.
    Below(&'a [u8], u16),
    /// Complete name in wire form with the root label.
    Whole(&'a [u8]),
}

impl NameRef<'_> {
    /// The query name.
    pub const QUESTION: NameRef<'static> = NameRef::At(QUESTION_AT);

    /// Returns a pointer to the suffix of the query name that begins at `offset` of its wire form.
    pub fn in_question(offset: usize) -> NameRef<'static> {
        NameRef::At(question_offset(offset))
    }

    /// Returns labels followed by the suffix of the query name that begins at `offset` of its wire form.
    pub fn below_question(labels: &[u8], offset: usize) -> NameRef<'_> {
        NameRef::Below(labels, question_offset(offset))
    }
}

/// A response that is being written.
#[derive(Debug)]
pub struct Reply<'a> {
    buffer: &'a mut [u8],
    length: usize,
    /// Limit of the response in bytes, without those reserved for OPT.
    limit: usize,
    /// EDNS payload size of the OPT record.
    advertised: u16,
    counts: [u16; 3],
    flags: u16,
    query: &'a Query,
    question_end: usize,
}

/// State of a reply for [`Reply::rollback`].
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    length: usize,
    counts: [u16; 3],
}

impl<'a> Reply<'a> {
    /// Begins a response of at most `bytes_max` bytes. It repeats the question in the case of the query.
    pub fn new(query: &'a Query, buffer: &'a mut [u8], bytes_max: usize) -> Self {
        let kept = if query.edns.is_some() { OPT_BYTES } else { 0 };
        let limit = bytes_max.min(buffer.len()).saturating_sub(kept);
        let repeated = flag::RECURSION_DESIRED | flag::CHECKING_DISABLED;
        let flags = flag::RESPONSE | query.flags & repeated;
        let mut reply = Self {
            buffer,
            length: HEADER_BYTES,
            limit,
            advertised: query
                .edns
                .map_or(0, |edns| edns.udp_bytes.min(bytes_u16(bytes_max))),
            counts: [0; 3],
            flags,
            query,
            question_end: HEADER_BYTES,
        };
        // The question always fits: the smallest buffer has 512 bytes.
        if reply.put_question().is_err() {
            reply.length = HEADER_BYTES;
        }
        reply.question_end = reply.length;
        reply
    }

    /// Returns the query.
    pub fn query(&self) -> &'a Query {
        self.query
    }

    /// Sets the AA flag.
    pub fn set_authoritative(&mut self) {
        self.flags |= flag::AUTHORITATIVE;
    }

    /// Sets the RA flag.
    pub fn set_recursion_available(&mut self) {
        self.flags |= flag::RECURSION_AVAILABLE;
    }

    /// Sets the TC flag.
    pub fn set_truncated(&mut self) {
        self.flags |= flag::TRUNCATED;
    }

    /// Returns true if the answer section is empty.
    pub fn is_empty(&self) -> bool {
        self.counts[0] == 0
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        self.length = self.question_end;
        self.counts = [0; 3];
    }

    /// Returns the current state for [`Reply::rollback`].
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            length: self.length,
            counts: self.counts,
        }
    }

    /// Removes all records written since `savepoint`.
    pub fn rollback(&mut self, savepoint: Savepoint) {
        self.length = savepoint.length;
        self.counts = savepoint.counts;
    }

    /// Adds an A or AAAA record, by the family of the address.
    ///
    /// # Errors
    ///
    /// Returns [`ResponseFull`] if the record does not fit.
    pub fn address(
        &mut self,
        section: Section,
        owner: NameRef<'_>,
        ttl: u32,
        address: IpAddr,
    ) -> Result<(), ResponseFull> {
        match address {
            IpAddr::V4(v4) => self.record(section, owner, kind::A, ttl, |record| record.put(&v4.octets())),
            IpAddr::V6(v6) => self.record(section, owner, kind::AAAA, ttl, |record| record.put(&v6.octets())),
        }
    }

    /// Adds a CNAME, NS or PTR record and returns the offset of its target.
    ///
    /// # Errors
    ///
    /// Returns [`ResponseFull`] if the record does not fit.
    pub fn target(
        &mut self,
        section: Section,
        owner: NameRef<'_>,
        kind: u16,
        ttl: u32,
        target: NameRef<'_>,
    ) -> Result<u16, ResponseFull> {
        let mut at = 0;
        self.record(section, owner, kind, ttl, |record| {
            at = record.length;
            record.put_name(target)
        })?;
        if at > POINTER_MAX {
            return Err(ResponseFull);
        }
        u16::try_from(at).map_err(|_| ResponseFull)
    }

    /// Adds an SRV record of priority 0. Its target is not compressed (RFC 2782). Returns the offset of the target, or
    /// `None` if a compression pointer cannot reach it.
    ///
    /// # Errors
    ///
    /// Returns [`ResponseFull`] if the record does not fit.
    pub fn srv(
        &mut self,
        owner: NameRef<'_>,
        ttl: u32,
        weight: u16,
        port: u16,
        target: &Name,
    ) -> Result<Option<u16>, ResponseFull> {
        let mut at = 0;
        self.record(Section::Answer, owner, kind::SRV, ttl, |record| {
            record.put(&[0, 0])?;
            record.put(&weight.to_be_bytes())?;
            record.put(&port.to_be_bytes())?;
            at = record.length;
            record.put(target.as_wire())
        })?;
        Ok(u16::try_from(at)
            .ok()
            .filter(|at| usize::from(*at) <= POINTER_MAX))
    }

    /// Adds a TXT record with the first 255 bytes of `text`.
    ///
    /// # Errors
    ///
    /// Returns [`ResponseFull`] if the record does not fit.
    pub fn text(&mut self, owner: NameRef<'_>, ttl: u32, text: &str) -> Result<(), ResponseFull> {
        let text = text.as_bytes();
        let text = text.get(..text.len().min(255)).unwrap_or_default();
        self.record(Section::Answer, owner, kind::TXT, ttl, |record| {
            record.put(&[u8::try_from(text.len()).map_err(|_| ResponseFull)?])?;
            record.put(text)
        })
    }

    /// Adds the SOA record of the zone at `zone_offset` of the query name, with the values of CoreDNS' `kubernetes`
    /// plugin (DNS-18).
    ///
    /// # Errors
    ///
    /// Returns [`ResponseFull`] if the record does not fit.
    pub fn soa(
        &mut self,
        section: Section,
        zone_offset: usize,
        ttl: u32,
        serial: u32,
    ) -> Result<(), ResponseFull> {
        const REFRESH_SECONDS: u32 = 7_200;
        const RETRY_SECONDS: u32 = 1_800;
        const EXPIRE_SECONDS: u32 = 86_400;
        const TTL_SECONDS_MAX: u32 = 300;
        let zone = NameRef::in_question(zone_offset);
        self.record(section, zone, kind::SOA, ttl.min(TTL_SECONDS_MAX), |record| {
            record.put_name(NameRef::below_question(b"\x02ns\x03dns", zone_offset))?;
            record.put_name(NameRef::below_question(b"\x0ahostmaster", zone_offset))?;
            for number in [serial, REFRESH_SECONDS, RETRY_SECONDS, EXPIRE_SECONDS, ttl] {
                record.put(&number.to_be_bytes())?;
            }
            Ok(())
        })
    }

    /// Writes the header and the OPT record, and returns the length of the message.
    pub fn finish(mut self, code: ResponseCode) -> usize {
        if let Some(edns) = self.query.edns {
            self.limit += OPT_BYTES;
            let [high, low] = self.advertised.to_be_bytes();
            let [_, extended] = ((code as u16) >> 4).to_be_bytes();
            let dnssec_ok = if edns.dnssec_ok { 0x80 } else { 0 };
            if self
                .put(&[0, 0, 41, high, low, extended, 0, dnssec_ok, 0, 0, 0])
                .is_ok()
            {
                self.counts[2] += 1;
            }
        }
        let [answer, authority, additional] = self.counts;
        let questions = u16::from(self.length > HEADER_BYTES);
        let flags = self.flags | code as u16 & 0xF;
        let words = [self.query.id, flags, questions, answer, authority, additional];
        write_header(self.buffer, words);
        self.length
    }

    /// Writes one record, or nothing if it does not fit.
    fn record(
        &mut self,
        section: Section,
        owner: NameRef<'_>,
        kind: u16,
        ttl: u32,
        data: impl FnOnce(&mut Self) -> Result<(), ResponseFull>,
    ) -> Result<(), ResponseFull> {
        let savepoint = self.savepoint();
        let written = self.record_header(owner, kind, ttl).and_then(|at| {
            data(self)?;
            let length = u16::try_from(self.length - at - 2).map_err(|_| ResponseFull)?;
            let room = self.buffer.get_mut(at..at + 2).ok_or(ResponseFull)?;
            room.copy_from_slice(&length.to_be_bytes());
            Ok(())
        });
        match written {
            Ok(()) => {
                let [answer, authority, additional] = &mut self.counts;
                let count = match section {
                    Section::Answer => answer,
                    Section::Authority => authority,
                    Section::Additional => additional,
                };
                *count += 1;
                Ok(())
            }
            Err(full) => {
                self.rollback(savepoint);
                Err(full)
            }
        }
    }

    /// Writes a record up to its data, and returns the offset of the data's length.
    fn record_header(&mut self, owner: NameRef<'_>, kind: u16, ttl: u32) -> Result<usize, ResponseFull> {
        self.put_name(owner)?;
        let mut fixed = [0; 10];
        fixed[..2].copy_from_slice(&kind.to_be_bytes());
        fixed[2..4].copy_from_slice(&CLASS_IN.to_be_bytes());
        fixed[4..8].copy_from_slice(&ttl.to_be_bytes());
        self.put(&fixed)?;
        Ok(self.length - 2)
    }

    fn put_question(&mut self) -> Result<(), ResponseFull> {
        let query = self.query;
        self.put(query.name.as_wire())?;
        self.put(&query.kind.to_be_bytes())?;
        self.put(&query.class.to_be_bytes())
    }

    fn put_name(&mut self, name: NameRef<'_>) -> Result<(), ResponseFull> {
        let pointer = |at: u16| (0xC000 | at).to_be_bytes();
        match name {
            NameRef::At(at) => self.put(&pointer(at)),
            NameRef::Below(labels, at) => {
                self.put(labels)?;
                self.put(&pointer(at))
            }
            NameRef::Whole(wire) => self.put(wire),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), ResponseFull> {
        let end = self.length + bytes.len();
        if end > self.limit {
            return Err(ResponseFull);
        }
        self.buffer
            .get_mut(self.length..end)
            .ok_or(ResponseFull)?
            .copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }
}

/// Writes the response to a message that is not a valid query, and returns its length; 0 for no response.
pub fn reject(reject: Reject, buffer: &mut [u8]) -> usize {
    let Reject::WithResponse { id, flags, code } = reject else {
        return 0;
    };
    let repeated = flag::OPCODE | flag::RECURSION_DESIRED;
    let flags = flag::RESPONSE | flags & repeated | code as u16 & 0xF;
    write_header(buffer, [id, flags, 0, 0, 0, 0]);
    HEADER_BYTES.min(buffer.len())
}

fn write_header(buffer: &mut [u8], words: [u16; 6]) {
    for (room, word) in buffer.chunks_exact_mut(2).zip(words) {
        room.copy_from_slice(&word.to_be_bytes());
    }
}

/// Converts a number of bytes to the field of the OPT record.
pub(super) fn bytes_u16(octets: usize) -> u16 {
    u16::try_from(octets).unwrap_or(u16::MAX)
}

/// Converts an offset in the query name to an offset in the message; a name has at most 255 bytes.
fn question_offset(offset: usize) -> u16 {
    QUESTION_AT + u16::from(u8::try_from(offset).unwrap_or(u8::MAX))
}
