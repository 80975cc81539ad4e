//! Parser of the records of a DNS message.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{CLASS_IN, HEADER_BYTES, Name, read_u16, read_u32};

/// Offsets of the parts of a record, without its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordOffsets {
    pub(super) kind: u16,
    pub(super) ttl_at: usize,
    pub(super) ttl_seconds: u32,
    /// Offset after the record.
    pub(super) end: usize,
}

/// Reads the offsets of the record at `at`, which must be complete.
pub(super) fn skip_record(message: &[u8], at: usize) -> Option<RecordOffsets> {
    let (_, at) = Name::read(message, at).ok()?;
    let end = at + 10 + usize::from(read_u16(message, at + 8)?);
    (end <= message.len()).then_some(RecordOffsets {
        kind: read_u16(message, at)?,
        ttl_at: at + 4,
        ttl_seconds: read_u32(message, at + 4)?,
        end,
    })
}

/// A record of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Owner name.
    pub owner: Name,
    /// TTL in seconds.
    pub ttl_seconds: u32,
    /// Typed value (RDATA).
    pub value: RecordValue,
}

/// Value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordValue {
    /// IPv4 address.
    A(Ipv4Addr),
    /// IPv6 address.
    Aaaa(Ipv6Addr),
    /// Canonical name.
    Cname(Box<Name>),
}

/// Iterator over the A, AAAA and CNAME records of a message's answer section. It skips other types and ends at a
/// malformed record.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: u16,
}

impl<'a> Records<'a> {
    /// Returns the records of the answer section of a message with one question; none if the message is malformed.
    pub fn of(message: &'a [u8]) -> Self {
        let at = Name::read(message, HEADER_BYTES).map_or(message.len(), |(_, behind)| behind + 4);
        let left = read_u16(message, 6).unwrap_or(0);
        Self { message, at, left }
    }
}

impl Records<'_> {
    /// Reads one record; `Some(None)` stands for a record of another type.
    fn read(&mut self) -> Option<Option<Record>> {
        let (owner, at) = Name::read(self.message, self.at).ok()?;
        let (kind, class) = (read_u16(self.message, at)?, read_u16(self.message, at + 2)?);
        let ttl_seconds = read_u32(self.message, at + 4)?;
        let length = usize::from(read_u16(self.message, at + 8)?);
        let data = self.message.get(at + 10..at + 10 + length)?;
        self.at = at + 10 + length;
        if class != CLASS_IN {
            return Some(None);
        }
        let value = match kind {
            super::kind::A => RecordValue::A(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?)),
            super::kind::AAAA => RecordValue::Aaaa(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?)),
            super::kind::CNAME => RecordValue::Cname(Box::new(Name::read(self.message, at + 10).ok()?.0)),
            _ => return Some(None),
        };
        Some(Some(Record {
            owner,
            ttl_seconds,
            value,
        }))
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        while self.left > 0 {
            self.left -= 1;
            if let Some(record) = self.read()? {
                return Some(record);
            }
        }
        None
    }
}
