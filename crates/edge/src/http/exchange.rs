//! What the two directions of one request know of each other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::activity::UnderWay;
use super::interim::Interims;
use super::refusal::Refusal;
use super::silence::Silence;

/// A request with its answer, while they are passed on.
#[derive(Debug)]
pub struct Exchange {
    under_way: UnderWay,
    silence: Silence,
    received_bytes: AtomicU64,
    is_received: AtomicBool,
    waits_for_client: AtomicBool,
    refusal: OnceLock<Refusal>,
    interims: Interims,
}

impl Exchange {
    /// Of a request whose head has come.
    pub fn new(under_way: UnderWay) -> Self {
        Self {
            under_way,
            silence: Silence::new(),
            received_bytes: AtomicU64::new(0),
            is_received: AtomicBool::new(false),
            waits_for_client: AtomicBool::new(false),
            refusal: OnceLock::new(),
            interims: Interims::default(),
        }
    }

    /// What the backend has said before its answer.
    pub fn interims(&self) -> &Interims {
        &self.interims
    }

    /// The answer breaks off, and only the end of the connection could show it.
    pub fn break_off(&self) {
        self.under_way.break_off();
    }

    /// Whether it is the edge that closes the connection, since its client takes nothing.
    pub fn is_given_up(&self) -> bool {
        self.under_way.is_given_up()
    }

    /// Since when nothing has been passed on, in either direction.
    pub fn silence(&self) -> &Silence {
        &self.silence
    }

    /// Something was passed on.
    pub fn progress(&self) {
        self.silence.broken();
        self.under_way.silence().broken();
    }

    /// So much of the request's body has come.
    pub fn received(&self, bytes: usize) {
        self.waits_for_client.store(false, Ordering::Relaxed);
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.progress();
    }

    /// All of it has come.
    pub fn is_received(&self) -> bool {
        self.is_received.load(Ordering::Relaxed)
    }

    /// All of it has come now.
    pub fn set_received(&self) {
        self.waits_for_client.store(false, Ordering::Relaxed);
        self.is_received.store(true, Ordering::Relaxed);
    }

    /// How much has come.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// The backend would take more of the body than has come.
    pub fn wait_for_client(&self) {
        self.waits_for_client.store(true, Ordering::Relaxed);
    }

    /// Whether it is the client that nothing comes from.
    pub fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed)
    }

    /// The body turned out to be one that is not passed on.
    pub fn refuse(&self, refusal: Refusal) {
        self.refusal.get_or_init(|| refusal);
    }

    /// Why the body is not passed on, if it is not.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal.get().copied()
    }
}
