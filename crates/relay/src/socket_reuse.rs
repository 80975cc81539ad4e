//! Reuse of outbound TCP sockets.
//!
//! Creating and closing a socket is a large share of the cost of a short connection. A socket whose
//! connection was closed by both sides is therefore disconnected (`connect` with AF_UNSPEC) and reused with
//! its options.
//!
//! - A socket serves the same backend only. The kernel continues its sequence numbers, which the peer of the last connection
//!   could predict (RFC 6528).
//! - A socket is reused only if both ends send TCP timestamps. With timestamps, a backend in TIME-WAIT accepts a new
//!   connection from the same port, regardless of sequence numbers (RFC 6191).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use netlink::tcp::has_timestamps;
use rustix::net::connect_unspec;
use socket2::SockRef;

#[cfg(test)]
mod tests;

/// Disconnects a socket whose connection to `backend` both sides have closed. Returns true if the socket may
/// connect to the same backend again; otherwise the caller closes it.
///
/// # Errors
/// The error of the system. The caller closes the socket.
pub fn disconnect(socket: impl AsFd, backend: SocketAddr) -> io::Result<bool> {
    // An IPv6 socket that was connected to a mapped IPv4 address stays an IPv4 socket.
    let is_mapped = matches!(backend.ip(), IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
    // A socket whose FIN is not acknowledged yet still has a peer.
    let has_peer = SockRef::from(&socket).peer_addr().is_ok();
    if is_mapped || has_peer || !has_timestamps(socket.as_fd())? {
        return Ok(false);
    }
    connect_unspec(&socket)?;
    Ok(true)
}
