//! Sockets for connections to endpoints, which a worker keeps and reuses (see [`relay::socket_reuse`]).
//!
//! The registration with epoll survives the reuse. Events that were collected before the reuse belong to the previous
//! connection and are ignored.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use relay::socket_reuse::disconnect;
use socket2::{Domain, Socket, Type};

use super::CongestionControl;

/// Maximum number of idle sockets that a worker keeps: about the number of connections that end at the same time.
const IDLE_SOCKETS_MAX: usize = 64;

/// A socket for a connection to an endpoint.
#[derive(Debug)]
pub(super) struct OutboundSocket {
    /// Non-blocking socket.
    pub stream: TcpStream,
    /// Address of the endpoint.
    address: SocketAddr,
    /// Interest that is registered with the worker's epoll instance.
    registered: Option<Interest>,
}

/// Outbound sockets of a worker.
#[derive(Debug, Default)]
pub(super) struct OutboundSockets {
    /// Owners of the sockets, by file descriptor.
    owners: Vec<Owner>,
    /// Idle sockets, the most recent last.
    idle: VecDeque<OutboundSocket>,
    poll_round: u64,
}

/// A connection, and the poll round in which it got its socket.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    connection: Option<usize>,
    since: u64,
}

impl OutboundSocket {
    /// Returns the address of the endpoint.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Registers the socket, or changes its registration. After an error of `epoll_ctl(2)` the registration is
    /// unchanged.
    pub(super) fn register(&mut self, registry: &Registry, interest: Interest) -> io::Result<()> {
        if self.registered == Some(interest) {
            return Ok(());
        }
        let descriptor = descriptor(&self.stream).ok_or(io::ErrorKind::InvalidInput)?;
        let token = Token(2 * descriptor + 1);
        match self.registered {
            Some(_) => registry.reregister(&mut self.stream, token, interest)?,
            None => registry.register(&mut self.stream, token, interest)?,
        }
        self.registered = Some(interest);
        Ok(())
    }

    /// Returns true if the socket is registered.
    pub(super) fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// Deregisters the socket. After an error it may still be registered.
    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        if self.is_registered() {
            registry.deregister(&mut self.stream)?;
        }
        self.registered = None;
        Ok(())
    }
}

impl OutboundSockets {
    /// Starts a new poll round: events from now on belong to the current owners.
    pub(super) fn next_poll(&mut self) {
        self.poll_round += 1;
    }

    /// Returns an unconnected socket for an endpoint, an idle one if possible. An error means that no file descriptor
    /// is left.
    pub(super) fn acquire(
        &mut self,
        address: SocketAddr,
        congestion: &CongestionControl,
    ) -> io::Result<OutboundSocket> {
        let known = self.idle.iter().rposition(|socket| socket.address == address);
        if let Some(socket) = known.and_then(|index| self.idle.remove(index)) {
            return Ok(socket);
        }
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), None)?;
        socket.set_tcp_nodelay(true)?;
        congestion.apply_initial(&socket);
        Ok(OutboundSocket {
            stream: TcpStream::from_std(socket.into()),
            address,
            registered: None,
        })
    }

    /// Assigns events of a socket to a connection.
    pub(super) fn assign(&mut self, socket: &OutboundSocket, connection: usize) {
        self.set_owner(socket, Some(connection));
    }

    /// Removes the owner of a socket.
    pub(super) fn unassign(&mut self, socket: &OutboundSocket) {
        self.set_owner(socket, None);
    }

    /// Returns the connection to which an event belongs. Events of the poll round in which the owner changed are
    /// ignored. No event is lost. The kernel checks the state of a socket when it reports an event, and the next
    /// round reports pending events again.
    pub(super) fn owner(&self, descriptor: usize) -> Option<usize> {
        let owner = self.owners.get(descriptor)?;
        owner.connection.filter(|_| owner.since < self.poll_round)
    }

    /// Keeps the socket of a closed connection for another one. The socket is closed instead if the kernel still has
    /// the connection, if its registration differs from `initial_interest`, or if it lacks timestamps. The oldest
    /// idle socket makes room.
    pub(super) fn release(&mut self, socket: OutboundSocket, initial_interest: Interest) {
        if socket.registered != Some(initial_interest) {
            return;
        }
        match disconnect(&socket.stream, socket.address) {
            Ok(true) => {
                self.unassign(&socket);
                if self.idle.len() >= IDLE_SOCKETS_MAX {
                    self.idle.pop_front();
                }
                self.idle.push_back(socket);
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "outbound socket not reusable"),
        }
    }

    /// Closes all idle sockets.
    pub(super) fn close_idle(&mut self) {
        self.idle.clear();
    }

    fn set_owner(&mut self, socket: &OutboundSocket, connection: Option<usize>) {
        let Some(descriptor) = descriptor(&socket.stream) else {
            return;
        };
        if self.owners.len() <= descriptor {
            self.owners.resize(descriptor + 1, Owner::default());
        }
        if let Some(owner) = self.owners.get_mut(descriptor) {
            *owner = Owner {
                connection,
                since: self.poll_round,
            };
        }
    }
}

/// Returns the file descriptor as an index; the kernel assigns the smallest free number.
fn descriptor(stream: &TcpStream) -> Option<usize> {
    usize::try_from(stream.as_raw_fd()).ok()
}

#[cfg(test)]
mod tests;
