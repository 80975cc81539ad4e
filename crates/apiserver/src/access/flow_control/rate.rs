//! Rate of something for each holder, such as requests of a user: a bucket that fills with time.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

/// Holders whose rate is kept; when there are more, those that take little are forgotten. An entry has some 32 bytes.
const HOLDERS_MAX: usize = 10_000;
/// A holder may take this many seconds' worth at once, after a pause.
const BURST_SECONDS: f64 = 2.0;

/// Remaining tokens of each holder.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    /// 0 for no limit.
    per_second: u32,
    holders: HashMap<K, Allowance>,
}

#[derive(Clone, Copy, Debug)]
struct Allowance {
    amount: f64,
    at: Instant,
}

impl<K: Copy + Eq + Hash> Rates<K> {
    pub(crate) fn new(per_second: u32) -> Rates<K> {
        Rates {
            per_second,
            holders: HashMap::new(),
        }
    }

    /// Returns true if a holder has a token left, without taking it.
    pub(crate) fn has_one(&self, holder: K, now: Instant) -> bool {
        let allowance = self.holders.get(&holder);
        self.per_second == 0
            || allowance.is_none_or(|allowance| grown(self.per_second, allowance, now) >= 1.0)
    }

    /// Takes one token of a holder. Returns false if none is left.
    pub(crate) fn take_one(&mut self, holder: K, now: Instant) -> bool {
        if self.per_second == 0 {
            return true;
        }
        let most = most(self.per_second);
        if self.holders.len() >= HOLDERS_MAX && !self.holders.contains_key(&holder) {
            let per_second = self.per_second;
            self.holders
                .retain(|_, allowance| grown(per_second, allowance, now) < most);
            if self.holders.len() >= HOLDERS_MAX {
                self.holders.clear();
            }
        }
        let full = Allowance {
            amount: most,
            at: now,
        };
        let allowance = self.holders.entry(holder).or_insert(full);
        let amount = grown(self.per_second, allowance, now);
        let takes = amount >= 1.0;
        *allowance = Allowance {
            amount: if takes { amount - 1.0 } else { amount },
            at: now,
        };
        takes
    }
}

/// The most that a holder may take at once.
fn most(per_second: u32) -> f64 {
    f64::from(per_second) * BURST_SECONDS
}

/// Tokens of a holder at this time.
fn grown(per_second: u32, allowance: &Allowance, now: Instant) -> f64 {
    let seconds = now.saturating_duration_since(allowance.at).as_secs_f64();
    (allowance.amount + seconds * f64::from(per_second)).min(most(per_second))
}

#[cfg(test)]
mod tests;
