//! Limits of rates: a bucket of permits that fills with time.

use tokio::time::Instant;

/// Bucket of permits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    permits: f64,
    burst: f64,
    per_second: f64,
    filled: Instant,
}

impl Bucket {
    /// Returns a full bucket.
    pub(super) fn new(per_second: f64, burst: f64, now: Instant) -> Self {
        Self {
            permits: burst,
            burst,
            per_second,
            filled: now,
        }
    }

    /// Takes a permit. Returns false if no permit is left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.permits = (self.permits + elapsed * self.per_second).min(self.burst);
        self.filled = now;
        let has_permit = self.permits >= 1.0;
        if has_permit {
            self.permits -= 1.0;
        }
        has_permit
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn bucket_permits_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(2.0, 3.0, start);
        let taken: Vec<bool> = (0..5).map(|_| bucket.take(start)).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        let later = start + Duration::from_millis(500);
        assert!(bucket.take(later) && !bucket.take(later));
        let much_later = later + Duration::from_secs(3_600);
        let taken = (0..5).filter(|_| bucket.take(much_later)).count();
        assert_eq!(taken, 3);
    }
}
