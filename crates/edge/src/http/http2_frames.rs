//! Frames of an HTTP/2 client, between its connection and `h2`. Frames of requests and responses are activity. Others,
//! such as PING and its acknowledgment, are not: a client without requests could keep its connection open with them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::activity::Activity;

#[cfg(test)]
mod tests;

/// Bytes before the first frame of a client (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
/// Types of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
/// Flag of the acknowledgment of a PING.
const ACK: u8 = 1;
/// PINGs of a client within [`PING_INTERVAL`], without frames of requests and responses between them. Clients of gRPC
/// send one for each round trip while they receive data.
const PINGS_MAX: u32 = 100;
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Part of the bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    kind: u8,
    flags: u8,
    /// True for the part that completes the head of the frame.
    is_head: bool,
}

impl Part {
    fn is_of_stream(self) -> bool {
        matches!(self.kind, DATA | HEADERS | CONTINUATION)
    }

    fn begins_ping(self) -> bool {
        self.is_head && self.kind == PING && self.flags & ACK == 0
    }
}

/// Boundaries of frames in one direction.
#[derive(Debug)]
struct Frames {
    /// Bytes before the next head.
    skipped: usize,
    head: [u8; HEAD_BYTES],
    head_length: usize,
    kind: u8,
    flags: u8,
}

impl Frames {
    /// Creates the boundaries behind `skipped` bytes.
    fn new(skipped: usize) -> Self {
        Self {
            skipped,
            head: [0; HEAD_BYTES],
            head_length: 0,
            // The preface is of no stream.
            kind: PING,
            flags: ACK,
        }
    }

    /// Examines the next bytes, and reports the parts of frames in them.
    fn pass(&mut self, mut bytes: &[u8], mut report: impl FnMut(Part)) {
        while !bytes.is_empty() {
            let is_head = self.skipped == 0;
            let length = if is_head {
                HEAD_BYTES - self.head_length
            } else {
                self.skipped
            };
            let (part, rest) = bytes.split_at(length.min(bytes.len()));
            bytes = rest;
            if !is_head {
                self.skipped -= part.len();
                report(self.part(false));
                continue;
            }
            let end = self.head_length + part.len();
            if let Some(head) = self.head.get_mut(self.head_length..end) {
                head.copy_from_slice(part);
            }
            self.head_length = end;
            if end == HEAD_BYTES {
                self.head_length = 0;
                let [a, b, c, kind, flags, ..] = self.head;
                self.skipped = u32::from_be_bytes([0, a, b, c]) as usize;
                (self.kind, self.flags) = (kind, flags);
                report(self.part(true));
            }
        }
    }

    fn part(&self, is_head: bool) -> Part {
        Part {
            kind: self.kind,
            flags: self.flags,
            is_head,
        }
    }
}

/// Count of the PINGs of a client.
#[derive(Debug)]
struct PingLimit {
    since: Instant,
    pings: u32,
}

impl PingLimit {
    /// Counts a PING. Returns false if it is one too many.
    fn admit(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= PING_INTERVAL {
            self.since = now;
            self.pings = 0;
        }
        self.pings += 1;
        self.pings <= PINGS_MAX
    }
}

/// Connection of an HTTP/2 client that records its activity.
pub(super) struct Http2Stream<S> {
    stream: S,
    read: Frames,
    written: Frames,
    pings: PingLimit,
    activity: Arc<Activity>,
}

impl<S> Http2Stream<S> {
    /// Records the activity of a connection, from the preface on.
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            read: Frames::new(PREFACE_BYTES),
            written: Frames::new(0),
            pings: PingLimit {
                since: Instant::now(),
                pings: 0,
            },
            activity,
        }
    }

    fn record_read(&mut self, bytes: &[u8]) {
        let (pings, activity) = (&mut self.pings, &self.activity);
        self.read.pass(bytes, |part| {
            if part.is_of_stream() {
                pings.pings = 0;
                activity.idle().touch();
            } else if part.begins_ping() && !pings.admit(Instant::now()) {
                activity.set_flooded();
            }
        });
    }

    fn record_written<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>, mut length: usize) {
        let (pings, activity) = (&mut self.pings, &self.activity);
        for bytes in parts {
            let (bytes, _) = bytes.split_at(length.min(bytes.len()));
            length -= bytes.len();
            self.written.pass(bytes, |part| {
                if part.is_of_stream() {
                    pings.pings = 0;
                    activity.idle().touch();
                }
            });
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Http2Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.activity.is_flooded() {
            // The server ends the connection without reading more of it.
            return Poll::Pending;
        }
        let before = out.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, out))?;
        self.record_read(out.filled().get(before..).unwrap_or_default());
        if self.activity.is_flooded() {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Http2Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.record_written(std::iter::once(bytes), length);
        Poll::Ready(Ok(length))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, parts))?;
        self.record_written(parts.iter().map(|part| &**part), length);
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
