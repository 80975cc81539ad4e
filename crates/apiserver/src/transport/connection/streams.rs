//! Streams of an HTTP/2 connection, polled by the task of the connection.
//!
//! A task for each request would move it between threads twice. Long-running streams such as watches move to tasks of
//! their own. All CPUs share their load, and they do not delay the connection.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;

/// Age at which a stream moves to a task of its own. Most requests are complete by then.
const OWN_TASK_AGE: Duration = Duration::from_millis(200);

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;
type NewStreams = Mutex<Vec<Stream>>;

/// Streams of one connection. Dropping the value cancels them.
#[derive(Default)]
pub(super) struct Streams {
    new: Arc<NewStreams>,
    running: FuturesUnordered<InlineStream>,
    long_running: JoinSet<()>,
}

/// Stream in the task of the connection. It resolves to the rest of the stream at [`OWN_TASK_AGE`], or to
/// `None` at its end.
struct InlineStream {
    stream: Option<Stream>,
    start: Instant,
}

impl Future for InlineStream {
    type Output = Option<Stream>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(None);
        };
        if stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        if self.start.elapsed() > OWN_TASK_AGE {
            Poll::Ready(self.stream.take())
        } else {
            Poll::Pending
        }
    }
}

/// Executor of hyper, which adds streams.
#[derive(Clone)]
pub(super) struct Executor {
    // Weak, because streams hold an executor themselves.
    new: Weak<NewStreams>,
}

impl Streams {
    /// Returns the executor for hyper.
    pub(super) fn executor(&self) -> Executor {
        Executor {
            new: Arc::downgrade(&self.new),
        }
    }

    /// Polls all streams that are ready.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        let new = std::mem::take(&mut *lock(&self.new));
        self.running.extend(new.into_iter().map(|stream| InlineStream {
            stream: Some(stream),
            start: Instant::now(),
        }));
        while let Poll::Ready(Some(ended)) = self.running.poll_next_unpin(context) {
            if let Some(long_running) = ended {
                self.long_running.spawn(long_running);
            }
        }
        while self.long_running.try_join_next().is_some() {}
    }

    /// Returns true if streams have tasks of their own.
    pub(super) fn has_own_tasks(&self) -> bool {
        !self.long_running.is_empty()
    }

    /// Returns true if there are streams that have not been polled yet.
    pub(super) fn has_new(&self) -> bool {
        !lock(&self.new).is_empty()
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Executor {
    fn execute(&self, stream: F) {
        // The connection is closed: the stream is dropped.
        let Some(new) = self.new.upgrade() else { return };
        let stream = AssertUnwindSafe(stream).catch_unwind().map(|ended| {
            if ended.is_err() {
                tracing::error!("HTTP/2 stream panicked");
            }
        });
        // A full send buffer stops a stream. A few streams would use up tokio's budget of the task.
        lock(&new).push(Box::pin(unconstrained(stream)));
    }
}

fn lock(new: &NewStreams) -> std::sync::MutexGuard<'_, Vec<Stream>> {
    new.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
