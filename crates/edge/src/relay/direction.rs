//! One direction of a relay.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, send};
use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;

use super::first_words::FirstWords;
use super::pipe::Pipe;
use super::{Side, is_end};

/// What is read at once, into a buffer that all connections of a thread share: silent ones hold none. A direction whose
/// reader is slow holds as much until it was taken.
const BUFFER_BYTES: usize = 64 << 10;
/// A read of at least so much is one of a stream that has much to say.
const MUCH_BYTES: usize = 16 << 10;
/// So many of them in a row, and the stream gets a pipe.
const MUCH_STEPS: u32 = 8;
/// What one step through a pipe moves at least as long as the stream has much to say.
const LITTLE_BYTES: usize = 8 << 10;
/// So many steps in a row with less, and the pipe goes.
const LITTLE_STEPS: u32 = 16;
/// Steps that a direction has before other connections have their turn.
const TURN_STEPS: u32 = 32;

thread_local! {
    pub(super) static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_BYTES].into());
}

/// The state of a direction.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// What was read and not yet taken.
    rest: Box<[u8]>,
    /// Bytes of it that were.
    taken: usize,
    pipe: Option<Pipe>,
    /// Steps in a row with much, or with little if there is a pipe.
    steps: u32,
    passed_bytes: u64,
    /// The reader may hold back what it took until it is asked not to.
    is_unflushed: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// There may be more.
    #[default]
    Open,
    /// All was read and taken. The reader is told after others had their turn: who was just answered may have ended by
    /// then, and one packet less goes over the line.
    Read,
    /// The reader is to be told.
    Ending,
    /// The reader is to be told, and what it was sent last waits for that in the kernel, to go in the same packet.
    EndingWithLast,
    /// It was told.
    Ended,
}

/// How a step went on.
enum Step {
    /// Something was read.
    Read,
    /// The writer has said all.
    End,
    /// The same, and what it said last is sent when the reader is told.
    EndWithLast,
}

impl Direction {
    /// One that goes on with what was heard already.
    pub fn following(first: FirstWords) -> Self {
        Self {
            rest: first.words,
            taken: first.taken,
            passed_bytes: first.taken as u64,
            ..Self::default()
        }
    }

    /// Whether all was passed on; the reader may not know yet that it was all.
    pub fn is_read(&self) -> bool {
        self.stage != Stage::Open && self.rest.is_empty()
    }

    /// Whether others are to have their turn before the reader is told of the end.
    pub fn holds_end(&self) -> bool {
        self.stage == Stage::Read && self.rest.is_empty()
    }

    /// Bytes that the reader took.
    pub fn passed_bytes(&self) -> u64 {
        self.passed_bytes
    }

