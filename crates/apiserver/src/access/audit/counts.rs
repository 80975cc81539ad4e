//! Counters of the audit log.

use std::sync::atomic::{AtomicU64, Ordering};

use super::policy::Level;

/// The counters.
#[derive(Default)]
pub(crate) struct Counts {
    events: AtomicU64,
    /// Events that could not be written.
    log_errors: AtomicU64,
    /// Events that found no room in the queue of batch mode.
    dropped: AtomicU64,
    rejected: AtomicU64,
    levels: [AtomicU64; Level::ALL.len()],
}

impl Counts {
    pub(super) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn log_error(&self, events: u64) {
        self.log_errors.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn level(&self, level: Level) {
        self.levels[level as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// `apiserver_audit_event_total`.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// `apiserver_audit_error_total` by `plugin`.
    pub(crate) fn errors(&self) -> [(&'static str, u64); 2] {
        [
            ("buffered", self.dropped.load(Ordering::Relaxed)),
            ("log", self.log_errors.load(Ordering::Relaxed)),
        ]
    }

    /// `apiserver_audit_requests_rejected_total`.
    pub(crate) fn rejections(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// `apiserver_audit_level_total` by `level`.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.levels.iter().map(|count| count.load(Ordering::Relaxed));
        Level::ALL.into_iter().map(Level::name).zip(counts)
    }
}
