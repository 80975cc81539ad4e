//! The least pace at which a body must arrive.

use std::time::{Duration, Instant};

/// Longest silence of a client, which covers some lost packets.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest duration of a body at any rate.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes in a second that a client must send on the average, after [`STALL_TIMEOUT`]: the largest body takes less than
/// [`BODY_TIMEOUT`] at that rate. A byte now and then does not keep a request open.
const BYTES_PER_SECOND_MIN: u32 = 64 << 10;

/// The time that a body has taken so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    begun: Instant,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace { begun: now }
    }

    /// How long the next piece may take to come after these bytes; `None` if the body is too slow already.
    pub(super) fn patience(self, bytes: usize, now: Instant) -> Option<Duration> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let earned = Duration::from_secs_f64(f64::from(bytes) / f64::from(BYTES_PER_SECOND_MIN));
        let allowed = (STALL_TIMEOUT + earned).min(BODY_TIMEOUT);
        let left = allowed.checked_sub(now.saturating_duration_since(self.begun))?;
        (!left.is_zero()).then_some(left.min(STALL_TIMEOUT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_byte_now_and_then_is_too_slow() {
        let begin = Instant::now();
        let pace = Pace::new(begin);
        assert_eq!(pace.patience(0, begin), Some(STALL_TIMEOUT));
        let patience = pace.patience(1, begin + 9 * SECOND).expect("some");
        assert!(patience <= SECOND + SECOND / 100, "{patience:?}");
        assert_eq!(pace.patience(2, begin + 11 * SECOND), None);
    }

    #[test]
    fn the_largest_body_may_take_nearly_a_minute() {
        let begin = Instant::now();
        let pace = Pace::new(begin);
        let mut bytes = 0;
        for second in 0..48 {
            assert!(
                pace.patience(bytes, begin + second * SECOND).is_some(),
                "{second}"
            );
            bytes += 64 << 10;
        }
        assert_eq!(bytes, 3 << 20);
        assert_eq!(pace.patience(usize::MAX, begin + 60 * SECOND), None);
    }
}
