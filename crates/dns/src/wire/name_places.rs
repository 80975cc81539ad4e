//! Where the names of a message are, and so where others may point to.
//!
//! A message whose header and TTLs change on its way must not have names that run through them: what was
//! one name when it was checked would be another one, or none, when it is given out.

use super::{Name, kind};

/// The highest offset that a compression pointer can name (RFC 1035 section 4.1.4).
const POINTER_TARGET_MAX: usize = 0x3FFF;

/// Offsets at which labels begin, of all names read so far, from the lowest on.
#[derive(Debug, Default)]
pub(super) struct NamePlaces {
    labels: Vec<u16>,
}

impl NamePlaces {
    /// Reads the name at `at`, which must be behind all names read before, and may point to a label of one of them
    /// only. Returns the offset behind it.
    pub(super) fn read(&mut self, message: &[u8], at: usize) -> Option<usize> {
        let (_, behind) = Name::read(message, at).ok()?;
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
                return Some(behind);
            }
            label += 1 + usize::from(length);
        }
    }

    /// Reads the names in the content of a record of this type, from `start` to `end`. Content of a type without names
    /// is not looked at, and cannot be pointed to.
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

/// Character strings in front of the name of a NAPTR record (RFC 3403 section 4.1).
const NAPTR_STRINGS: usize = 3;

/// How many octets of a record's content are in front of its names, and how many names there are (RFC 1035 section 3.3,
/// RFC 3597 section 4, and each type's own).
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
