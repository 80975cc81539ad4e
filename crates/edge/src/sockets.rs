//! Listening sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::port::Transport;

/// Connections that wait to be taken; the kernel may allow fewer (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;
/// Descriptors that are not for connections: listening sockets, pipes, logs, health checks, sockets that are to be used again.
const DESCRIPTORS_RESERVED: u64 = 2_048;
/// Each connection has one to the client and one to the backend.
const DESCRIPTORS_EACH: u64 = 2;

/// Opens a socket for connections or datagrams to an address, which need not be an address of this machine yet. Several may
/// be open for the same: the kernel spreads clients over them.
pub(crate) fn open(at: SocketAddr, transport: Transport) -> io::Result<OwnedFd> {
    let kind = match transport {
        Transport::Tcp => Type::STREAM,
        Transport::Udp => Type::DGRAM,
    };
    let socket = Socket::new(Domain::for_address(at), kind.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    match at {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_freebind_v6(true)?;
        }
    }
    if transport == Transport::Tcp {
        // For all connections that it takes.
        socket.set_tcp_nodelay(true)?;
    }
    socket.bind(&at.into())?;
    if transport == Transport::Tcp {
        socket.listen(BACKLOG)?;
    }
    Ok(socket.into())
}

/// A socket that a task can wait for, until it has something to say or takes something.
pub(crate) fn awaited(socket: Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: an owned descriptor stays open, and the same one, until its owner is dropped; `AsyncFd` owns it, and nothing
    // here replaces it.
    let registered = unsafe { AsyncFd::register_with_interest(socket, interest) };
    Ok(registered?)
}

/// Lets this process have as many descriptors as it may have; how many connections it can bear with them.
pub(crate) fn connections_max() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current != limit.maximum {
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit = raised,
            Err(error) => tracing::warn!(%error, "the number of open files stays as it is"),
        }
    }
    let descriptors = limit.current.unwrap_or(u64::MAX);
    let reserved = DESCRIPTORS_RESERVED.min(descriptors / 2);
    usize::try_from((descriptors - reserved) / DESCRIPTORS_EACH).unwrap_or(usize::MAX)
}
