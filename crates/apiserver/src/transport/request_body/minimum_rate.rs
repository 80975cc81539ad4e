//! Minimum rate at which a body must arrive.

use std::time::{Duration, Instant};

/// Time between two frames. It covers some lost packets.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Duration of a body at any rate.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Average rate after [`STALL_TIMEOUT`]. At this rate, the largest body takes less than [`BODY_TIMEOUT`]. A client
/// therefore cannot hold a request open with single bytes.
const BYTES_PER_SECOND_MIN: u32 = 64 << 10;

/// Start of a body, from which its average rate is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinimumRate {
    start: Instant,
}

impl MinimumRate {
    pub(super) fn new(now: Instant) -> MinimumRate {
        MinimumRate { start: now }
    }

    /// Returns the time for the next frame after `bytes`. Returns `None` if the body is too slow already.
    pub(super) fn next_timeout(self, bytes: usize, now: Instant) -> Option<Duration> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let earned = Duration::from_secs_f64(f64::from(bytes) / f64::from(BYTES_PER_SECOND_MIN));
        let allowed = (STALL_TIMEOUT + earned).min(BODY_TIMEOUT);
        let left = allowed.checked_sub(now.saturating_duration_since(self.start))?;
        (!left.is_zero()).then_some(left.min(STALL_TIMEOUT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn single_bytes_are_too_slow() {
        let begin = Instant::now();
        let rate = MinimumRate::new(begin);
        assert_eq!(rate.next_timeout(0, begin), Some(STALL_TIMEOUT));
        let timeout = rate.next_timeout(1, begin + 9 * SECOND).expect("a timeout");
        assert!(timeout <= SECOND + SECOND / 100, "{timeout:?}");
        assert_eq!(rate.next_timeout(2, begin + 11 * SECOND), None);
    }

    #[test]
    fn largest_body_may_take_nearly_a_minute() {
        let begin = Instant::now();
        let rate = MinimumRate::new(begin);
        let mut bytes = 0;
        for second in 0..48 {
            assert!(
                rate.next_timeout(bytes, begin + second * SECOND).is_some(),
                "{second}"
            );
            bytes += 64 << 10;
        }
        assert_eq!(bytes, 3 << 20);
        assert_eq!(rate.next_timeout(usize::MAX, begin + 60 * SECOND), None);
    }
}
