//! Listener that all workers share.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use api::object::ObjectKey;
use mio::net::TcpStream;
use mio::{Registry, Token};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};

use super::CongestionControl;
use super::connecting::Client;
use super::lifetime::AgeLimit;
use super::relay::reset_at_close;
use crate::userspace::SharedBalancer;
use crate::userspace::connection_permits::{ConnectionPermits, Refusal};

/// Result of an attempt to accept a connection.
#[derive(Debug)]
pub(super) enum AcceptOutcome {
    /// A connection with its permit.
    Client(Client),
    /// A connection whose client holds its share of the permits. It was reset: it would delay other clients.
    Refused,
    /// No connection waits.
    None,
    /// No permit is free for the Service. A connection waits, if there is one.
    NoPermit(Refusal),
}

/// A listener at which all workers wait.
#[derive(Debug)]
pub(crate) struct SharedListener {
    /// Non-blocking listening socket.
    pub socket: TcpListener,
    /// Bound address.
    pub address: SocketAddr,
    /// Service of the listener.
    pub service: ObjectKey,
    /// Selection of endpoints.
    pub balancer: Arc<SharedBalancer>,
    /// Maximum age of connections.
    pub age_limit: Arc<AgeLimit>,
    /// Permits for open connections.
    pub permits: Arc<ConnectionPermits>,
    /// Congestion control of accepted connections.
    pub congestion: CongestionControl,
}

impl SharedListener {
    /// Registers the listener with a worker. The kernel wakes one idle worker per connection (`EPOLLEXCLUSIVE`), as
    /// long as connections wait.
    pub(crate) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token.0 as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        Ok(epoll::add(registry, &self.socket, data, flags)?)
    }

    /// Deregisters the listener.
    pub(crate) fn deregister(&self, registry: &Registry) -> io::Result<()> {
        Ok(epoll::delete(registry, &self.socket)?)
    }

    /// Accepts a connection. Returns an error without a file descriptor.
    pub(super) fn accept(self: &Arc<Self>) -> io::Result<AcceptOutcome> {
        let permit = match self.permits.acquire(&self.service) {
            Ok(permit) => permit,
            Err(refusal) => return Ok(AcceptOutcome::NoPermit(refusal)),
        };
        loop {
            match acceptfrom_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((stream, from)) => {
                    let address = from.and_then(|from| SocketAddr::try_from(from).ok());
                    let address = address.ok_or(io::Error::from(Errno::AFNOSUPPORT))?;
                    let stream = TcpStream::from_std(stream.into());
                    return Ok(match permit.for_client(address.ip()) {
                        Ok(permit) => {
                            AcceptOutcome::Client(Client::new(stream, address, self.clone(), permit))
                        }
                        Err(refusal) => {
                            tracing::debug!(client = %address.ip(), service = ?self.service, %refusal, "connection reset");
                            reset_at_close(&stream);
                            AcceptOutcome::Refused
                        }
                    });
                }
                Err(Errno::AGAIN) => return Ok(AcceptOutcome::None),
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
