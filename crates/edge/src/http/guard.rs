//! What stands between a connection of HTTP/1 and its parser: only bytes that [`Framing`] admits are passed on. A request that
//! is refused is replaced with an empty one, so that its refusal is answered in its turn, behind the answers before it. In the
//! other direction it puts interim answers between what the parser's side writes, which knows of none.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::activity::Activity;
use super::framing::{Framing, Place};
use super::refusal::Refusal;
use crate::relay::BreakOff;

#[cfg(test)]
mod tests;

/// Read at once.
const READ_BYTES: usize = 16 << 10;

thread_local! {
    /// Where bytes are read to: connections that wait need no room of their own.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// Read ahead while it is not known whether the protocol changes: enough to see that the client is gone.
const HELD_BYTES_MAX: usize = 16 << 10;
/// In the place of a request that is refused.
const REPLACEMENT: &[u8] = b"GET / HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
/// How long, and how much, is read and thrown away behind an answer that came before the end of its request: else the
/// kernel would send a reset, and the client lose the answer.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// The connection, for its parser.
pub struct Guard<S: BreakOff> {
    stream: S,
    framing: Framing,
    /// What was read and not passed on.
    buffer: BytesMut,
    /// So many bytes of it may be passed on.
    admitted: usize,
    is_at_end: bool,
    told: Told,
    activity: Arc<Activity>,
    head_timeout: Duration,
    timer: Pin<Box<Sleep>>,
    is_timed: bool,
    lingered: Option<usize>,
    /// An interim answer is written in part.
    is_amid_interim: bool,
}

/// What the guard and who answers the connection's requests tell each other.
#[derive(Clone, Debug, Default)]
pub struct Told(Arc<Mutex<Tellings>>);

#[derive(Debug, Default)]
struct Tellings {
    heads: u64,
    refused: Option<(u64, Refusal)>,
    decision: Option<Decision>,
    waker: Option<Waker>,
    /// Interim answers that are to be written.
    interim: BytesMut,
    /// Who waits until they are.
    interim_waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
enum Decision {
    Keep,
    Tunnel,
}

impl Told {
    /// Why the request of this number, counted from 1, is refused, if it is.
    pub fn refusal(&self, number: u64) -> Option<Refusal> {
        let tellings = self.tellings();
        tellings
            .refused
            .filter(|(refused, _)| *refused == number)
            .map(|(_, refusal)| refusal)
    }

    /// A request might have changed the protocol, and did not: the next one may be read.
    pub fn keep(&self) {
        self.decide(Decision::Keep);
    }

    /// The last request has changed the protocol.
    pub fn tunnel(&self) {
        self.decide(Decision::Tunnel);
    }

    /// Has an interim answer written, as soon as the answers before it are.
    pub fn say(&self, interim: &[u8]) {
        self.tellings().interim.extend_from_slice(interim);
    }

    /// Returns when all interim answers are written. An answer that is begun before comes in front of them.
    pub async fn said(&self) {
        poll_fn(|cx| {
            let mut tellings = self.tellings();
            if tellings.interim.is_empty() {
                return Poll::Ready(());
            }
            tellings.interim_waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn decide(&self, decision: Decision) {
        let mut tellings = self.tellings();
        tellings.decision = Some(decision);
        if let Some(waker) = tellings.waker.take() {
            waker.wake();
        }
    }

    fn tellings(&self) -> MutexGuard<'_, Tellings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + AsyncWrite + BreakOff + Unpin> Guard<S> {
    /// Of a connection of which `begin` has been read already. A head has to come within `head_timeout` of its first byte.
    pub fn new(stream: S, begin: BytesMut, head_timeout: Duration, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            framing: Framing::default(),
            buffer: begin,
            admitted: 0,
            is_at_end: false,
            told: Told::default(),
            activity,
            head_timeout,
            timer: Box::pin(sleep(head_timeout)),
            is_timed: false,
            lingered: None,
            is_amid_interim: false,
        }
    }

    /// Passes on all that comes, as it comes: it is not HTTP/1.
    pub fn pass_all(&mut self) {
        self.framing.tunnel();
    }

    /// What is told by and to the guard.
    pub fn told(&self) -> Told {
        self.told.clone()
    }

    /// Puts into effect what was decided about the protocol.
    fn follow_decision(&mut self, cx: &Context<'_>) {
        let mut tellings = self.told.tellings();
        match tellings.decision.take() {
            Some(Decision::Keep) => self.framing.keep(),
            Some(Decision::Tunnel) => self.framing.tunnel(),
            None if self.framing.place() == Place::Held => tellings.waker = Some(cx.waker().clone()),
            None => {}
        }
    }

    /// Replaces a head that is refused; ends a body that is.
    fn refuse(&mut self, refusal: Refusal, place: Place) -> io::Result<()> {
        let mut tellings = self.told.tellings();
        if place == Place::Body || tellings.refused.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, refusal));
        }
        tellings.refused = Some((tellings.heads + 1, refusal));
        drop(tellings);
        self.buffer.clear();
        self.buffer.extend_from_slice(REPLACEMENT);
        self.admitted = REPLACEMENT.len();
        self.time_head(false);
        Ok(())
    }

    fn is_refused(&self) -> bool {
        self.told.tellings().refused.is_some()
    }

    /// Looks at what was read. Whether something of it may be passed on now.
    fn admit(&mut self) -> io::Result<bool> {
        let place = self.framing.place();
        match self.framing.admit(&self.buffer) {
            Ok(admitted) => {
                self.admitted = admitted.bytes;
                if admitted.ends_a_head {
                    self.told.tellings().heads += 1;
                }
                let is_in_head = self.framing.place() == Place::Head;
                self.time_head(is_in_head);
                Ok(admitted.bytes > 0)
            }
            Err(refusal) => self.refuse(refusal, place).map(|()| true),
        }
    }

    fn time_head(&mut self, is_in_head: bool) {
        if is_in_head && !self.is_timed {
            self.timer.as_mut().reset(Instant::now() + self.head_timeout);
        }
        if is_in_head != self.is_timed {
            self.is_timed = is_in_head;
            self.activity.reading_head(is_in_head);
        }
    }

    /// Reads more behind what is there. `Ready` if something changed.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.framing.place() == Place::Held && self.buffer.len() >= HELD_BYTES_MAX {
            return Poll::Pending;
        }
        match poll_append(&mut self.stream, cx, &mut self.buffer) {
            Poll::Ready(Ok(0)) => {
                self.is_at_end = true;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(read) => Poll::Ready(read.map(|_| ())),
            Poll::Pending if self.is_timed => {
                ready!(self.timer.as_mut().poll(cx));
                Poll::Ready(self.refuse(Refusal::Slow, Place::Head))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Writes interim answers.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut tellings = self.told.tellings();
        while !tellings.interim.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &tellings.interim))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            tellings.interim.advance(written);
            self.is_amid_interim = !tellings.interim.is_empty();
        }
        if let Some(waker) = tellings.interim_waker.take() {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }

    /// Takes note of what was written: a client that takes an answer bit by bit is not silent.
    fn note_written(&self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(bytes)) if *bytes > 0) {
            self.activity.silence().broken();
        }
    }

    /// Reads and throws away what still comes, until the client has seen the answer.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.lingered.is_none() {
            self.timer.as_mut().reset(Instant::now() + LINGER);
            self.lingered = Some(0);
        }
        loop {
            self.buffer.clear();
            let lingered = self.lingered.unwrap_or(0);
            match poll_append(&mut self.stream, cx, &mut self.buffer) {
                Poll::Ready(Ok(read)) if read > 0 && lingered < LINGER_BYTES_MAX => {
                    self.lingered = Some(lingered + read);
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.timer.as_mut().poll(cx),
            }
        }
    }
}

