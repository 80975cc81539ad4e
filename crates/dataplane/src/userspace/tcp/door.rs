//! Where connections are taken, and where they go on.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Registry, Token};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::sync::Semaphore;

use super::CongestionControl;
use super::search::Client;
use crate::userspace::Place;

/// A listener, which all threads wait at.
#[derive(Debug)]
pub struct Door {
    /// The listener. It does not block.
    pub listener: TcpListener,
    /// Its address.
    pub address: SocketAddr,
    /// Who is behind it.
    pub place: Arc<Place>,
    /// How many connections may be open at the same time.
    pub open: Arc<Semaphore>,
    /// How connections make room for others.
    pub congestion: CongestionControl,
}

impl Door {
    /// Has the kernel tell a thread, if no other one has nothing to do, that connections wait, and again as long as any do.
    pub fn wait(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token.0 as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        Ok(epoll::add(registry, &self.listener, data, flags)?)
    }

    /// Has the kernel tell nothing more.
    pub fn let_be(&self, registry: &Registry) -> io::Result<()> {
        Ok(epoll::delete(registry, &self.listener)?)
    }

    /// Takes a connection. `None` if none waits; an error if there is no room, or no file descriptor.
    pub fn take(self: &Arc<Self>) -> io::Result<Option<Client>> {
        let Ok(permit) = self.open.clone().try_acquire_owned() else {
            return Err(io::Error::other("as many connections are open as may be"));
        };
        loop {
            match acceptfrom_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
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
