//! Listening sockets: creation, inheritance and limits of descriptors.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::port_key::Transport;

/// Maximum number of sockets of one address, and worker threads.
pub(crate) const SOCKETS_PER_ADDRESS_MAX: usize = 64;
/// Connections that wait to be accepted; the kernel may allow fewer (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;
/// Descriptors that are not for connections: listening sockets, pipes, logs, health checks, reusable sockets.
const DESCRIPTORS_RESERVED: u64 = 2_048;
/// Descriptors of a connection: one to the client and one to the backend.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;

/// Address with its transport.
pub(crate) type ListenAddress = (SocketAddr, Transport);
/// Listening sockets of an edge.
pub(crate) type ListeningSockets = Vec<(ListenAddress, Vec<Arc<OwnedFd>>)>;
/// Listening sockets of a predecessor.
pub(crate) type InheritedSockets = BTreeMap<ListenAddress, Vec<OwnedFd>>;

/// Opens a socket for connections or datagrams to an address, which need not be an address of this node yet.
/// Several may be open for the same address: the kernel distributes clients over them.
///
/// # Errors
/// The error of the system.
pub(crate) fn open(address: SocketAddr, transport: Transport) -> io::Result<OwnedFd> {
    let kind = match transport {
        Transport::Tcp => Type::STREAM,
        Transport::Udp => Type::DGRAM,
    };
    let socket = Socket::new(Domain::for_address(address), kind.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_freebind_v6(true)?;
        }
    }
    if transport == Transport::Tcp {
        // Accepted connections inherit it.
        socket.set_tcp_nodelay(true)?;
    }
    socket.bind(&address.into())?;
    if transport == Transport::Tcp {
        socket.listen(BACKLOG)?;
    }
    Ok(socket.into())
}

/// Registers a socket with the runtime of the calling task.
///
/// # Errors
/// The error of the system.
pub(crate) fn register(socket: Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: an owned descriptor stays open, and the same one, until its owner is dropped; `AsyncFd` owns
    // it, and nothing here replaces it.
    let registered = unsafe { AsyncFd::register_with_interest(socket, interest) };
    Ok(registered?)
}

/// Raises the limit of open files as far as this process may. Returns the number of connections that it allows.
pub(crate) fn connections_max() -> usize {
    let descriptors = netlink::rlimit::raise_open_files().unwrap_or_else(|error| {
        tracing::warn!(%error, "limit of open files not raised");
        netlink::rlimit::open_files()
    });
    let reserved = DESCRIPTORS_RESERVED.min(descriptors / 2);
    usize::try_from((descriptors - reserved) / DESCRIPTORS_PER_CONNECTION).unwrap_or(usize::MAX)
}
