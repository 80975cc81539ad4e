//! A time of the API that takes eight bytes, also in an `Option`.

use std::num::NonZeroI64;

use jiff::Timestamp;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// A time in whole microseconds, the finest unit of the API. `Option<Time>` takes eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(
    /// Microseconds since the epoch; one more from the epoch on, so that the number is never zero.
    NonZeroI64,
);

impl Time {
    /// Reads a time; `None` if it is not in the form of RFC 3339.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.parse().ok().and_then(Self::of)
    }

    /// Converts a timestamp.
    pub(crate) fn of(timestamp: Timestamp) -> Option<Self> {
        let micros = timestamp.as_microsecond();
        NonZeroI64::new(micros + i64::from(micros >= 0)).map(Self)
    }

    /// Returns the time as a timestamp.
    pub(crate) fn timestamp(self) -> Timestamp {
        let number = self.0.get();
        let micros = number - i64::from(number > 0);
        let nanos = i32::try_from(micros % MICROS_PER_SECOND * 1_000).unwrap_or_default();
        // The number is that of a timestamp.
        Timestamp::new(micros / MICROS_PER_SECOND, nanos).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
