//! Two connections joined: what one says the other hears, each direction ends by itself, and what breaks one breaks the
//! other.

mod direction;
mod first_words;
mod pipe;

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use crate::counters::Counters;
use crate::outbound;
use direction::Direction;
pub(crate) use first_words::FirstWords;

/// What a connection passes at most in either direction to have passed little: the kernel lets the buffers of a socket grow with
/// what goes over it, and they stay as they are.
const LITTLE_BYTES: u64 = 64 << 10;

/// A side of a relay.
pub(crate) trait Side: AsyncRead + AsyncWrite + BreakOff + Unpin {
    /// The connection, if its bytes are passed on as they are: then the kernel can be asked to do it.
    fn bare(&self) -> Option<&TcpStream>;

    /// The connection that carries the bytes.
    fn socket(&self) -> &TcpStream;

    /// Whether it is inside of TLS, where there is a word for the end of a connection.
    fn is_tls(&self) -> bool {
        false
    }

    /// Whether it waits for its turn, since a bandwidth is shared: then it is not its peer that is silent.
    fn is_held_back(&self) -> bool {
        false
    }
}

/// Something that can end before its stream does.
pub(crate) trait BreakOff {
    /// Has the peer see, when this is dropped, that what it got is not all.
    fn break_off(&mut self);
}

impl Side for TcpStream {
    fn bare(&self) -> Option<&TcpStream> {
        Some(self)
    }

    fn socket(&self) -> &TcpStream {
        self
    }
}

impl BreakOff for TcpStream {
    fn break_off(&mut self) {
        reset_at_close(self);
    }
}

/// Of `AsyncWrite`, what a connection leaves to the field that carries it: all but writing.
macro_rules! carried_by {
    ($field:ident) => {
        fn is_write_vectored(&self) -> bool {
            self.$field.is_write_vectored()
        }

        fn poll_flush(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::std::pin::Pin::new(&mut self.$field).poll_flush(cx)
        }

        fn poll_shutdown(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::std::pin::Pin::new(&mut self.$field).poll_shutdown(cx)
        }
    };
}
pub(crate) use carried_by;

/// How a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Both sides have said all.
    Finished,
    /// Nobody has said anything for too long.
    Idle,
    /// One side broke off.
    Broken,
}

impl Outcome {
    /// In one word, for logs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Finished => "ok",
            Self::Idle => "idle",
            Self::Broken => "reset",
        }
    }
}

/// What was passed on so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Bytes from the client to the backend.
    pub received_bytes: u64,
    /// Bytes from the backend to the client.
    pub sent_bytes: u64,
}

impl Passed {
    /// Whether it is so little that the kernel has not fitted the sockets to it.
    pub fn is_little(self) -> bool {
        self.received_bytes.max(self.sent_bytes) <= LITTLE_BYTES
    }
}

/// Passes on what client and backend say until both have ended, one breaks off, or both are silent for `idle`; `first` is what the
/// client has said already. `passed` is true at any time, also if this is dropped before that.
pub(crate) async fn relay<C: Side, B: Side>(
    client: &mut C,
    backend: &mut B,
    first: FirstWords,
    idle: Duration,
    counters: &Counters,
    passed: &mut Passed,
) -> Outcome {
    let (mut up, mut down) = (Direction::following(first), Direction::default());
    let mut last = Instant::now();
    let mut timer = pin!(sleep_until(last + idle));
    let mut others = pin!(yield_now());
    let (mut had_others_a_turn, mut is_begun) = (false, false);
    let outcome = poll_fn(|cx| {
        loop {
            let both = [
                up.poll(cx, client, backend, down.is_read(), !had_others_a_turn),
                down.poll(cx, backend, client, up.is_read(), !had_others_a_turn),
            ];
            if !std::mem::replace(&mut is_begun, true)
                && up.passed_bytes() == 0
                && let Some(socket) = backend.bare()
            {
                outbound::acknowledge(socket);
            }
            let now_passed = Passed {
                received_bytes: up.passed_bytes(),
                sent_bytes: down.passed_bytes(),
            };
            if now_passed != *passed {
                last = Instant::now();
                counters.received(now_passed.received_bytes - passed.received_bytes);
                counters.sent(now_passed.sent_bytes - passed.sent_bytes);
                *passed = now_passed;
            }
            match both {
                [Poll::Ready(Err(error)), _] | [_, Poll::Ready(Err(error))] => {
                    tracing::trace!(%error, "a connection broke");
                    return Poll::Ready(Outcome::Broken);
                }
                [Poll::Ready(Ok(())), Poll::Ready(Ok(()))] => return Poll::Ready(Outcome::Finished),
                _ => {}
            }
            if up.holds_end() || down.holds_end() {
                if !(up.is_read() && down.is_read()) {
                    ready!(others.as_mut().poll(cx));
                }
                had_others_a_turn = true;
                continue;
            }
            // The timer is set once, and set again only when it comes: most connections say something meanwhile.
            while timer.as_mut().poll(cx).is_ready() {
                if client.is_held_back() {
                    last = Instant::now();
                }
                if last + idle <= Instant::now() {
                    return Poll::Ready(Outcome::Idle);
                }
                timer.as_mut().reset(last + idle);
            }
            return Poll::Pending;
        }
    })
    .await;
    match outcome {
        Outcome::Finished => {}
        Outcome::Idle => {
            end_early(client);
            end_early(backend);
        }
        Outcome::Broken => {
            client.break_off();
            backend.break_off();
        }
    }
    outcome
}

/// Has the peer told, as soon as the connection is dropped, that it is the edge that ends it.
pub(crate) fn end_early(side: &mut impl Side) {
    if !side.is_tls() {
        side.break_off();
    }
}

/// Has the peer told by a reset, as soon as the connection is dropped.
pub(crate) fn reset_at_close(stream: &TcpStream) {
    let told = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
    if let Err(error) = told {
        tracing::debug!(%error, "a connection is closed rather than reset");
    }
}

/// A broken-off TLS stream, without the alert that should end it, has ended all the same.
fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

#[cfg(test)]
mod tests;
