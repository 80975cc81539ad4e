//! The sockets that endpoints are called with. To make one and to take it down costs as much as to connect it; so one whose
//! connection is over, as both sides know, is used for the next one, with all that it was set to.
//!
//! The kernel goes on to tell of such a socket under its number. What it told before the socket was used anew is of its
//! former life.

use std::io;
use std::os::fd::AsRawFd;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustix::net::connect_unspec;
use socket2::{Domain, Socket, Type};

use super::CongestionControl;

/// Sockets of a family that a thread keeps for further connections: as many as end at about the same time.
const SPARE_MAX: usize = 64;

/// A socket to an endpoint.
#[derive(Debug)]
pub struct Call {
    /// The connection.
    pub stream: TcpStream,
    domain: Domain,
    /// What the kernel tells this thread of it.
    told: Option<Interest>,
}

/// The sockets of a thread.
#[derive(Debug, Default)]
pub struct Calls {
    /// Whose they are, by their descriptors.
    users: Vec<User>,
    /// Those for further connections, for IPv4 and IPv6.
    spare: [Vec<Call>; 2],
    turn: u64,
}

/// A connection, and the turn in which it was given a socket.
#[derive(Clone, Copy, Debug, Default)]
struct User {
    connection: Option<usize>,
    since: u64,
}

impl Call {
    /// Has the kernel tell of it from now on, of new ones what there is already.
    pub fn wait_for(&mut self, registry: &Registry, interest: Interest) -> io::Result<()> {
        if self.told == Some(interest) {
            return Ok(());
        }
        let token = Token(2 * descriptor(&self.stream) + 1);
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

    /// Has the kernel tell nothing more of it.
    pub fn let_be(&mut self, registry: &Registry) -> io::Result<()> {
        match self.told.take() {
            Some(_) => registry.deregister(&mut self.stream),
            None => Ok(()),
        }
    }
}

impl Calls {
    /// What the kernel tells from now on is news.
    pub fn next_turn(&mut self) {
        self.turn += 1;
    }

    /// A socket that is not connected.
    pub fn take(&mut self, domain: Domain, congestion: &CongestionControl) -> io::Result<Call> {
        if let Some(call) = self.spare_of(domain).pop() {
            return Ok(call);
        }
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), None)?;
        socket.set_tcp_nodelay(true)?;
        congestion.begin(&socket);
        Ok(Call {
            stream: TcpStream::from_std(socket.into()),
            domain,
            told: None,
        })
    }

    /// News of a socket are a connection's from now on.
    pub fn assign(&mut self, call: &Call, connection: usize) {
        self.set_user(call, Some(connection));
    }

    /// The connection that news of a socket are for.
    pub fn user(&self, descriptor: usize) -> Option<usize> {
        let user = self.users.get(descriptor)?;
        user.connection.filter(|_| user.since < self.turn)
    }

    /// Keeps a socket whose connection has ended on both sides for another one. It is closed if the kernel has not ended the
    /// connection yet, if it tells more of it than what it tells of a new one, or if there are enough.
    pub fn give_back(&mut self, call: Call, told: Interest) {
        let is_of_use = call.told == Some(told) && self.spare_of(call.domain).len() < SPARE_MAX;
        // What waits for its end to be acknowledged still has a peer.
        if !is_of_use || call.stream.peer_addr().is_ok() {
            return;
        }
        match connect_unspec(&call.stream) {
            Ok(()) => {
                self.set_user(&call, None);
                self.spare_of(call.domain).push(call);
            }
            Err(error) => tracing::debug!(%error, "a socket is used once only"),
        }
    }

    fn set_user(&mut self, call: &Call, connection: Option<usize>) {
        let descriptor = descriptor(&call.stream);
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

    fn spare_of(&mut self, domain: Domain) -> &mut Vec<Call> {
        &mut self.spare[usize::from(domain == Domain::IPV6)]
    }
}

/// As an index: the kernel gives the smallest number that is free.
fn descriptor(stream: &TcpStream) -> usize {
    usize::try_from(stream.as_raw_fd()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
