//! Offsets of the names of a message, which compression pointers may target.
//!
//! A stored message is sent again with another header and other TTLs. A name that contained these bytes would change
//! after its check.

use super::{Name, kind};

/// Highest target of a compression pointer (RFC 1035 section 4.1.4).
const POINTER_TARGET_MAX: usize = 0x3FFF;

/// Offsets of the labels of all names read so far, in ascending order.
#[derive(Debug, Default)]
pub(super) struct NameOffsets {
    labels: Vec<u16>,
}

impl NameOffsets {
    /// Reads the name at `at`, which must follow all names read before and may point to labels of those only.
    /// Returns the offset after it.
    pub(super) fn read(&mut self, message: &[u8], at: usize) -> Option<usize> {
        let (_, end) = Name::read(message, at).ok()?;
        let earlier = self.labels.len();
        let mut label = at;
        loop {
            let length = *message.get(label)?;
            if length >= 0xC0 {
                let target = u16::from_be_bytes([length & 0x3F, *message.get(label + 1)?]);
                self.labels.get(..earlier)?.binary_search(&target).ok()?;
            }
            if label <= POINTER_TARGET_MAX {
                self.labels.push(u16::try_from(label).ok()?);
            }
            if length == 0 || length >= 0xC0 {
                return Some(end);
            }
            label += 1 + usize::from(length);
        }
    }

    /// Reads the names in the content of a record, from `start` to `end`. Content of a type without names is
    /// skipped and cannot be a target of pointers.
    pub(super) fn read_content(&mut self, message: &[u8], kind: u16, start: usize, end: usize) -> Option<()> {
        let Some((before, names)) = names_in(kind) else {
            return Some(());
        };
        let mut at = start + before;
        if kind == kind::NAPTR {
            for _ in 0..NAPTR_STRINGS {
                at += 1 + usize::from(*message.get(at)?);
            }
        }
        for _ in 0..names {
            at = self.read(message, at)?;
        }
        (at <= end).then_some(())
    }
}

/// Character strings before the name of a NAPTR record (RFC 3403 section 4.1).
const NAPTR_STRINGS: usize = 3;

/// Returns the number of bytes before the names in a record's content, and the number of names. RFC 1035 section 3.3,
/// RFC 3597 section 4, and the RFC of each type define them.
fn names_in(kind: u16) -> Option<(usize, usize)> {
    Some(match kind {
        kind::NS | kind::CNAME | kind::PTR | kind::DNAME | kind::NSEC => (0, 1),
        kind::SOA | kind::MINFO | kind::RP => (0, 2),
        kind::MX | kind::AFSDB | kind::RT | kind::KX | kind::SVCB | kind::HTTPS => (2, 1),
        kind::PX => (2, 2),
        kind::NAPTR => (4, 1),
        kind::SRV => (6, 1),
        kind::SIG0 | kind::RRSIG => (18, 1),
        _ => return None,
    })
}
