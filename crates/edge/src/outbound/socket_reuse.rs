//! Outbound TCP sockets that a thread keeps for the next connection to the same backend (see [`relay::socket_reuse`]).
//!
//! A socket is kept for a few seconds only, because the backend's address may belong to another Pod later.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpStream;

/// Maximum number of sockets that a thread keeps: as many as are closed at about the same time. `crate::sockets`
/// reserves descriptors for them.
const REUSABLE_MAX: usize = 32;

/// Time for which a socket is kept.
const REUSE_TIMEOUT: Duration = Duration::from_secs(10);

thread_local! {
    /// The oldest first.
    static REUSABLE: RefCell<VecDeque<ReusableSocket>> = const { RefCell::new(VecDeque::new()) };
}

/// Disconnected socket.
struct ReusableSocket {
    socket: Socket,
    /// Backend of its last connection.
    backend: SocketAddr,
    released_at: Instant,
}

/// Returns a socket for a connection to a backend: unconnected, non-blocking and without Nagle's algorithm.
///
/// # Errors
/// The error of the system, for example if no descriptor is left.
pub(super) fn open(to: SocketAddr) -> io::Result<Socket> {
    if let Some(socket) = take(to, Instant::now()) {
        return Ok(socket);
    }
    let open = || Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), None);
    let opened = open().or_else(|error| {
        match Errno::from_io_error(&error) {
            // The kept sockets may hold the last descriptors.
            Some(Errno::MFILE | Errno::NFILE) => clear(),
            _ => return Err(error),
        }
        open()
    });
    let socket = opened?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

/// Takes a kept socket whose last connection was to the same backend.
fn take(to: SocketAddr, now: Instant) -> Option<Socket> {
    REUSABLE.with_borrow_mut(|reusable| {
        while reusable
            .pop_front_if(|oldest| now.duration_since(oldest.released_at) >= REUSE_TIMEOUT)
            .is_some()
        {}
        let index = reusable.iter().rposition(|kept| kept.backend == to)?;
        reusable.remove(index).map(|kept| kept.socket)
    })
}

/// Closes a connection to a backend of which all data was read, and keeps its socket. The socket is closed as
/// well if the backend has not acknowledged the end yet. If too many are kept, the oldest one is closed.
pub(crate) fn release(stream: TcpStream, backend: SocketAddr) {
    match disconnect(stream, backend) {
        Ok(Some(socket)) => REUSABLE.with_borrow_mut(|reusable| {
            if reusable.len() >= REUSABLE_MAX {
                reusable.pop_front();
            }
            reusable.push_back(ReusableSocket {
                socket,
                backend,
                released_at: Instant::now(),
            });
        }),
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, %backend, "socket not kept for reuse"),
    }
}

/// Closes the kept sockets of this thread, to free their descriptors.
pub(crate) fn clear() {
    REUSABLE.with_borrow_mut(VecDeque::clear);
}

/// Disconnects a socket. Returns `None` if the connection of the socket must not end yet.
fn disconnect(stream: TcpStream, backend: SocketAddr) -> io::Result<Option<Socket>> {
    // The registration with the runtime contains the observed readiness. The next connection therefore starts with a
    // new registration.
    let socket = Socket::from(stream.into_std()?);
    match socket.shutdown(Shutdown::Write) {
        // The socket was shut down before, and the connection is closed.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
        result => result?,
    }
    let is_reusable = relay::socket_reuse::disconnect(&socket, backend)?;
    Ok(is_reusable.then_some(socket))
}

#[cfg(test)]
mod tests;
