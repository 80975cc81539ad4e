//! State that both directions of one request share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::activity::RequestInProgress;
use super::idle_clock::IdleClock;
use super::informational::InformationalQueue;
use super::rejection::RequestRejection;
use crate::admission::RequestPermit;

/// Request with its response, while both are forwarded.
#[derive(Debug)]
pub(crate) struct Exchange {
    in_progress: RequestInProgress,
    idle: IdleClock,
    received_bytes: AtomicU64,
    is_received: AtomicBool,
    waits_for_client: AtomicBool,
    rejection: OnceLock<RequestRejection>,
    informational: InformationalQueue,
    /// Permit of a further request of an HTTP/2 connection. It counts until both directions have ended.
    _permit: Option<RequestPermit>,
}

impl Exchange {
    /// Creates the exchange of a request whose head has arrived.
    pub(crate) fn new(in_progress: RequestInProgress, permit: Option<RequestPermit>) -> Self {
        Self {
            in_progress,
            _permit: permit,
            idle: IdleClock::new(),
            received_bytes: AtomicU64::new(0),
            is_received: AtomicBool::new(false),
            waits_for_client: AtomicBool::new(false),
            rejection: OnceLock::new(),
            informational: InformationalQueue::default(),
        }
    }

    /// Returns the informational responses of the backend.
    pub(crate) fn informational(&self) -> &InformationalQueue {
        &self.informational
    }

    /// Marks the response as truncated, where only the end of the connection delimits it.
    pub(crate) fn set_truncated(&self) {
        self.in_progress.set_truncated();
    }

    /// Returns true if the edge closes the connection because its client receives no data.
    pub(crate) fn is_timed_out(&self) -> bool {
        self.in_progress.is_timed_out()
    }

    /// Returns the idle time of both directions.
    pub(crate) fn idle(&self) -> &IdleClock {
        &self.idle
    }

    /// Records that data was forwarded.
    pub(crate) fn progress(&self) {
        self.idle.touch();
        self.in_progress.idle().touch();
    }

    /// Counts bytes of the request's body.
    pub(crate) fn received(&self, bytes: usize) {
        self.waits_for_client.store(false, Ordering::Relaxed);
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.progress();
    }

    /// Returns true if the whole request has arrived.
    pub(crate) fn is_received(&self) -> bool {
        self.is_received.load(Ordering::Relaxed)
    }

    /// Records that the whole request has arrived.
    pub(crate) fn set_received(&self) {
        self.waits_for_client.store(false, Ordering::Relaxed);
        self.is_received.store(true, Ordering::Relaxed);
    }

    /// Returns the bytes of the request's body so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Records that the backend waits for more of the body.
    pub(crate) fn wait_for_client(&self) {
        self.waits_for_client.store(true, Ordering::Relaxed);
    }

    /// Returns true while the backend waits for more of the body.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed)
    }

    /// Rejects the body.
    pub(crate) fn reject(&self, rejection: RequestRejection) {
        self.rejection.get_or_init(|| rejection);
    }

    /// Returns the rejection of the body, if it was rejected.
    pub(crate) fn rejection(&self) -> Option<RequestRejection> {
        self.rejection.get().copied()
    }
}
