//! Durations in Go's notation: `30s`, `1h0m0s`, `1.5s`, `0`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Text that is not a duration in Go's notation. No retry helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a duration such as 500ms, 15s or 1m30s, found {text:?}")]
pub struct ParseDurationError {
    /// The text as given.
    pub text: String,
}

/// Duration of a flag or a field, read and printed as Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

impl GoDuration {
    /// Creates a duration of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns the duration, or `None` for zero, which upstream handles as an absent value.
    pub fn non_zero(self) -> Option<Duration> {
        Some(self.0).filter(|duration| !duration.is_zero())
    }
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self).ok_or_else(|| ParseDurationError {
            text: text.to_owned(),
        })
    }
}

/// Parses numbers with units, each pair added to the total. `0` alone needs no unit.
fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|character: char| character.is_ascii_digit() || character == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let unit_seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        let part = Duration::try_from_secs_f64(number * unit_seconds).ok()?;
        total = total.checked_add(part)?;
        rest = tail;
    }
    Some(total)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanoseconds) = (self.0.as_secs(), self.0.subsec_nanos());
        if seconds == 0 && nanoseconds != 0 {
            return write!(f, "{}ms", f64::from(nanoseconds) / 1e6);
        }
        let (hours, minutes) = (seconds / 3_600, seconds % 3_600 / 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        match nanoseconds {
            0 => write!(f, "{}s", seconds % 60),
            _ => write!(f, "{}s", (seconds % 60) as f64 + f64::from(nanoseconds) / 1e9),
        }
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
