//! One direction of two connections joined: what one says the other hears, up to its end.

use std::io;
use std::os::fd::AsFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::pipe::Pipe;

/// What is read at once, into a buffer that all connections of a thread share: those that say nothing cost none. A
/// direction whose reader is slow holds as much until it was taken.
pub const BUFFER_BYTES: usize = 64 << 10;

/// So many reads in a row that fill the buffer, or that the other side takes slowly, make a stream one with much to
/// say.
const BULK_STEPS: usize = 4;
/// What one step through a pipe passes on at least as long as the stream has much to say.
const THIN_BYTES: usize = 8 << 10;
/// So many steps with less in a row tell that it has no more.
const THIN_STEPS: usize = 16;
/// Steps that a direction has before others have their turn.
const TURN_STEPS: usize = 16;

/// Where a direction got to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pumped {
    /// All that was said is passed on.
    Empty,
    /// The reader takes no more for now.
    Full,
    /// There may be more, and others have their turn first.
    HasMore,
    /// The sender has ended, and all that it said is passed on.
    Ended,
}

/// The state of one direction.
#[derive(Debug, Default)]
pub struct Direction {
    /// What was read and not yet taken by the reader.
    rest: Box<[u8]>,
    /// Bytes of it that were.
    taken: usize,
    pipe: Option<Pipe>,
    /// Steps in a row that were full, or thin if there is a pipe.
    steps: usize,
    /// It has just turned out to have much to say.
    is_newly_large: bool,
    /// The kernel has told that the sender has ended; it does not tell it again.
    is_last: bool,
    /// A read may end before all that the kernel has.
    reads_on: bool,
    /// The reader has taken something.
    has_spoken: bool,
    is_ended: bool,
}

impl Direction {
    /// Takes note that the sender will say no more than what the kernel has already.
    pub fn note_end(&mut self) {
        self.is_last = true;
    }

    /// Takes note that a read may end before all that the kernel has: before what is urgent (`tcp(7)`, "sockatmark"), and
    /// before the error that tells that the connection broke.
    pub fn read_on(&mut self) {
        self.reads_on = true;
    }

    /// Whether the sender may go on, and perhaps not before what it said is known to be taken.
    pub fn is_amid(&self) -> bool {
        self.has_spoken && !self.is_last
    }

    /// Whether the reader was told anything.
    pub fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    /// Whether something was read that the reader has not taken.
    pub fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Reads what the sender has said by now, if nothing is left of what it said before: it is known then, whoever will be
    /// the reader. An error is the sender's.
    pub fn hear(&mut self, from: &impl AsFd, buffer: &mut [u8]) -> io::Result<()> {
        if !self.has_rest()
            && let Some((bytes, _)) = or_later(|| recv(from, &mut *buffer, RecvFlags::DONTWAIT))?
        {
            self.rest = buffer.get(..bytes).unwrap_or_default().into();
        }
        Ok(())
    }

    /// Tells a reader who may not be connected yet what was heard. Whether it took something: then it is. An error is one of a
    /// reader that has taken nothing: another one may be told instead.
    pub fn say(&mut self, to: &impl AsFd) -> io::Result<bool> {
        match self.flush(to) {
            // What it took nobody else may hear: with the next words it is found broken.
            Err(error) if !self.has_spoken => Err(error),
            _ => Ok(self.has_spoken),
        }
    }

    /// Whether it has turned out since the last call that there is much to pass on.
    pub fn takes_much_from_now_on(&mut self) -> bool {
        std::mem::take(&mut self.is_newly_large)
    }

    /// Whether all was passed on, up to the end.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Passes on what there is. The kernel tells of changes only; so it goes on until there is nothing more to read or
    /// no room to write, or its turn is over.
    pub fn pump(&mut self, from: &impl AsFd, to: &impl AsFd, buffer: &mut [u8]) -> io::Result<Pumped> {
        if self.is_ended {
            return Ok(Pumped::Ended);
        }
        for _ in 0..TURN_STEPS {
            if !self.flush(to)? {
                return Ok(Pumped::Full);
            }
            self.let_thin_go();
            let step = match self.pipe {
                Some(_) => self.splice(from)?,
                None => self.copy(from, to, buffer)?,
            };
            if let Some(pumped) = step {
                self.is_ended = pumped == Pumped::Ended;
                return Ok(pumped);
            }
        }
        Ok(Pumped::HasMore)
    }

    /// Passes on what was read before; whether the reader took all.
    fn flush(&mut self, to: &impl AsFd) -> io::Result<bool> {
        if let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.held > 0) {
            return Ok(or_later(|| pipe.drain(to))?.is_some());
        }
        while let Some(left) = self.rest.get(self.taken..).filter(|left| !left.is_empty()) {
            match or_later(|| send(to, left, SEND))? {
                Some(bytes) => {
                    self.taken += bytes;
                    self.has_spoken = true;
                }
                None => return Ok(false),
            }
        }
        (self.rest, self.taken) = (Box::default(), 0);
        Ok(true)
    }

    /// A step of a stream that says little. `None` if it may go on at once.
    fn copy(&mut self, from: &impl AsFd, to: &impl AsFd, buffer: &mut [u8]) -> io::Result<Option<Pumped>> {
        let Some((bytes, _)) = or_later(|| recv(from, &mut *buffer, RecvFlags::DONTWAIT))? else {
            self.reads_on = false;
            return Ok(Some(Pumped::Empty));
        };
        if bytes == 0 {
            return Ok(Some(Pumped::Ended));
        }
        let is_full = bytes == buffer.len();
        let words = buffer.get(..bytes).unwrap_or_default();
        // The end that is known to follow goes in the same packet as the last words.
        let flags = match self.is_last && !is_full {
            true => SEND | SendFlags::MORE,
            false => SEND,
        };
        let taken = or_later(|| send(to, words, flags))?.unwrap_or(0);
        self.has_spoken |= taken > 0;
        self.rest = words.get(taken..).unwrap_or_default().into();
        self.steps = match is_full || !self.rest.is_empty() {
            true => self.steps + 1,
            false => 0,
        };
        if self.steps >= BULK_STEPS {
            self.steps = 0;
            self.is_newly_large = true;
            self.pipe = Pipe::open();
        }
        // Any other read has taken all that there was.
        if is_full || self.has_rest() || self.reads_on {
            return Ok(None);
        }
        Ok(Some(match self.is_last {
            true => Pumped::Ended,
            false => Pumped::Empty,
        }))
    }

    /// A step of a stream with much to say. `None` if it may go on at once.
    fn splice(&mut self, from: &impl AsFd) -> io::Result<Option<Pumped>> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(None);
        };
        let Some(bytes) = or_later(|| pipe.fill(from))? else {
            return Ok(Some(Pumped::Empty));
        };
        if bytes == 0 {
            return Ok(Some(Pumped::Ended));
        }
        self.steps = if bytes < THIN_BYTES { self.steps + 1 } else { 0 };
        Ok(None)
    }

    /// Lets the pipe of a stream go that says little by now.
    fn let_thin_go(&mut self) {
        if self.steps >= THIN_STEPS && self.pipe.as_ref().is_some_and(|pipe| pipe.held == 0) {
            (self.pipe, self.steps) = (None, 0);
        }
    }
}

const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Nothing where the kernel says that it is to be tried later.
fn or_later<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<Option<T>> {
    match retry_on_intr(call) {
        Ok(value) => Ok(Some(value)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
