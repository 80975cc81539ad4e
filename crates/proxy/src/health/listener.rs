//! Sockets of health check node ports.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use tokio::net::TcpListener;

/// Connections that wait for the server.
const BACKLOG: i32 = 128;

/// Listens on an address in its family only, so that `0.0.0.0` and `::` can have a server each.
pub(super) fn listen_in_family(address: SocketAddr) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Returns true if the host does not have the family of the address.
pub(super) fn is_family_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
}
