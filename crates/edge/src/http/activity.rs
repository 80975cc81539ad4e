//! Activity of a client's connection.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::idle_clock::IdleClock;

/// Activity of a client's connection, shared by its requests and their bodies.
#[derive(Debug)]
pub(crate) struct Activity {
    idle: IdleClock,
    requests: AtomicUsize,
    is_reading_head: AtomicBool,
    is_truncated: AtomicBool,
    is_timed_out: AtomicBool,
    is_flooded: AtomicBool,
}

/// Request under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestInProgress {
    activity: Arc<Activity>,
    is_further: bool,
}

impl Activity {
    /// Creates the activity of a new connection.
    pub(crate) fn new() -> Self {
        Self {
            idle: IdleClock::new(),
            requests: AtomicUsize::new(0),
            is_reading_head: AtomicBool::new(false),
            is_truncated: AtomicBool::new(false),
            is_timed_out: AtomicBool::new(false),
            is_flooded: AtomicBool::new(false),
        }
    }

    /// Marks the last response as truncated.
    pub(crate) fn set_truncated(&self) {
        self.is_truncated.store(true, Ordering::Relaxed);
    }

    /// Returns true if the connection has to end with a reset, because the last response is truncated.
    pub(crate) fn is_truncated(&self) -> bool {
        self.is_truncated.load(Ordering::Relaxed)
    }

    /// Marks the connection as closed because its client takes no data.
    pub(crate) fn set_timed_out(&self) {
        self.is_timed_out.store(true, Ordering::Relaxed);
    }

    /// Returns true if the connection was closed because its client receives no data.
    pub(crate) fn is_timed_out(&self) -> bool {
        self.is_timed_out.load(Ordering::Relaxed)
    }

    /// Marks the connection of a client that sends too many PINGs.
    pub(crate) fn set_flooded(&self) {
        self.is_flooded.store(true, Ordering::Relaxed);
    }

    /// Returns true if the connection has to end, because its client sends too many PINGs.
    pub(crate) fn is_flooded(&self) -> bool {
        self.is_flooded.load(Ordering::Relaxed)
    }

    /// Returns the idle time of the connection.
    pub(crate) fn idle(&self) -> &IdleClock {
        &self.idle
    }

    /// Records that a head starts or has arrived.
    pub(crate) fn reading_head(&self, is_reading: bool) {
        self.idle.touch();
        self.is_reading_head.store(is_reading, Ordering::Relaxed);
    }

    /// Starts a request.
    pub(crate) fn start_request(self: &Arc<Self>) -> RequestInProgress {
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        self.idle.touch();
        RequestInProgress {
            activity: self.clone(),
            is_further: before > 0,
        }
    }

    /// Returns true while a request arrives or is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0 || self.is_reading_head.load(Ordering::Relaxed)
    }
}

impl RequestInProgress {
    /// Returns true if another request of the connection was under way when this one started.
    pub(crate) fn is_further(&self) -> bool {
        self.is_further
    }
}

impl Deref for RequestInProgress {
    type Target = Activity;

    fn deref(&self) -> &Activity {
        &self.activity
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.activity.idle.touch();
        self.activity.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
