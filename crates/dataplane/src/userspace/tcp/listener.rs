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
use tokio::sync::Semaphore;

use super::CongestionControl;
use super::connecting::Client;
use super::lifetime::AgeLimit;
use crate::userspace::SharedBalancer;

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
    pub permits: Arc<Semaphore>,
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

    /// Accepts a connection. Returns `None` if none waits, and an error without a permit or a file descriptor.
    pub(crate) fn accept(self: &Arc<Self>) -> io::Result<Option<Client>> {
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            return Err(io::Error::other("maximum of open connections reached"));
        };
        loop {
            match acceptfrom_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((stream, from)) => {
                    let address = from.and_then(|from| SocketAddr::try_from(from).ok());
                    let address = address.ok_or(io::Error::from(Errno::AFNOSUPPORT))?;
                    let stream = TcpStream::from_std(stream.into());
                    return Ok(Some(Client::new(stream, address, self.clone(), permit)));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
