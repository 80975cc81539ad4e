//! Durations as Go writes them: `30s`, `1h0m0s`, `1.5s`, `0`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::flags::duration;

/// A span of time of a flag or a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

impl GoDuration {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The span, unless it is zero.
    pub fn some(self) -> Option<Duration> {
        Some(self.0).filter(|duration| !duration.is_zero())
    }
}

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        duration(text).map(Self)
    }
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
