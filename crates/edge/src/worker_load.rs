//! Load of a worker thread: its long-lived connections. Short connections end before a move to another thread saves
//! time, and the kernel distributes them over the threads.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

#[cfg(test)]
mod tests;

/// Polls after which a connection counts as long-lived: more than connecting, a handshake, a request and its
/// response take.
const LONG_LIVED_POLLS: u32 = 16;
/// A connection moves to another thread if this one has so many more long-lived connections, and a quarter more.
const LOAD_DIFFERENCE_MIN: usize = 1;

/// Number of long-lived connections of a thread.
#[derive(Debug, Default)]
pub(crate) struct WorkerLoad(AtomicUsize);

impl WorkerLoad {
    /// Returns true if a new connection should go to a thread with the other load.
    pub(crate) fn exceeds(&self, other: &Self) -> bool {
        let own = self.count();
        own >= other.count() + LOAD_DIFFERENCE_MIN + own / 4
    }

    /// Returns the number of long-lived connections.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a connection from the moment when it is long-lived until it ends.
    pub(crate) fn track<W: Future<Output = ()>>(self: Arc<Self>, task: W) -> TrackedConnection<W> {
        TrackedConnection {
            task: Box::pin(task),
            load: self,
            polls: 0,
            counted: None,
        }
    }
}

/// Task of a connection, which counts its polls.
pub(crate) struct TrackedConnection<W> {
    task: Pin<Box<W>>,
    load: Arc<WorkerLoad>,
    polls: u32,
    counted: Option<LoadGuard>,
}

impl<W: Future<Output = ()>> Future for TrackedConnection<W> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.polls = self.polls.saturating_add(1);
        if self.polls >= LONG_LIVED_POLLS && self.counted.is_none() {
            self.counted = Some(LoadGuard::new(&self.load));
        }
        self.task.as_mut().poll(cx)
    }
}

/// Counts one connection until it is dropped.
struct LoadGuard(Arc<WorkerLoad>);

impl LoadGuard {
    fn new(load: &Arc<WorkerLoad>) -> Self {
        load.0.fetch_add(1, Ordering::Relaxed);
        Self(load.clone())
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
