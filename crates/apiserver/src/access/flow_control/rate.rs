//! Rate limits for each holder, such as a user: token buckets.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

/// Maximum number of buckets. When it is reached, full buckets are dropped. An entry has about 32 bytes.
const BUCKETS_MAX: usize = 10_000;
/// Burst, in seconds of the rate.
const BURST_SECONDS: f64 = 2.0;

/// Token buckets by holder.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    /// Tokens added in a second; 0 for no limit.
    per_second: u32,
    buckets: HashMap<K, Bucket>,
}

/// Token bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    updated: Instant,
}

impl<K: Copy + Eq + Hash> Rates<K> {
    pub(crate) fn new(per_second: u32) -> Rates<K> {
        Rates {
            per_second,
            buckets: HashMap::new(),
        }
    }

    /// Returns true if a holder has a token, without taking it.
    pub(crate) fn has_token(&self, holder: K, now: Instant) -> bool {
        let bucket = self.buckets.get(&holder);
        self.per_second == 0 || bucket.is_none_or(|bucket| tokens_at(self.per_second, bucket, now) >= 1.0)
    }

    /// Takes one token of a holder. Returns false if the holder has no token.
    pub(crate) fn take_token(&mut self, holder: K, now: Instant) -> bool {
        if self.per_second == 0 {
            return true;
        }
        let capacity = capacity(self.per_second);
        if self.buckets.len() >= BUCKETS_MAX && !self.buckets.contains_key(&holder) {
            let per_second = self.per_second;
            self.buckets
                .retain(|_, bucket| tokens_at(per_second, bucket, now) < capacity);
            if self.buckets.len() >= BUCKETS_MAX {
                self.buckets.clear();
            }
        }
        let full = Bucket {
            tokens: capacity,
            updated: now,
        };
        let bucket = self.buckets.entry(holder).or_insert(full);
        let tokens = tokens_at(self.per_second, bucket, now);
        let is_granted = tokens >= 1.0;
        *bucket = Bucket {
            tokens: if is_granted { tokens - 1.0 } else { tokens },
            updated: now,
        };
        is_granted
    }
}

/// Returns the capacity of a bucket.
fn capacity(per_second: u32) -> f64 {
    f64::from(per_second) * BURST_SECONDS
}

/// Returns the tokens of a bucket at `now`.
fn tokens_at(per_second: u32, bucket: &Bucket, now: Instant) -> f64 {
    let seconds = now.saturating_duration_since(bucket.updated).as_secs_f64();
    (bucket.tokens + seconds * f64::from(per_second)).min(capacity(per_second))
}

#[cfg(test)]
mod tests;
