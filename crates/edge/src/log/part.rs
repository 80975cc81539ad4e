//! Lines that become one file, when they do, and its name.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use object_store::path::Path;

use crate::settings::ServiceName;

#[cfg(test)]
mod tests;

/// A file is written early when it has so much: what is gathered is in memory.
pub const PART_BYTES_MAX: usize = 8 << 20;

/// Lines that are gathered for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// When the first line came.
    pub began: Timestamp,
    /// All lines.
    pub text: Vec<u8>,
    /// How many they are.
    pub lines: u64,
}

impl Part {
    /// Begins with a line.
    pub fn new(now: Timestamp, line: &str) -> Self {
        let mut part = Self {
            began: now,
            text: Vec::new(),
            lines: 0,
        };
        part.push(line);
        part
    }

    /// Takes another line.
    pub fn push(&mut self, line: &str) {
        self.text.extend_from_slice(line.as_bytes());
        self.lines += 1;
    }

    /// Whether it takes no more.
    pub fn is_full(&self) -> bool {
        self.text.len() >= PART_BYTES_MAX
    }

    /// How long it may wait yet until it has to be written. A clock that was set back delays it by no more than one interval.
    pub fn due_in(&self, now: Timestamp, interval: Duration) -> Duration {
        if self.is_full() {
            return Duration::ZERO;
        }
        let elapsed = now.duration_since(self.began).max(SignedDuration::ZERO);
        interval.saturating_sub(elapsed.unsigned_abs())
    }
}

/// The name of a file that is written at a time: `prefix/YYYY/MM/DD/namespace_service_host_time_random.log`. Whatever is in
/// the prefix, it stays below the directory or bucket.
pub fn name(prefix: &str, service: &ServiceName, host: &str, now: Timestamp, random: u64) -> Path {
    let now = now.to_zoned(TimeZone::UTC);
    let (namespace, name) = (&service.namespace, &service.name);
    let time = now.strftime("%Y%m%dT%H%M%SZ");
    let file = format!("{namespace}_{name}_{host}_{time}_{random:016x}.log");
    let date = [now.strftime("%Y"), now.strftime("%m"), now.strftime("%d")].map(|part| part.to_string());
    let prefix = prefix
        .split('/')
        .filter(|part| !part.is_empty())
        .map(str::to_owned);
    Path::from_iter(prefix.chain(date).chain([file]))
}
