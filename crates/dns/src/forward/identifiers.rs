//! Identifiers of questions that nobody else can foretell (RFC 5452 section 9.2).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of identifiers: keyed hashes of a counter. The key is the operating system's randomness and
/// never leaves the process.
#[derive(Debug, Default)]
pub(super) struct Identifiers {
    key: RandomState,
    counter: AtomicU64,
}

impl Identifiers {
    /// The next identifier.
    pub(super) fn next(&self) -> u16 {
        let [.., high, low] = self
            .key
            .hash_one(self.counter.fetch_add(1, Ordering::Relaxed))
            .to_be_bytes();
        u16::from_be_bytes([high, low])
    }
}
