//! The streams of an HTTP/2 connection, run in the task of the connection.
//!
//! A request in a task of its own would be handed from thread to thread twice. Here it is answered where it was read.
//! What lasts, as watches do, moves to a task of its own: the many watches of a connection are a load that all
//! processors should share, and that should not hold up each other's connections.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;

/// How old a stream is when it gets a task of its own: an answer to most requests is complete by then.
const OWN_TASK_AGE: Duration = Duration::from_millis(200);

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
type Begun = Mutex<Vec<Running>>;

/// The streams, which end with this value.
#[derive(Default)]
pub(super) struct Streams {
    begun: Arc<Begun>,
    running: FuturesUnordered<Young>,
    lasting: JoinSet<()>,
}

/// A stream that runs in the connection's task: ends with what is left of it when it has grown too old for that.
struct Young {
    stream: Option<Running>,
    begun: Instant,
}

impl Future for Young {
    type Output = Option<Running>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(None);
        };
        if stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        match self.begun.elapsed() > OWN_TASK_AGE {
            true => Poll::Ready(self.stream.take()),
            false => Poll::Pending,
        }
    }
}

/// Begins streams; HTTP has it.
#[derive(Clone)]
pub(super) struct Executor {
    // Streams hold one of these themselves: they must not keep each other alive.
    begun: Weak<Begun>,
}

impl Streams {
    /// By which streams are begun.
    pub(super) fn executor(&self) -> Executor {
        Executor {
            begun: Arc::downgrade(&self.begun),
        }
    }

    /// Lets all streams run that have something to do.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        let begun = self.take_begun().into_iter();
        self.running.extend(begun.map(|stream| Young {
            stream: Some(stream),
            begun: Instant::now(),
        }));
        while let Poll::Ready(Some(ended)) = self.running.poll_next_unpin(context) {
            if let Some(lasting) = ended {
                self.lasting.spawn(lasting);
            }
        }
        while self.lasting.try_join_next().is_some() {}
    }

    /// Whether some streams have tasks of their own.
    pub(super) fn have_own_tasks(&self) -> bool {
        !self.lasting.is_empty()
    }

    /// Whether there are streams that have not run yet.
    pub(super) fn have_begun(&self) -> bool {
        !lock(&self.begun).is_empty()
    }

    fn take_begun(&self) -> Vec<Running> {
        std::mem::take(&mut *lock(&self.begun))
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Executor {
    fn execute(&self, stream: F) {
        // Without connection there is nobody to answer to.
        let Some(begun) = self.begun.upgrade() else { return };
        let stream = AssertUnwindSafe(stream).catch_unwind().map(|ended| {
            if ended.is_err() {
                tracing::error!("a stream of a connection panicked");
            }
        });
        // A stream stops where its buffer is full; the budget of a task would be used up by a few of them.
        lock(&begun).push(Box::pin(unconstrained(stream)));
    }
}

fn lock(begun: &Begun) -> std::sync::MutexGuard<'_, Vec<Running>> {
    begun.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
