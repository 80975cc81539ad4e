//! What a thread has to do, as far as it can be known: the connections that last. Short ones are over before it would pay to
//! wake another thread for them, and the kernel spreads them evenly enough.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

#[cfg(test)]
mod tests;

/// Turns after which a connection is one that lasts: more than connecting, a handshake, a request and its answer take.
const LASTING_TURNS: u32 = 16;
/// A connection goes to another thread if this one has so many more that last than that, and a quarter of its own.
const SLACK: usize = 1;

/// How many connections of a thread last.
#[derive(Debug, Default)]
pub(crate) struct Load(AtomicUsize);

impl Load {
    /// Whether a thread with this load is better spared for one with another.
    pub fn is_more_than(&self, other: &Self) -> bool {
        let own = self.count();
        own >= other.count() + SLACK + own / 4
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets a connection count as soon as it turns out to last, until it ends.
    pub fn counting<W: Future<Output = ()>>(self: Arc<Self>, work: W) -> Counting<W> {
        Counting {
            work: Box::pin(work),
            load: self,
            turns: 0,
            part: None,
        }
    }
}

/// A connection that counts as soon as it lasts.
pub(crate) struct Counting<W> {
    work: Pin<Box<W>>,
    load: Arc<Load>,
    turns: u32,
    part: Option<Part>,
}

impl<W: Future<Output = ()>> Future for Counting<W> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.turns = self.turns.saturating_add(1);
        if self.turns >= LASTING_TURNS && self.part.is_none() {
            self.part = Some(Part::of(&self.load));
        }
        self.work.as_mut().poll(cx)
    }
}

/// What a connection adds to a load, until it is dropped.
struct Part(Arc<Load>);

impl Part {
    fn of(load: &Arc<Load>) -> Self {
        load.0.fetch_add(1, Ordering::Relaxed);
        Self(load.clone())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
