//! Reading the answers of upstream resolvers.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{CLASS_IN, HEADER_OCTETS, Name, flag, kind, read_u16, read_u32};

/// An answer from upstream, checked to be one for the question.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    message: &'a [u8],
    /// Offset of the answer section.
    records: usize,
    count: u16,
    /// Whether more is to be had over TCP.
    pub truncated: bool,
    /// The response code's four bits of the header.
    pub code: u8,
}

/// Reads an answer, if it has this identifier and repeats exactly this question.
pub fn read_answer<'a>(message: &'a [u8], id: u16, name: &Name, kind: u16) -> Option<Answer<'a>> {
    let flags = read_u16(message, 2)?;
    let (asked, behind) = Name::read(message, HEADER_OCTETS).ok()?;
    let ours = read_u16(message, 0)? == id
        && flags & flag::RESPONSE != 0
        && read_u16(message, 4)? == 1
        && asked.to_lower() == name.to_lower()
        && read_u16(message, behind)? == kind
        && read_u16(message, behind + 2)? == CLASS_IN;
    ours.then_some(Answer {
        message,
        records: behind + 4,
        count: read_u16(message, 6)?,
        truncated: flags & flag::TRUNCATED != 0,
        code: flags.to_be_bytes()[1] & 0xF,
    })
}

impl<'a> Answer<'a> {
    /// The records of the answer section; those of other types than A, AAAA and CNAME are left out, and
    /// the rest of the section from a malformed one on.
    pub fn records(&self) -> Records<'a> {
        Records {
            message: self.message,
            at: self.records,
            left: self.count,
        }
    }
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

/// Iterator over the records of an answer; see [`Answer::records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: u16,
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
            kind::A => RecordValue::A(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?)),
            kind::AAAA => RecordValue::Aaaa(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?)),
            kind::CNAME => RecordValue::Cname(Box::new(Name::read(self.message, at + 10).ok()?.0)),
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
