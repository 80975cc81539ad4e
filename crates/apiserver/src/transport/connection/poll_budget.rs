//! Wakes of a connection's task that come while it runs.
//!
//! HTTP/2 wakes the task of its connection for everything that a stream writes, and the streams run in that very task.
//! The runtime would run it once more, behind all others, and wake another thread to share the work; here it just goes
//! on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Rounds until the other tasks have their turn.
const ROUNDS_MAX: u8 = 8;

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const WOKEN: u8 = 2;

/// The state of a task.
pub(super) struct Turn {
    shared: Arc<Shared>,
    waker: Waker,
}

#[derive(Default)]
struct Shared {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Turn {
    pub(super) fn new() -> Turn {
        let shared = Arc::<Shared>::default();
        Turn {
            waker: shared.clone().into(),
            shared,
        }
    }

    /// Does `round` until nothing of it was woken meanwhile, or it is done, or others should have their turn.
    pub(super) fn run<T>(
        &self,
        context: &mut Context<'_>,
        mut round: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Shared { state, task } = &*self.shared;
        task.register(context.waker());
        for _ in 0..ROUNDS_MAX {
            state.store(RUNNING, Ordering::SeqCst);
            let ended = round(&mut Context::from_waker(&self.waker));
            let rests = state.swap(WAITING, Ordering::SeqCst) == RUNNING;
            if ended.is_ready() || rests {
                return ended;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = self
            .state
            .compare_exchange(RUNNING, WOKEN, Ordering::SeqCst, Ordering::SeqCst);
        if woken == Err(WAITING) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests;
