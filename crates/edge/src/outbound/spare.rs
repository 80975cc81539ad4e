//! Sockets that backends are called with. To make one and to take it down costs a good part of what a short connection does; so
//! one whose connection is over, as both sides know, is used for the next one to the same backend, with all that it was
//! set to. Not to another one: the kernel goes on with the sequence numbers of such a socket, which who knows the last
//! connection could tell (RFC 6528). So it is kept for a moment only: the backend's address may be another one's later. And it is
//! kept only where both ends send timestamps: by these a backend that remembers a connection from the same port takes
//! a new one, whatever its sequence numbers (RFC 6191).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use netlink::tcp;
use rustix::io::Errno;
use rustix::net::connect_unspec;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpStream;

/// Sockets that a thread keeps: as many as end at about the same time. Descriptors are reserved for them
/// (`crate::sockets`).
const SPARE_MAX: usize = 32;

/// How long a socket is kept.
const KEPT_FOR: Duration = Duration::from_secs(10);

thread_local! {
    /// In the order in which they ended.
    static SPARE: RefCell<VecDeque<Spare>> = const { RefCell::new(VecDeque::new()) };
}

/// A socket for a further connection.
struct Spare {
    socket: Socket,
    /// Whom it called.
    called: SocketAddr,
    ended: Instant,
}

/// A socket to call a backend with: it is not connected, does not wait, and sends what it is given at once. An error if no
/// descriptor is left.
pub(super) fn take(to: SocketAddr) -> io::Result<Socket> {
    if let Some(socket) = take_spare(to, Instant::now()) {
        return Ok(socket);
    }
    let open = || Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), None);
    let opened = open().or_else(|error| {
        match Errno::from_io_error(&error) {
            Some(Errno::MFILE | Errno::NFILE) => close_all(),
            _ => return Err(error),
        }
        open()
    });
    let socket = opened?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

/// One that called a backend lately.
fn take_spare(to: SocketAddr, now: Instant) -> Option<Socket> {
    SPARE.with_borrow_mut(|spare| {
        while spare
            .pop_front_if(|oldest| now.duration_since(oldest.ended) >= KEPT_FOR)
            .is_some()
        {}
        let index = spare.iter().rposition(|kept| kept.called == to)?;
        spare.remove(index).map(|kept| kept.socket)
    })
}

/// Ends a connection to a backend of which all was read, and keeps its socket for another one. It is closed if the backend
/// has not acknowledged the end yet. The one that was kept longest makes room.
pub(crate) fn give_back(stream: TcpStream, called: SocketAddr) {
    match ended(stream, called) {
        Ok(Some(socket)) => SPARE.with_borrow_mut(|spare| {
            if spare.len() >= SPARE_MAX {
                spare.pop_front();
            }
            spare.push_back(Spare {
                socket,
                called,
                ended: Instant::now(),
            });
        }),
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, backend = %called, "a socket is used once only"),
    }
}

/// Closes what is kept: descriptors are short.
pub(crate) fn close_all() {
    SPARE.with_borrow_mut(VecDeque::clear);
}

/// The socket of a connection that is over. Nothing if the kernel still has something to do for it.
fn ended(stream: TcpStream, called: SocketAddr) -> io::Result<Option<Socket>> {
    // A socket of IPv6 that was connected to an address of IPv4 is one of IPv4 for good.
    let is_mapped = matches!(called.ip(), IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
    // What the runtime was told of it goes with its registration: the next connection begins with a new one.
    let socket = Socket::from(stream.into_std()?);
    match socket.shutdown(Shutdown::Write) {
        // It was told before, and all is over.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
        told => told?,
    }
    // What waits for its end to be acknowledged still has a peer.
    if is_mapped || socket.peer_addr().is_ok() || !tcp::has_timestamps(socket.as_fd())? {
        return Ok(None);
    }
    connect_unspec(&socket)?;
    Ok(Some(socket))
}

#[cfg(test)]
mod tests;
