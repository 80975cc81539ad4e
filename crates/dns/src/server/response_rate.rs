//! Response rate limiting: a limit of UDP responses per network of clients. It bounds the responses to a victim whose
//! address an attacker forges.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of token buckets. Networks share buckets by a keyed hash if there are more networks.
const BUCKETS: usize = 1 << 16;
/// Capacity of a bucket in seconds of its rate.
const BURST_SECONDS: u64 = 2;
/// Every second response above the limit is truncated, so that clients with their own address retry over TCP. The
/// others are dropped.
const TRUNCATE_EVERY: u32 = 2;

/// Decision about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Send it.
    Send,
    /// Send a truncated response without records.
    Truncate,
    /// Send nothing.
    Drop,
}

/// Token buckets, one per network of /24 or /56.
#[derive(Debug)]
pub(super) struct RateLimit {
    per_second: u64,
    hasher: RandomState,
    /// Per bucket: the millisecond of the last update in the upper half, thousandths of tokens in the lower half. The
    /// table is created with the first response, because most servers refuse no query.
    buckets: OnceLock<Box<[AtomicU64]>>,
    excess: AtomicU32,
}

impl RateLimit {
    /// Creates a limit of `per_second` responses for each network.
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_second: u64::from(per_second),
            hasher: RandomState::new(),
            buckets: OnceLock::new(),
            excess: AtomicU32::new(0),
        }
    }

    /// Returns the content of a full bucket, in thousandths of tokens.
    fn full(&self) -> u64 {
        (self.per_second * BURST_SECONDS * 1_000).min(u64::from(u32::MAX))
    }

    /// Takes a token for a response to `client` at a millisecond of a clock that wraps.
    pub(super) fn take(&self, client: IpAddr, now_milliseconds: u32) -> Decision {
        let at = usize::try_from(self.hasher.hash_one(network(client)) % BUCKETS as u64).unwrap_or(0);
        let full = self.full();
        let buckets = self
            .buckets
            .get_or_init(|| (0..BUCKETS).map(|_| AtomicU64::new(full)).collect());
        let Some(bucket) = buckets.get(at) else {
            return Decision::Send;
        };
        let mut has_token = false;
        // No worker waits for another. Two workers that update the bucket at the same time count one response.
        let old = bucket.load(Ordering::Relaxed);
        let (then, tokens) = ((old >> 32) as u32, old & u64::from(u32::MAX));
        let earned = u64::from(now_milliseconds.wrapping_sub(then)) * self.per_second;
        let mut left = (tokens + earned).min(full);
        if left >= 1_000 {
            left -= 1_000;
            has_token = true;
        }
        bucket.store(u64::from(now_milliseconds) << 32 | left, Ordering::Relaxed);
        if has_token {
            Decision::Send
        } else if self
            .excess
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(TRUNCATE_EVERY)
        {
            Decision::Truncate
        } else {
            Decision::Drop
        }
    }
}

/// Returns the network of a client: the part of the address that is the same for all addresses of a victim's network.
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
