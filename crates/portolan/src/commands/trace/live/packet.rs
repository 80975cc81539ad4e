//! One connection or datagram of the client.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use api::object::Protocol;
use explain::trace::live::Response;
use netlink::route::NetworkNamespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::LiveError;

/// Time for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a response that are read.
const RESPONSE_BYTES: usize = 1;

/// Socket of the client before its first packet. It stays in the namespace of the client.
#[derive(Debug)]
pub(super) struct Packet {
    socket: Socket,
    /// Address and port of the client.
    pub source: SocketAddr,
    /// Destination.
    pub destination: SocketAddr,
}

/// Socket that sends the packet.
#[derive(Debug)]
enum Socket {
    Tcp(OwnedFd),
    Udp(UdpSocket),
}

impl Packet {
    /// Binds a socket in the client's namespace, so that its port is known before the first packet.
    ///
    /// # Errors
    ///
    /// A [`LiveError`] if the namespace cannot be entered or the address is not usable.
    pub(super) fn prepare(
        namespace: Option<&NetworkNamespace>,
        protocol: Protocol,
        address: IpAddr,
        destination: SocketAddr,
    ) -> Result<Self, LiveError> {
        let bind = || match protocol {
            Protocol::Udp => bind_udp(address),
            Protocol::Tcp | Protocol::Sctp => bind_tcp(address),
        };
        let bound = match namespace {
            Some(namespace) => namespace.enter(bind)?,
            None => bind(),
        };
        let (socket, source) = bound.map_err(|error| LiveError::Socket { address, error })?;
        Ok(Self {
            socket,
            source,
            destination,
        })
    }

    /// Returns the number of a TCP socket; `None` for UDP.
    pub(super) fn cookie(&self) -> Option<u64> {
        match &self.socket {
            Socket::Tcp(socket) => rustix::net::sockopt::socket_cookie(socket).ok(),
            Socket::Udp(_) => None,
        }
    }

    /// Sends the packet, and waits for the response. The socket stays open until the value is dropped.
    pub(super) fn send(&self) -> (Response, Duration) {
        let start = Instant::now();
        let result = match &self.socket {
            Socket::Tcp(socket) => connect(socket, self.destination),
            Socket::Udp(socket) => exchange(socket, self.destination),
        };
        let response = result.map_or_else(|error| response_of(&error), |()| Response::Answered);
        (response, start.elapsed())
    }
}

fn bind_tcp(address: IpAddr) -> io::Result<(Socket, SocketAddr)> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(address, 0))?;
    let own = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((Socket::Tcp(socket), own))
}

fn bind_udp(address: IpAddr) -> io::Result<(Socket, SocketAddr)> {
    let socket = UdpSocket::bind((address, 0))?;
    let own = socket.local_addr()?;
    Ok((Socket::Udp(socket), own))
}

fn connect(socket: &OwnedFd, destination: SocketAddr) -> io::Result<()> {
    match rustix::net::connect(socket, &destination) {
        Ok(()) => return Ok(()),
        Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    loop {
        let rest = deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: rest.subsec_nanos().max(1).into(),
        };
        let mut writable = [PollFd::new(socket, PollFlags::OUT)];
        match poll(&mut writable, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(rustix::net::sockopt::socket_error(socket)??),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends a datagram of one byte.
fn exchange(socket: &UdpSocket, destination: SocketAddr) -> io::Result<()> {
    socket.connect(destination)?;
    socket.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    let refused = match socket.send(&[0]) {
        Ok(_) => None,
        // The kernel reports a rejection on output by this error first, and by ICMP afterwards.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(error),
        Err(error) => return Err(error),
    };
    match socket.recv(&mut [0; RESPONSE_BYTES]) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(error),
        Err(error) => Err(refused.unwrap_or(error)),
    }
}

fn response_of(error: &io::Error) -> Response {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Response::Refused,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Response::Unreachable,
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Response::Timeout,
        ErrorKind::PermissionDenied => Response::NotPermitted,
        _ => Response::Failed,
    }
}

#[cfg(test)]
mod tests;