    /// Passes on what there is. Ready when all was, and the reader was told of the end, which is mostly not done yet with
    /// `may_hold`; `is_last` says that the other direction has nothing more to pass on either, so that both connections are
    /// closed anyway.
    pub fn poll<F: Side, T: Side>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to: &mut T,
        is_last: bool,
        may_hold: bool,
    ) -> Poll<io::Result<()>> {
        for _ in 0..TURN_STEPS {
            if self.stage == Stage::Ended {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_rest(cx, to))?;
            if self.stage == Stage::Read {
                if may_hold && !is_last {
                    return Poll::Pending;
                }
                self.stage = Stage::Ending;
            }
            if matches!(self.stage, Stage::Ending | Stage::EndingWithLast) {
                // Closing a plain connection says the same as its end.
                let is_said_by_closing = self.stage == Stage::Ending && is_last && to.bare().is_some();
                if !is_said_by_closing {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                }
                self.stage = Stage::Ended;
                continue;
            }
            if self.pipe.is_some() && self.steps >= LITTLE_STEPS {
                (self.pipe, self.steps) = (None, 0);
            }
            let step = match self.pipe {
                Some(_) => self.poll_splice(cx, from)?,
                None => self.poll_copy(cx, from, to)?,
            };
            match step {
                Poll::Ready(Step::Read) => {}
                Poll::Ready(Step::End) => self.stage = Stage::Read,
                Poll::Ready(Step::EndWithLast) => self.stage = Stage::EndingWithLast,
                Poll::Pending => {
                    if self.is_unflushed && Pin::new(&mut *to).poll_flush(cx)?.is_ready() {
                        self.is_unflushed = false;
                    }
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Passes on what was read before.
    fn poll_rest<T: Side>(&mut self, cx: &mut Context<'_>, to: &mut T) -> Poll<io::Result<()>> {
        while self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty()) {
            let (Some(pipe), Some(socket)) = (&mut self.pipe, to.bare()) else {
                break;
            };
            ready!(socket.poll_write_ready(cx))?;
            match pipe.drain(socket) {
                Ok(bytes) => self.passed_bytes += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        while let Some(left) = self.rest.get(self.taken..).filter(|left| !left.is_empty()) {
            let bytes = ready!(Pin::new(&mut *to).poll_write(cx, left))?;
            if bytes == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.note_taken(bytes);
        }
        if self.taken > 0 {
            (self.rest, self.taken) = (Box::default(), 0);
        }
        Poll::Ready(Ok(()))
    }

    fn note_taken(&mut self, bytes: usize) {
        self.taken += bytes;
        self.passed_bytes += bytes as u64;
        self.is_unflushed = true;
    }

    /// A step of a stream that says little: through the thread's buffer.
    fn poll_copy<F: Side, T: Side>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to: &mut T,
    ) -> io::Result<Poll<Step>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut read = ReadBuf::new(buffer);
            let next = poll_fill(cx, from, &mut read);
            let words = read.filled();
            if words.is_empty() {
                return next;
            }
            let is_all = matches!(next, Ok(Poll::Ready(Step::End)));
            let (taken, is_held) = match to.bare().filter(|_| is_all) {
                Some(socket) => (poll_write_last(cx, socket, words)?, true),
                None => (Pin::new(&mut *to).poll_write(cx, words)?, false),
            };
            let taken = match taken {
                Poll::Ready(taken) => taken,
                Poll::Pending => 0,
            };
            self.rest = words.get(taken..).unwrap_or_default().into();
            self.passed_bytes += taken as u64;
            self.is_unflushed = true;
            self.steps = if words.len() >= MUCH_BYTES {
                self.steps + 1
            } else {
                0
            };
            if self.steps >= MUCH_STEPS {
                self.steps = 0;
                if from.bare().is_some() && to.bare().is_some() {
                    self.pipe = Pipe::take();
                }
            }
            match next? {
                Poll::Ready(Step::End) if is_held && self.rest.is_empty() => {
                    Ok(Poll::Ready(Step::EndWithLast))
                }
                Poll::Pending if !self.rest.is_empty() => Ok(Poll::Ready(Step::Read)),
                next => Ok(next),
            }
        })
    }

    /// A step of a stream with much to say: into the pipe, from which it goes on before the next step.
    fn poll_splice<F: Side>(&mut self, cx: &mut Context<'_>, from: &mut F) -> io::Result<Poll<Step>> {
        let (Some(pipe), Some(socket)) = (&mut self.pipe, from.bare()) else {
            return Ok(Poll::Ready(Step::Read));
        };
        loop {
            if socket.poll_read_ready(cx)?.is_pending() {
                return Ok(Poll::Pending);
            }
            match pipe.fill(socket) {
                Ok(0) => return Ok(Poll::Ready(Step::End)),
                Ok(bytes) => {
                    self.steps = if bytes < LITTLE_BYTES { self.steps + 1 } else { 0 };
                    return Ok(Poll::Ready(Step::Read));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Reads until there is nothing more for now, or no room: what goes on then says so if it is the last.
fn poll_fill<F: Side>(cx: &mut Context<'_>, from: &mut F, read: &mut ReadBuf<'_>) -> io::Result<Poll<Step>> {
    while read.remaining() > 0 {
        let before = read.filled().len();
        match Pin::new(&mut *from).poll_read(cx, read) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Err(error)) if is_end(&error) => return Ok(Poll::Ready(Step::End)),
            Poll::Ready(result) => result?,
        }
        if read.filled().len() == before {
            return Ok(Poll::Ready(Step::End));
        }
    }
    Ok(Poll::Ready(Step::Read))
}

/// Writes what is the last: the kernel holds it back, for a moment, until the end is there to go with it.
fn poll_write_last(cx: &mut Context<'_>, to: &TcpStream, words: &[u8]) -> io::Result<Poll<usize>> {
    const FLAGS: SendFlags = SendFlags::MORE.union(SendFlags::NOSIGNAL);
    loop {
        if to.poll_write_ready(cx)?.is_pending() {
            return Ok(Poll::Pending);
        }
        let written = to.try_io(Interest::WRITABLE, || {
            Ok(retry_on_intr(|| send(to, words, FLAGS))?)
        });
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => return written.map(Poll::Ready),
        }
    }
}
