//! The sockets that endpoints are called with. To make one and to take it down costs nearly as much as to connect it; so one
//! whose connection is over, as both sides know, is used for the next one to the same endpoint, with all that it was set to.
//! Not to another one: the kernel goes on with the sequence numbers of such a socket, which who knows the last connection
//! could tell (RFC 6528).
//!
//! The kernel goes on to tell of such a socket under its number. What it told before the socket was used anew is of its
//! former life.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use netlink::tcp::has_timestamps;
use rustix::net::connect_unspec;
use socket2::{Domain, Socket, Type};

use super::CongestionControl;

/// Sockets that a thread keeps for further connections: as many as end at about the same time, to some endpoints.
const SPARE_MAX: usize = 64;

/// A socket to an endpoint.
#[derive(Debug)]
pub struct Call {
    /// The connection.
    pub stream: TcpStream,
    /// The endpoint.
    address: SocketAddr,
    /// What the kernel tells this thread of it.
    told: Option<Interest>,
}

/// The sockets of a thread.
#[derive(Debug, Default)]
pub struct Calls {
    /// Whose they are, by their descriptors.
    users: Vec<User>,
    /// Those for further connections, in the order in which they ended.
    spare: VecDeque<Call>,
    turn: u64,
}

/// A connection, and the turn in which it was given a socket.
#[derive(Clone, Copy, Debug, Default)]
struct User {
    connection: Option<usize>,
    since: u64,
}

impl Call {
    /// Has the kernel tell of it from now on, of new ones what there is already. An error, of `epoll_ctl(2)`, leaves it as it was.
    pub fn wait_for(&mut self, registry: &Registry, interest: Interest) -> io::Result<()> {
        if self.told == Some(interest) {
            return Ok(());
        }
        let descriptor = descriptor(&self.stream).ok_or(io::ErrorKind::InvalidInput)?;
        let token = Token(2 * descriptor + 1);
        match self.told {
            Some(_) => registry.reregister(&mut self.stream, token, interest)?,
            None => registry.register(&mut self.stream, token, interest)?,
        }
        self.told = Some(interest);
        Ok(())
    }

    /// Whether the kernel tells anything of it.
    pub fn is_waited_for(&self) -> bool {
        self.told.is_some()
    }

    /// Has the kernel tell nothing more of it. After an error it may still do so.
    pub fn let_be(&mut self, registry: &Registry) -> io::Result<()> {
        if self.is_waited_for() {
            registry.deregister(&mut self.stream)?;
        }
        self.told = None;
        Ok(())
    }
}

impl Calls {
    /// What the kernel tells from now on is news.
    pub fn next_turn(&mut self) {
        self.turn += 1;
    }

    /// A socket to call an endpoint with: it is not connected. An error if no descriptor is left.
    pub fn take(&mut self, address: SocketAddr, congestion: &CongestionControl) -> io::Result<Call> {
        let known = self.spare.iter().rposition(|call| call.address == address);
        if let Some(call) = known.and_then(|index| self.spare.remove(index)) {
            return Ok(call);
        }
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), None)?;
        socket.set_tcp_nodelay(true)?;
        congestion.begin(&socket);
        Ok(Call {
            stream: TcpStream::from_std(socket.into()),
            address,
            told: None,
        })
    }

    /// News of a socket are a connection's from now on.
    pub fn assign(&mut self, call: &Call, connection: usize) {
        self.set_user(call, Some(connection));
    }

    /// News of a socket are for nobody here any more.
    pub fn unassign(&mut self, call: &Call) {
        self.set_user(call, None);
    }

    /// The connection that news of a socket are for. Nothing is lost by those of the turn in which it was given the socket:
    /// the kernel looks at a socket when it tells of it, and so tells again in the next turn what happened since.
    pub fn user(&self, descriptor: usize) -> Option<usize> {
        let user = self.users.get(descriptor)?;
        user.connection.filter(|_| user.since < self.turn)
    }

    /// Keeps a socket whose connection has ended on both sides for another one. It is closed if the kernel has not ended the
    /// connection yet, if it tells more of it than `at_first`, what it tells of a new one, or if it has no timestamps. The one that was kept longest makes
    /// room.
    pub fn give_back(&mut self, call: Call, at_first: Interest) {
        // A socket of IPv6 that was connected to an address of IPv4 is one of IPv4 for good.
        let is_mapped = matches!(call.address.ip(), IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
        // What waits for its end to be acknowledged still has a peer.
        if call.told != Some(at_first) || is_mapped || call.stream.peer_addr().is_ok() {
            return;
        }
        match disconnect(&call.stream) {
            Ok(true) => {
                self.unassign(&call);
                if self.spare.len() >= SPARE_MAX {
                    self.spare.pop_front();
                }
                self.spare.push_back(call);
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "a socket is used once only"),
        }
    }

    /// Closes what is kept for further connections.
    pub fn close_spare(&mut self) {
        self.spare.clear();
    }

    fn set_user(&mut self, call: &Call, connection: Option<usize>) {
        let Some(descriptor) = descriptor(&call.stream) else {
            return;
        };
        if self.users.len() <= descriptor {
            self.users.resize(descriptor + 1, User::default());
        }
        if let Some(user) = self.users.get_mut(descriptor) {
            *user = User {
                connection,
                since: self.turn,
            };
        }
    }
}

/// Readies a socket for another connection; whether it may have one. An endpoint that remembers a connection from the same port
/// takes a new one by its timestamps, whatever its sequence numbers (RFC 6191).
fn disconnect(stream: &TcpStream) -> io::Result<bool> {
    let may_go_on = has_timestamps(stream.as_fd())?;
    if may_go_on {
        connect_unspec(stream)?;
    }
    Ok(may_go_on)
}

/// As an index: the kernel gives the smallest number that is free.
fn descriptor(stream: &TcpStream) -> Option<usize> {
    usize::try_from(stream.as_raw_fd()).ok()
}

#[cfg(test)]
mod tests;
