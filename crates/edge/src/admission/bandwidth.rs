//! Bandwidth of a Service, which its connections and flows share in equal parts. Pure: times are durations since a
//! fixed epoch.
//!
//! A connection reserves a chunk of at most a few milliseconds. It may send the chunk when the bandwidth of all earlier
//! reservations has accrued. It reserves the next chunk only after the last one has passed. All connections that need
//! bandwidth therefore take turns.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Burst of a Service without traffic, as the time that the burst takes at the rate of the Service.
const BURST: Duration = Duration::from_millis(50);
/// Size of a chunk, between [`CHUNK_BYTES_MIN`] and [`CHUNK_BYTES_MAX`], as the time that the chunk takes at the rate
/// of the Service.
const CHUNK: Duration = Duration::from_millis(10);
/// Smallest chunk: enough for a packet.
const CHUNK_BYTES_MIN: u64 = 2 << 10;
/// Largest chunk: the size of one read.
const CHUNK_BYTES_MAX: u64 = 64 << 10;
/// Limit of reservations in advance for datagrams. Datagrams above the limit are dropped, since no queue holds them.
const DATAGRAM_DELAY_MAX: Duration = Duration::from_millis(100);

const NANOSECONDS: u128 = 1_000_000_000;

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(NonZeroU64);

impl Rate {
    /// Creates a rate; `None` for 0, which means no limit.
    pub(crate) fn new(bytes_per_second: u64) -> Option<Self> {
        NonZeroU64::new(bytes_per_second).map(Self)
    }

    /// Returns the bytes of one chunk.
    fn chunk_bytes(self) -> usize {
        let bytes = u128::from(self.0.get()) * CHUNK.as_nanos() / NANOSECONDS;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        usize::try_from(bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)).unwrap_or(usize::MAX)
    }

    /// Returns the time that bytes take, in nanoseconds.
    fn nanoseconds_of(self, bytes: usize) -> u64 {
        u64::try_from(bytes as u128 * NANOSECONDS / u128::from(self.0.get())).unwrap_or(u64::MAX)
    }
}

/// Token bucket of a Service: of one direction, or of both. Its state is the time at which the bandwidth of all
/// reservations has accrued.
#[derive(Debug, Default)]
pub(crate) struct TokenBucket {
    paid_at_nanoseconds: AtomicU64,
}

impl TokenBucket {
    /// Reserves bytes. Returns the time at which the bytes may pass, and the time at which their bandwidth has accrued.
    /// Returns `None` if the bytes may not pass before `deadline`.
    fn reserve(
        &self,
        bytes: usize,
        rate: Rate,
        now: Duration,
        deadline: Duration,
    ) -> Option<(Duration, Duration)> {
        let floor = nanoseconds(now.saturating_sub(BURST));
        let deadline = nanoseconds(deadline);
        let cost = rate.nanoseconds_of(bytes);
        let pay = |paid_at: u64| {
            let due = paid_at.max(floor);
            (due <= deadline).then_some(due.saturating_add(cost))
        };
        let due = self
            .paid_at_nanoseconds
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay)
            .ok()?
            .max(floor);
        let paid_at = due.saturating_add(cost);
        Some((Duration::from_nanos(due), Duration::from_nanos(paid_at)))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Reservation of one direction of a connection or flow.
#[derive(Debug)]
pub(crate) struct BandwidthReservation {
    bucket: Arc<TokenBucket>,
    rate: Rate,
    /// Time from which the reserved bytes may pass.
    due: Duration,
    /// Bytes that are reserved and have not passed.
    reserved: usize,
}

impl BandwidthReservation {
    /// Creates an empty reservation.
    pub(crate) fn new(bucket: Arc<TokenBucket>, rate: Rate) -> Self {
        Self {
            bucket,
            rate,
            due: Duration::ZERO,
            reserved: 0,
        }
    }

    /// Returns the maximum number of bytes of one reservation.
    pub(crate) fn chunk_bytes_max(&self) -> usize {
        self.rate.chunk_bytes()
    }

    /// Reserves a chunk of `bytes`, unless bytes are still reserved. Returns the number of bytes that may
    /// pass, and the time from which they may.
    pub(crate) fn reserve(&mut self, bytes: usize, now: Duration) -> (usize, Duration) {
        if self.reserved == 0 {
            self.reserved = bytes.min(self.chunk_bytes_max());
            if let Some((due, _)) = self.bucket.reserve(self.reserved, self.rate, now, Duration::MAX) {
                self.due = due;
            }
        }
        (self.reserved.min(bytes), self.due)
    }

    /// Subtracts bytes that have passed from the reservation.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    /// Returns true if a datagram may pass now. Otherwise the datagram is dropped: other flows have precedence, or too
    /// many wait.
    pub(crate) fn admits_datagram(&mut self, bytes: usize, now: Duration) -> bool {
        if now < self.due {
            return false;
        }
        let reserved = self
            .bucket
            .reserve(bytes, self.rate, now, now + DATAGRAM_DELAY_MAX);
        if let Some((_, paid_at)) = reserved {
            self.due = paid_at;
        }
        reserved.is_some()
    }
}
