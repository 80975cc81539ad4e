//! What goes on on a client's connection.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::silence::Silence;

/// What goes on: shared by a connection, its requests and their bodies.
#[derive(Debug)]
pub struct Activity {
    silence: Silence,
    requests: AtomicUsize,
    is_reading_head: AtomicBool,
    is_broken_off: AtomicBool,
    is_given_up: AtomicBool,
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub struct UnderWay(Arc<Activity>);

impl Activity {
    /// Of a connection that begins.
    pub fn new() -> Self {
        Self {
            silence: Silence::new(),
            requests: AtomicUsize::new(0),
            is_reading_head: AtomicBool::new(false),
            is_broken_off: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// The last answer breaks off.
    pub fn break_off(&self) {
        self.is_broken_off.store(true, Ordering::Relaxed);
    }

    /// Whether it did, so that the connection must not end as if all had been said.
    pub fn is_broken_off(&self) -> bool {
        self.is_broken_off.load(Ordering::Relaxed)
    }

    /// The connection is closed, since its client does not take what it has asked for.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether it was.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// Since when nothing has happened.
    pub fn silence(&self) -> &Silence {
        &self.silence
    }

    /// A head has begun to come, or is there.
    pub fn reading_head(&self, is_reading: bool) {
        self.silence.broken();
        self.is_reading_head.store(is_reading, Ordering::Relaxed);
    }

    /// A request begins.
    pub fn begin(self: &Arc<Self>) -> UnderWay {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.silence.broken();
        UnderWay(self.clone())
    }

    /// Whether a request is coming or being answered.
    pub fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0 || self.is_reading_head.load(Ordering::Relaxed)
    }
}

impl Deref for UnderWay {
    type Target = Activity;

    fn deref(&self) -> &Activity {
        &self.0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.silence.broken();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
