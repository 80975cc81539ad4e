//! Unpredictable parts of forwarded queries: identifiers (RFC 5452 section 9.2) and the case of letters
//! (draft-vixie-dnsext-dns0x20).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::wire::Name;

/// A random number generator: keyed hashes of a counter. The key comes from the random numbers of the operating system,
/// and is not sent or stored.
#[derive(Debug, Default)]
pub(super) struct Identifiers {
    key: RandomState,
    counter: AtomicU64,
}

impl Identifiers {
    /// Returns the next identifier.
    pub(super) fn next(&self) -> u16 {
        let [.., high, low] = self.number().to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    /// Returns the name with random case of each letter.
    pub(super) fn randomize_case(&self, name: &Name) -> Name {
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
