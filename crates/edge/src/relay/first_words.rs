//! What a client has said before it is joined with a backend. It is passed on as soon as the backend is connected: one that is
//! near is when it is called, and then nobody waits for anybody.

use std::io;
use std::os::fd::AsFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::net::TcpStream;

use super::direction::BUFFER;

/// What a client said, and how much of it a backend has taken.
#[derive(Debug, Default)]
pub(crate) struct FirstWords {
    pub(super) words: Box<[u8]>,
    pub(super) taken: usize,
}

impl FirstWords {
    /// What a client has said by now; nothing if it has said nothing. An error if its connection is broken.
    pub fn hear(client: &TcpStream) -> io::Result<Self> {
        BUFFER.with_borrow_mut(|buffer| {
            let heard = retry_on_intr(|| recv(client, &mut buffer[..], RecvFlags::DONTWAIT));
            let bytes = match heard {
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN) => 0,
                Err(error) => return Err(error.into()),
            };
            Ok(Self {
                words: buffer.get(..bytes).unwrap_or_default().into(),
                taken: 0,
            })
        })
    }

    /// Tells them to a backend that was called and may not be connected yet. Whether it took something: then it is. After an
    /// error it has taken nothing, and another one may be told.
    pub fn say(&mut self, backend: &impl AsFd) -> io::Result<bool> {
        if self.words.is_empty() {
            return Ok(false);
        }
        const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
        match retry_on_intr(|| send(backend, &self.words, FLAGS)) {
            Ok(bytes) => {
                self.taken = bytes;
                Ok(bytes > 0)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// How much a backend took when it was called.
    pub fn taken_bytes(&self) -> u64 {
        self.taken as u64
    }

    /// Whether a backend took them when it was called: it is near.
    pub fn are_taken(&self) -> bool {
        self.taken > 0
    }
}

#[cfg(test)]
mod tests;
