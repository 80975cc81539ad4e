//! A connection's part in a bandwidth that its Service is bound to.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::bandwidth::Turns;

/// Both directions of a connection to a client; those without a bound have no turns to wait for.
#[derive(Debug)]
pub(crate) struct SharedBandwidth {
    /// What comes from the client.
    pub received: Option<Lane>,
    /// What goes to it.
    pub sent: Option<Lane>,
}

/// A direction with a bound.
#[derive(Debug)]
pub(crate) struct Lane {
    turns: Turns,
    /// What the times of turns are counted from.
    began: Instant,
    /// There while its turn has not come.
    timer: Option<Pin<Box<Sleep>>>,
}

impl SharedBandwidth {
    /// Whether it waits for its turn.
    pub fn is_waiting(&self) -> bool {
        let lanes = [&self.received, &self.sent];
        lanes.into_iter().flatten().any(|lane| lane.timer.is_some())
    }
}

impl Lane {
    /// Of a connection that begins; times of turns are counted from `began`.
    pub fn new(turns: Turns, began: Instant) -> Self {
        Self {
            turns,
            began,
            timer: None,
        }
    }

    /// What passes in one turn, at most.
    pub fn share(&self) -> usize {
        self.turns.share()
    }

    /// Ready when some of these bytes may pass: how many.
    pub fn poll_turn(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<usize> {
        let (count, due) = self.turns.want(bytes, self.began.elapsed());
        if self.timer.is_none() && due <= self.began.elapsed() {
            return Poll::Ready(count);
        }
        let began = self.began;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(began + due)));
        ready!(timer.as_mut().poll(cx));
        self.timer = None;
        Poll::Ready(count)
    }

    /// So many of them have passed.
    pub fn passed(&mut self, bytes: usize) {
        self.turns.passed(bytes);
    }
}
