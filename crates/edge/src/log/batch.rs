//! Lines that become one file, their deadline, and the name of the file.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use object_store::path::Path;

use crate::settings::ServiceName;

#[cfg(test)]
mod tests;

/// Size at which a file is written early, because collected lines are in memory.
pub(super) const BATCH_BYTES_MAX: usize = 8 << 20;

/// Lines that are gathered for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// Time of the first line.
    pub started_at: Timestamp,
    /// All lines.
    pub text: Vec<u8>,
    /// Number of lines.
    pub lines: u64,
}

impl Batch {
    /// Starts with a line.
    pub(super) fn new(now: Timestamp, line: &str) -> Self {
        let mut batch = Self {
            started_at: now,
            text: Vec::new(),
            lines: 0,
        };
        batch.push(line);
        batch
    }

    /// Adds a line.
    pub(super) fn push(&mut self, line: &str) {
        self.text.extend_from_slice(line.as_bytes());
        self.lines += 1;
    }

    /// Returns true if it takes no more lines.
    pub(super) fn is_full(&self) -> bool {
        self.text.len() >= BATCH_BYTES_MAX
    }

    /// Returns the time until the file must be written. A clock that was set back delays it by one interval at most.
    pub(super) fn due_in(&self, now: Timestamp, interval: Duration) -> Duration {
        if self.is_full() {
            return Duration::ZERO;
        }
        let elapsed = now.duration_since(self.started_at).max(SignedDuration::ZERO);
        interval.saturating_sub(elapsed.unsigned_abs())
    }
}

/// Returns the name of a file: `prefix/YYYY/MM/DD/namespace_service_host_time_random.log`. The name stays below the
/// directory or bucket for each prefix.
pub(super) fn name(prefix: &str, service: &ServiceName, host: &str, now: Timestamp, random: u64) -> Path {
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
