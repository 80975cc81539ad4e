//! Response rate limiting: how many datagrams a network of clients gets a second, so that forged sources do
//! not make this server flood a victim.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Networks that are told apart; more share a count with others, by a keyed hash.
const BUCKETS: usize = 1 << 16;
/// Seconds of a network's share that it may take at once.
const BURST_SECONDS: u64 = 2;
/// Of what is too much, every second answer is cut, which makes an honest client come back over TCP; the
/// rest is held back.
const CUT_EVERY: u32 = 2;

/// What is to be done with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// Send it.
    Whole,
    /// Send it without records and marked as truncated.
    Cut,
    /// Send nothing.
    None,
}

/// The limiter: a token bucket for each network, of /24 or /56.
#[derive(Debug)]
pub(super) struct RateLimit {
    per_second: u64,
    hasher: RandomState,
    /// In each: the millisecond of the last look in the upper half, thousandths of tokens in the lower.
    buckets: Box<[AtomicU64]>,
    excess: AtomicU32,
}

impl RateLimit {
    /// A limit of so many answers a second for each network.
    pub(super) fn new(per_second: u32) -> Self {
        let full = u64::from(per_second) * BURST_SECONDS * 1_000;
        let full = full.min(u64::from(u32::MAX));
        Self {
            per_second: u64::from(per_second),
            hasher: RandomState::new(),
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(full)).collect(),
            excess: AtomicU32::new(0),
        }
    }

    /// Takes an answer to `client` from its network's share, at a millisecond of a clock that wraps.
    pub(super) fn take(&self, client: IpAddr, now_ms: u32) -> Leave {
        let at = usize::try_from(self.hasher.hash_one(network(client)) % BUCKETS as u64).unwrap_or(0);
        let Some(bucket) = self.buckets.get(at) else {
            return Leave::Whole;
        };
        let mut taken = false;
        // Two loops that meet here may count one answer less; nobody waits for the other.
        let old = bucket.load(Ordering::Relaxed);
        let (then, tokens) = ((old >> 32) as u32, old & u64::from(u32::MAX));
        let earned = u64::from(now_ms.wrapping_sub(then)) * self.per_second;
        let full = (self.per_second * BURST_SECONDS * 1_000).min(u64::from(u32::MAX));
        let mut left = (tokens + earned).min(full);
        if left >= 1_000 {
            left -= 1_000;
            taken = true;
        }
        bucket.store(u64::from(now_ms) << 32 | left, Ordering::Relaxed);
        if taken {
            Leave::Whole
        } else if self
            .excess
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(CUT_EVERY)
        {
            Leave::Cut
        } else {
            Leave::None
        }
    }
}

/// The network of a client: what one forger of addresses would have to vary.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            IpAddr::from([a, b, c, 0])
        }
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 72 << 72)),
    }
}

#[cfg(test)]
mod tests;
