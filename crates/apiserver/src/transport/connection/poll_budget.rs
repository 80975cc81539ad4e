//! Poll budget: repeated polls of a connection's task that was woken while it ran.
//!
//! HTTP/2 wakes the task of its connection for each write of a stream, and the streams run in the same task.
//! The runtime would schedule the task again, behind all others, and wake another thread to share the work.
//! Here the task is polled again immediately, up to [`POLLS_MAX`] times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Number of polls until other tasks run.
const POLLS_MAX: u8 = 8;

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const WOKEN: u8 = 2;

/// Wake state of a task.
pub(super) struct PollBudget {
    shared: Arc<BudgetState>,
    waker: Waker,
}

/// State that the halves of a budget share.
#[derive(Default)]
struct BudgetState {
    state: AtomicU8,
    task: AtomicWaker,
}

impl PollBudget {
    pub(super) fn new() -> PollBudget {
        let shared = Arc::<BudgetState>::default();
        PollBudget {
            waker: shared.clone().into(),
            shared,
        }
    }

    /// Calls `poll` until it is ready, or was not woken during the call, or the budget is used up.
    pub(super) fn run<T>(
        &self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let BudgetState { state, task } = &*self.shared;
        task.register(context.waker());
        for _ in 0..POLLS_MAX {
            state.store(RUNNING, Ordering::SeqCst);
            let ended = poll(&mut Context::from_waker(&self.waker));
            let is_idle = state.swap(WAITING, Ordering::SeqCst) == RUNNING;
            if ended.is_ready() || is_idle {
                return ended;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for BudgetState {
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
