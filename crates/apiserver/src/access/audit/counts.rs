//! Counters of the audit metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::policy::Level;

/// Counters of events, errors, rejections and levels.
#[derive(Default)]
pub(crate) struct Counts {
    events: AtomicU64,
    /// Events that could not be written.
    log_errors: AtomicU64,
    /// Events that exceeded the queue of batch mode.
    dropped: AtomicU64,
    rejected: AtomicU64,
    levels: [AtomicU64; Level::ALL.len()],
}

impl Counts {
    pub(super) fn count_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_log_errors(&self, events: u64) {
        self.log_errors.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_level(&self, level: Level) {
        self.levels[level as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the value of `apiserver_audit_event_total`.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Returns the values of `apiserver_audit_error_total`, by `plugin`.
    pub(crate) fn errors(&self) -> [(&'static str, u64); 2] {
        [
            ("buffered", self.dropped.load(Ordering::Relaxed)),
            ("log", self.log_errors.load(Ordering::Relaxed)),
        ]
    }

    /// Returns the value of `apiserver_audit_requests_rejected_total`.
    pub(crate) fn rejections(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Returns the values of `apiserver_audit_level_total`, by `level`.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.levels.iter().map(|count| count.load(Ordering::Relaxed));
        Level::ALL.into_iter().map(Level::name).zip(counts)
    }
}