/// An answer that broke off and that only the end of the connection could show must not end like a whole one.
impl<S: BreakOff> Drop for Guard<S> {
    fn drop(&mut self) {
        if self.activity.is_broken_off() {
            self.stream.break_off();
        }
    }
}

impl<S: AsyncRead + AsyncWrite + BreakOff + Unpin> AsyncRead for Guard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.admitted > 0 {
                let count = this.admitted.min(out.remaining());
                out.put_slice(this.buffer.get(..count).unwrap_or_default());
                this.buffer.advance(count);
                if this.buffer.is_empty() {
                    this.buffer = BytesMut::new();
                }
                this.admitted -= count;
                return Poll::Ready(Ok(()));
            }
            if this.is_refused() {
                // The answer ends the connection.
                return Poll::Pending;
            }
            this.follow_decision(cx);
            if this.framing.place() == Place::Tunnel && this.buffer.is_empty() {
                return Pin::new(&mut this.stream).poll_read(cx, out);
            }
            if this.admit()? {
                continue;
            }
            if this.is_at_end {
                return Poll::Ready(Ok(()));
            }
            ready!(this.poll_more(cx))?;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + BreakOff + Unpin> AsyncWrite for Guard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_amid_interim {
            ready!(self.poll_interim(cx))?;
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_written(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_amid_interim {
            ready!(self.poll_interim(cx))?;
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Whoever flushes has written all that there was: here is a place between two answers, or before an answer's head.
        ready!(self.poll_interim(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingered.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        let is_unread = self.is_refused() || self.framing.place() == Place::Body;
        if is_unread && !self.is_at_end {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads once behind what a buffer has.
fn poll_append<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    buffer: &mut BytesMut,
) -> Poll<io::Result<usize>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut read = ReadBuf::new(scratch);
        ready!(Pin::new(stream).poll_read(cx, &mut read))?;
        buffer.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    })
}
