//! Initial data of a client: bytes that it sends before its backend connection is open.
//!
//! The bytes are written as soon as `connect()` returns. A backend on the same node is connected by then, so neither
//! side waits.

use std::io;
use std::os::fd::AsFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::net::TcpStream;

use super::buffer::BUFFER;

/// Initial data of a client, and the number of bytes that a backend has taken.
#[derive(Debug, Default)]
pub(crate) struct InitialData {
    pub(super) bytes: Box<[u8]>,
    pub(super) sent: usize,
}

impl InitialData {
    /// Reads the bytes that a client has sent by now, possibly none.
    ///
    /// # Errors
    /// The error of the connection.
    pub(crate) fn read_available(client: &TcpStream) -> io::Result<Self> {
        BUFFER.with_borrow_mut(|buffer| {
            let received = retry_on_intr(|| recv(client, &mut buffer[..], RecvFlags::DONTWAIT));
            let count = match received {
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => 0,
                Err(error) => return Err(error.into()),
            };
            Ok(Self {
                bytes: buffer.get(..count).unwrap_or_default().into(),
                sent: 0,
            })
        })
    }

    /// Sends the bytes to a backend whose connection may not be open yet. Returns true if the backend took some of
    /// them; the connection is then open.
    ///
    /// # Errors
    /// The error of the connection. The backend has then taken no byte, and another backend can receive the data.
    pub(crate) fn try_send(&mut self, backend: &impl AsFd) -> io::Result<bool> {
        if self.bytes.is_empty() {
            return Ok(false);
        }
        const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
        match retry_on_intr(|| send(backend, &self.bytes, FLAGS)) {
            Ok(count) => {
                self.sent = count;
                Ok(count > 0)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Bytes that a backend took while it was called.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent as u64
    }

    /// Returns true if a backend took bytes during `connect()`, as a backend on a near host does.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent > 0
    }
}

#[cfg(test)]
mod tests;
