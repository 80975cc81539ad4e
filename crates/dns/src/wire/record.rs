//! Reading the records of answers.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{CLASS_IN, HEADER_OCTETS, Name, read_u16, read_u32};

/// A record without its content: where its parts are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Skipped {
    pub(super) kind: u16,
    pub(super) ttl_at: usize,
    pub(super) ttl_seconds: u32,
    /// Offset behind the record.
    pub(super) end: usize,
}

/// Reads the record at `at`, all of which must be there.
pub(super) fn skip_record(message: &[u8], at: usize) -> Option<Skipped> {
    let (_, at) = Name::read(message, at).ok()?;
    let end = at + 10 + usize::from(read_u16(message, at + 8)?);
    (end <= message.len()).then_some(Skipped {
        kind: read_u16(message, at)?,
        ttl_at: at + 4,
        ttl_seconds: read_u32(message, at + 4)?,
        end,
    })
}

/// One record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose record it is.
    pub owner: Name,
    /// Seconds for which it may be kept.
    pub ttl_seconds: u32,
    /// What it says.
    pub value: RecordValue,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordValue {
    /// IPv4 address.
    A(Ipv4Addr),
    /// IPv6 address.
    Aaaa(Ipv6Addr),
    /// Canonical name.
    Cname(Box<Name>),
}

/// Iterator over the records of a message's answer section; those of other types than A, AAAA and CNAME are
/// left out, and the rest of the section from a malformed one on.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: u16,
}

impl<'a> Records<'a> {
    /// The records of the answer section of a message with one question; none if it is malformed.
    pub fn of(message: &'a [u8]) -> Self {
        let at = Name::read(message, HEADER_OCTETS).map_or(message.len(), |(_, behind)| behind + 4);
        let left = read_u16(message, 6).unwrap_or(0);
        Self { message, at, left }
    }
}

impl Records<'_> {
    /// Reads one record; `Some(None)` for one that is of no interest.
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
