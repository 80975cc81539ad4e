//! Relaying of bytes between two streams. Each direction ends by itself; an error of one stream aborts the other.

mod buffer;
mod direction;
mod initial_data;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::counters::PortCounters;
use crate::stream::{RelayStream, close_early};
use direction::Direction;
pub(crate) use initial_data::InitialData;

/// Bytes in either direction up to which a connection counts as small. The kernel enlarges the buffers of a socket
/// with the data that passes. They keep their size when the socket is reused.
const SMALL_BYTES_MAX: u64 = 64 << 10;

/// End of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayOutcome {
    /// Both sides sent all of their data.
    Finished,
    /// Neither side sent a byte for the idle timeout.
    Idle,
    /// One side failed or reset its connection.
    Reset,
}

impl RelayOutcome {
    /// Returns the outcome as access logs name it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "ok",
            Self::Idle => "idle",
            Self::Reset => "reset",
        }
    }
}

/// Bytes that were relayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RelayedBytes {
    /// From the client to the backend.
    pub received: u64,
    /// From the backend to the client.
    pub sent: u64,
}

impl RelayedBytes {
    /// Returns true if the bytes are so few that the kernel has not enlarged the buffers of the sockets.
    pub(crate) fn is_small(self) -> bool {
        self.received.max(self.sent) <= SMALL_BYTES_MAX
    }
}

/// Relays bytes until both directions have ended, one stream fails, or both are idle for `idle_timeout`.
///
/// `initial` is data that the client has sent already. `relayed` is up to date at any time, also if this
/// future is dropped.
pub(crate) async fn relay<C: RelayStream, B: RelayStream>(
    client: &mut C,
    backend: &mut B,
    initial: InitialData,
    idle_timeout: Duration,
    counters: &PortCounters,
    relayed: &mut RelayedBytes,
) -> RelayOutcome {
    let mut relay = Relay {
        up: Direction::following(initial),
        down: Direction::default(),
        counters,
        relayed,
        last_activity: Instant::now(),
        idle_timeout,
        has_acknowledged: false,
        has_yielded: false,
    };
    let mut timer = pin!(sleep_until(relay.last_activity + idle_timeout));
    let mut yielded = pin!(yield_now());
    let outcome = poll_fn(|cx| {
        loop {
            if let Some(outcome) = relay.poll_directions(cx, client, backend) {
                return Poll::Ready(outcome);
            }
            if relay.up.defers_shutdown() || relay.down.defers_shutdown() {
                // Other tasks run once before a half-closed connection is shut down: the peer may close its
                // side by then.
                if !(relay.up.is_drained() && relay.down.is_drained()) {
                    ready!(yielded.as_mut().poll(cx));
                }
                relay.has_yielded = true;
                continue;
            }
            return relay
                .poll_idle(cx, timer.as_mut(), client)
                .map(|()| RelayOutcome::Idle);
        }
    })
    .await;
    match outcome {
        RelayOutcome::Finished => {}
        RelayOutcome::Idle => {
            close_early(client);
            close_early(backend);
        }
        RelayOutcome::Reset => {
            client.abort_on_drop();
            backend.abort_on_drop();
        }
    }
    outcome
}

/// State of a relay.
struct Relay<'a> {
    up: Direction,
    down: Direction,
    counters: &'a PortCounters,
    relayed: &'a mut RelayedBytes,
    last_activity: Instant,
    idle_timeout: Duration,
    has_acknowledged: bool,
    has_yielded: bool,
}

impl Relay<'_> {
    /// Copies data in both directions. Returns the outcome when the relay has ended.
    fn poll_directions<C: RelayStream, B: RelayStream>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
        backend: &mut B,
    ) -> Option<RelayOutcome> {
        let may_defer = !self.has_yielded;
        let polled = [
            self.up
                .poll(cx, client, backend, self.down.is_drained(), may_defer),
            self.down
                .poll(cx, backend, client, self.up.is_drained(), may_defer),
        ];
        if !std::mem::replace(&mut self.has_acknowledged, true)
            && self.up.relayed_bytes() == 0
            && let Some(socket) = backend.plain_tcp()
        {
            acknowledge(socket);
        }
        self.count();
        match polled {
            [Poll::Ready(Err(error)), _] | [_, Poll::Ready(Err(error))] => {
                tracing::trace!(%error, "relayed connection failed");
                Some(RelayOutcome::Reset)
            }
            [Poll::Ready(Ok(())), Poll::Ready(Ok(()))] => Some(RelayOutcome::Finished),
            _ => None,
        }
    }

    /// Counts the bytes that have passed since the last call.
    fn count(&mut self) {
        let now = RelayedBytes {
            received: self.up.relayed_bytes(),
            sent: self.down.relayed_bytes(),
        };
        if now != *self.relayed {
            self.last_activity = Instant::now();
            self.counters.received(now.received - self.relayed.received);
            self.counters.sent(now.sent - self.relayed.sent);
            *self.relayed = now;
        }
    }

    /// Completes when the connection is idle for its timeout.
    fn poll_idle<C: RelayStream>(
        &mut self,
        cx: &mut Context<'_>,
        mut timer: Pin<&mut Sleep>,
        client: &C,
    ) -> Poll<()> {
        // The timer is reset only when it fires: most connections are active meanwhile, and a reset at each
        // read would cost more.
        while timer.as_mut().poll(cx).is_ready() {
            if client.is_throttled() {
                self.last_activity = Instant::now();
            }
            if self.last_activity + self.idle_timeout <= Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(self.last_activity + self.idle_timeout);
        }
        Poll::Pending
    }
}

/// Acknowledges the handshake of a backend at once, unless data acknowledges it. In some protocols, the backend sends
/// first.
fn acknowledge(backend: &TcpStream) {
    if let Err(error) = SockRef::from(backend).set_tcp_quickack(true) {
        tracing::debug!(%error, "TCP_QUICKACK not enabled; the handshake is acknowledged late");
    }
}

#[cfg(test)]
mod tests;
