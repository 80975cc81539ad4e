//! Guard between an HTTP/1 connection and its parser, against request smuggling (RFC 9112, section 11.2).
//!
//! Only bytes that [`Framing`] admits reach the parser. An empty request replaces a rejected one, so that
//! the response to it comes after those to earlier requests. In the other direction, the guard inserts informational
//! responses, which the parser cannot write.

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
use super::framing::{Framing, Position};
use super::rejection::RequestRejection;
use crate::stream::AbortiveClose;

#[cfg(test)]
mod tests;

/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;

thread_local! {
    /// Read buffer of a thread: waiting connections need no buffer of their own.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// Maximum number of bytes that are read ahead while a switch of protocols is undecided: enough to detect that the
/// client closed the connection.
const HELD_BYTES_MAX: usize = 16 << 10;
/// Request that replaces a rejected one.
const REPLACEMENT: &[u8] = b"GET / HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
/// Bounds, in time and bytes, of discarding the rest of a request after an early response. Without discarding, a reset
/// by the kernel would remove the response from the client's receive buffer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const DRAIN_BYTES_MAX: usize = 1 << 20;

/// Connection for its parser.
pub(super) struct RequestSmugglingGuard<S: AbortiveClose> {
    stream: S,
    framing: Framing,
    /// Bytes that were read and not passed to the parser.
    buffer: BytesMut,
    /// Number of bytes that may pass to the parser.
    admitted: usize,
    is_at_end: bool,
    handle: GuardHandle,
    activity: Arc<Activity>,
    head_timeout: Duration,
    timer: Pin<Box<Sleep>>,
    is_timer_set: bool,
    drained: Option<usize>,
    /// True while an informational response is written in part.
    is_amid_informational: bool,
    /// False if another part records the activity of writes.
    notes_writes: bool,
}

/// State that the guard shares with the tasks that respond to requests.
#[derive(Clone, Debug, Default)]
pub(super) struct GuardHandle(Arc<Mutex<GuardState>>);

/// State that the guard and the handler of requests share.
#[derive(Debug, Default)]
struct GuardState {
    heads: u64,
    rejected: Option<(u64, RequestRejection)>,
    decision: Option<Decision>,
    waker: Option<Waker>,
    /// Informational responses to be written.
    informational: BytesMut,
    /// Task that waits until they are written.
    informational_waker: Option<Waker>,
}

/// Decision of the handler about a request for an upgrade.
#[derive(Clone, Copy, Debug)]
enum Decision {
    Resume,
    Tunnel,
}

impl GuardHandle {
    /// Returns the rejection of the request with this number, counted from 1.
    pub(super) fn rejection(&self, number: u64) -> Option<RequestRejection> {
        let state = self.state();
        state
            .rejected
            .filter(|(rejected, _)| *rejected == number)
            .map(|(_, rejection)| rejection)
    }

    /// Decides that a request has not switched protocols: the next one may be read.
    pub(super) fn resume(&self) {
        self.decide(Decision::Resume);
    }

    /// Decides that the last request has switched protocols.
    pub(super) fn tunnel(&self) {
        self.decide(Decision::Tunnel);
    }

    /// Writes an informational response, as soon as earlier responses are written.
    pub(super) fn write_informational(&self, informational: &[u8]) {
        self.state().informational.extend_from_slice(informational);
    }

    /// Completes when all informational responses are written. A response that starts before precedes them.
    pub(super) async fn informational_written(&self) {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.informational.is_empty() {
                return Poll::Ready(());
            }
            state.informational_waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn decide(&self, decision: Decision) {
        let mut state = self.state();
        state.decision = Some(decision);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, GuardState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + AsyncWrite + AbortiveClose + Unpin> RequestSmugglingGuard<S> {
    /// Creates the guard of a connection of which `initial` has been read already. Each head has to arrive within
    /// `head_timeout` of its first byte.
    pub(super) fn new(stream: S, initial: BytesMut, head_timeout: Duration, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            framing: Framing::default(),
            buffer: initial,
            admitted: 0,
            is_at_end: false,
            handle: GuardHandle::default(),
            activity,
            head_timeout,
            timer: Box::pin(sleep(head_timeout)),
            is_timer_set: false,
            drained: None,
            is_amid_informational: false,
            notes_writes: true,
        }
    }

    /// Passes all bytes unchanged and records no activity, for protocols other than HTTP/1.
    pub(super) fn pass_all(&mut self) {
        self.framing.tunnel();
        self.notes_writes = false;
    }

    /// Returns the handle of this guard.
    pub(super) fn handle(&self) -> GuardHandle {
        self.handle.clone()
    }

    /// Applies the decision about the protocol.
    fn apply_decision(&mut self, cx: &Context<'_>) {
        let mut state = self.handle.state();
        match state.decision.take() {
            Some(Decision::Resume) => self.framing.resume(),
            Some(Decision::Tunnel) => self.framing.tunnel(),
            None if self.framing.position() == Position::Held => state.waker = Some(cx.waker().clone()),
            None => {}
        }
    }

    /// Replaces a rejected head, or fails a rejected body.
    fn reject(&mut self, rejection: RequestRejection, position: Position) -> io::Result<()> {
        let mut state = self.handle.state();
        if position == Position::Body || state.rejected.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, rejection));
        }
        state.rejected = Some((state.heads + 1, rejection));
        drop(state);
        self.buffer.clear();
        self.buffer.extend_from_slice(REPLACEMENT);
        self.admitted = REPLACEMENT.len();
        self.time_head(false);
        Ok(())
    }

    fn is_rejected(&self) -> bool {
        self.handle.state().rejected.is_some()
    }

    /// Examines the bytes that were read. Returns true if some may pass to the parser.
    fn admit(&mut self) -> io::Result<bool> {
        let position = self.framing.position();
        match self.framing.admit(&self.buffer) {
            Ok(admitted) => {
                self.admitted = admitted.bytes;
                if admitted.is_head_complete {
                    self.handle.state().heads += 1;
                }
                let is_in_head = self.framing.position() == Position::Head;
                self.time_head(is_in_head);
                Ok(admitted.bytes > 0)
            }
            Err(rejection) => self.reject(rejection, position).map(|()| true),
        }
    }

    fn time_head(&mut self, is_in_head: bool) {
        if is_in_head && !self.is_timer_set {
            self.timer.as_mut().reset(Instant::now() + self.head_timeout);
        }
        if is_in_head != self.is_timer_set {
            self.is_timer_set = is_in_head;
            self.activity.reading_head(is_in_head);
        }
    }

    /// Reads more bytes. `Ready` means that something changed.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.framing.position() == Position::Held && self.buffer.len() >= HELD_BYTES_MAX {
            return Poll::Pending;
        }
        match poll_append(&mut self.stream, cx, &mut self.buffer) {
            Poll::Ready(Ok(0)) => {
                self.is_at_end = true;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(read) => Poll::Ready(read.map(|_| ())),
            Poll::Pending if self.is_timer_set => {
                ready!(self.timer.as_mut().poll(cx));
                Poll::Ready(self.reject(RequestRejection::Slow, Position::Head))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Writes informational responses.
    fn poll_informational_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.handle.state();
        while !state.informational.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &state.informational))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            state.informational.advance(written);
            self.is_amid_informational = !state.informational.is_empty();
        }
        if let Some(waker) = state.informational_waker.take() {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }

    /// Records activity: a client that receives a response slowly is not idle.
    fn record_written(&self, written: &Poll<io::Result<usize>>) {
        if self.notes_writes && matches!(written, Poll::Ready(Ok(bytes)) if *bytes > 0) {
            self.activity.idle().touch();
        }
    }

    /// Discards the rest of a request until the client has received the response.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.drained.is_none() {
            self.timer.as_mut().reset(Instant::now() + DRAIN_TIMEOUT);
            self.drained = Some(0);
        }
        loop {
            self.buffer.clear();
            let drained = self.drained.unwrap_or(0);
            match poll_append(&mut self.stream, cx, &mut self.buffer) {
                Poll::Ready(Ok(read)) if read > 0 && drained < DRAIN_BYTES_MAX => {
                    self.drained = Some(drained + read);
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.timer.as_mut().poll(cx),
            }
        }
    }
}

/// A truncated response that only the end of the connection delimits must not look complete.
impl<S: AbortiveClose> Drop for RequestSmugglingGuard<S> {
    fn drop(&mut self) {
        if self.activity.is_truncated() {
            self.stream.abort_on_drop();
        }
    }
}

impl<S: AsyncRead + AsyncWrite + AbortiveClose + Unpin> AsyncRead for RequestSmugglingGuard<S> {
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
            if this.is_rejected() {
                // The response ends the connection.
                return Poll::Pending;
            }
            this.apply_decision(cx);
            if this.framing.position() == Position::Tunnel && this.buffer.is_empty() {
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

impl<S: AsyncRead + AsyncWrite + AbortiveClose + Unpin> AsyncWrite for RequestSmugglingGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_amid_informational {
            ready!(self.poll_informational_write(cx))?;
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.record_written(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_amid_informational {
            ready!(self.poll_informational_write(cx))?;
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.record_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The parser flushes after complete writes, so this is between two responses, or before the head of one.
        ready!(self.poll_informational_write(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.drained.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        let is_unread = self.is_rejected() || self.framing.position() == Position::Body;
        if is_unread && !self.is_at_end {
            ready!(self.poll_drain(cx));
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads once and appends to a buffer.
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
