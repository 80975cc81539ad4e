//! Parts of questions that nobody else can foretell: identifiers (RFC 5452 section 9.2) and the case of letters
//! (draft-vixie-dnsext-dns0x20).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::wire::Name;

/// A source of random numbers: keyed hashes of a counter. The key is the operating system's randomness and
/// never leaves the process.
#[derive(Debug, Default)]
pub(super) struct Identifiers {
    key: RandomState,
    counter: AtomicU64,
}

impl Identifiers {
    /// The next identifier.
    pub(super) fn next(&self) -> u16 {
        let [.., high, low] = self.number().to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    /// The name with each of its letters in a case chosen at random.
    pub(super) fn spell(&self, name: &Name) -> Name {
        let (mut bits, mut left) = (0, 0);
        name.with_case(|| {
            if left == 0 {
                (bits, left) = (self.number(), u64::BITS);
            }
            let is_upper = bits & 1 == 1;
            bits >>= 1;
            left -= 1;
            is_upper
        })
    }

    fn number(&self) -> u64 {
        self.key.hash_one(self.counter.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
