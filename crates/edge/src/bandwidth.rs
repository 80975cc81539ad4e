//! The bandwidth of a Service, which its connections and flows share alike. Pure; times are durations since any moment that
//! stays the same.
//!
//! What is to pass is booked, at most a share of a few milliseconds at a time, and goes when all that was booked before is
//! paid for. Nobody books a share before the last one has gone: so all who want more than there is take turns.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// What a Service that was silent may pass on at once, as the time that it is worth.
const BURST: Duration = Duration::from_millis(50);
/// What a share is worth, as long as it has between [`SHARE_BYTES_MIN`] and [`SHARE_BYTES_MAX`].
const SHARE: Duration = Duration::from_millis(10);
/// Enough for a packet.
const SHARE_BYTES_MIN: u64 = 2 << 10;
/// What is read at once anyway.
const SHARE_BYTES_MAX: u64 = 64 << 10;
/// How far ahead the bandwidth may be booked when a datagram comes: what comes then is lost. Nobody holds datagrams back.
const AHEAD_MAX: Duration = Duration::from_millis(100);

const NANOSECONDS: u128 = 1_000_000_000;

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// So many bytes a second; 0 is no bound, and none.
    pub fn new(bytes_per_second: u64) -> Option<Self> {
        NonZeroU64::new(bytes_per_second).map(Self)
    }

    /// What is booked at once, at most.
    fn share(self) -> usize {
        let bytes = u128::from(self.0.get()) * SHARE.as_nanos() / NANOSECONDS;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        usize::try_from(bytes.clamp(SHARE_BYTES_MIN, SHARE_BYTES_MAX)).unwrap_or(usize::MAX)
    }

    /// How long bytes take, in nanoseconds.
    fn takes(self, bytes: usize) -> u64 {
        u64::try_from(bytes as u128 * NANOSECONDS / u128::from(self.0.get())).unwrap_or(u64::MAX)
    }
}

/// One direction of a Service, or both: a token bucket, as the time at which all that was booked is paid for.
#[derive(Debug, Default)]
pub struct Bucket {
    even_at_nanoseconds: AtomicU64,
}

impl Bucket {
    /// Books bytes. Returns when they may go, and when they are paid for themselves. Nothing, if they may not go before `until`.
    fn book(&self, bytes: usize, rate: Rate, now: Duration, until: Duration) -> Option<(Duration, Duration)> {
        let floor = nanoseconds(now.saturating_sub(BURST));
        let until = nanoseconds(until);
        let takes = rate.takes(bytes);
        let booked = |even_at: u64| {
            let due = even_at.max(floor);
            (due <= until).then_some(due.saturating_add(takes))
        };
        let even_at = self
            .even_at_nanoseconds
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, booked)
            .ok()?
            .max(floor);
        let times = (even_at, even_at.saturating_add(takes));
        Some((Duration::from_nanos(times.0), Duration::from_nanos(times.1)))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// One direction of a connection or a flow.
#[derive(Debug)]
pub struct Turns {
    bucket: Arc<Bucket>,
    rate: Rate,
    /// When what is booked may go.
    due: Duration,
    /// Bytes that are booked and have not gone.
    booked: usize,
}

impl Turns {
    /// Of one that has passed on nothing.
    pub fn new(bucket: Arc<Bucket>, rate: Rate) -> Self {
        Self {
            bucket,
            rate,
            due: Duration::ZERO,
            booked: 0,
        }
    }

    /// What passes in one turn, at most.
    pub fn share(&self) -> usize {
        self.rate.share()
    }

    /// Wants so many bytes to pass. Returns how many may, and from when on: those that are still booked, or a share.
    pub fn want(&mut self, bytes: usize, now: Duration) -> (usize, Duration) {
        if self.booked == 0 {
            self.booked = bytes.min(self.share());
            if let Some((due, _)) = self.bucket.book(self.booked, self.rate, now, Duration::MAX) {
                self.due = due;
            }
        }
        (self.booked.min(bytes), self.due)
    }

    /// So many of those that were booked have passed.
    pub fn passed(&mut self, bytes: usize) {
        self.booked = self.booked.saturating_sub(bytes);
    }

    /// Whether a datagram may pass now. If not, it is lost: it is not this flow's turn, or too many others wait.
    pub fn admit(&mut self, bytes: usize, now: Duration) -> bool {
        if now < self.due {
            return false;
        }
        let booked = self.bucket.book(bytes, self.rate, now, now + AHEAD_MAX);
        if let Some((_, paid_at)) = booked {
            self.due = paid_at;
        }
        booked.is_some()
    }
}
