//! The search of an endpoint that answers a client. It never waits: each call goes as far as the kernel lets it, and says
//! what it waits for.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustix::io::Errno;
use socket2::SockRef;
use tokio::sync::OwnedSemaphorePermit;

use super::calls::{Call, Calls};
use super::connection::{Joined, reset_at_close};
use super::direction::Direction;
use super::{CongestionControl, Door};
use crate::userspace::balance::Counted;
use crate::userspace::chance;

/// How long each endpoint in turn has time to answer. As many are tried.
const CONNECT_TIMEOUTS: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// A client that was let in and has no endpoint yet.
#[derive(Debug)]
pub struct Client {
    /// Its connection.
    pub stream: TcpStream,
    /// Where it comes from.
    pub address: SocketAddr,
    /// Where it was taken.
    pub door: Arc<Door>,
    /// Its place among those that may be open.
    pub permit: OwnedSemaphorePermit,
    /// What it has said, as far as no endpoint has taken it.
    up: Direction,
}

impl Client {
    /// One that was taken at a door.
    pub fn new(
        stream: TcpStream,
        address: SocketAddr,
        door: Arc<Door>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let up = Direction::default();
        Self {
            stream,
            address,
            door,
            permit,
            up,
        }
    }

    /// Whether it was sent to another address than the listener's own. Who comes by that passes by the rules which say
    /// who is let in.
    pub fn is_redirected(&self) -> bool {
        let (socket, here) = (SockRef::from(&self.stream), self.door.address);
        let original = match here {
            SocketAddr::V4(_) => socket.original_dst_v4(),
            SocketAddr::V6(_) => socket.original_dst_v6(),
        };
        match original {
            Ok(original) => original.as_socket() != Some(here),
            Err(error) => {
                tracing::debug!(%error, "where a connection was sent to is not known");
                false
            }
        }
    }

    /// Tells an endpoint what this client has said already. Whether it has answered: one on this node has by now, and takes
    /// what it is told.
    fn greet(&mut self, endpoint: &TcpStream) -> io::Result<bool> {
        match self.up.has_rest() {
            true => self.up.say(endpoint),
            false => Ok(endpoint.peer_addr().is_ok()),
        }
    }

    /// Has it told by a reset, as soon as it is dropped.
    pub fn refuse(&self) {
        reset_at_close(&self.stream);
    }
}

/// A client for which an endpoint is looked for.
#[derive(Debug)]
pub struct Search {
    client: Client,
    tried: Vec<SocketAddr>,
}

/// How a search goes on.
#[derive(Debug)]
pub enum Found {
    /// An endpoint has answered.
    Joined(Box<Joined>),
    /// One is asked, until then at most.
    Asked(Box<Dial>, Instant),
    /// None answers, or the client is gone: it is told by a reset.
    Nobody,
}

/// An endpoint that is asked.
#[derive(Debug)]
pub struct Dial {
    search: Search,
    /// The connection in the making.
    pub call: Call,
    address: SocketAddr,
    counted: Counted,
}

impl Search {
    /// Begins.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            tried: Vec::new(),
        }
    }

    /// Asks the next endpoint. What the client has said already is read into the buffer: it is what the endpoint is told
    /// first.
    pub fn go_on(mut self, now: Instant, calls: &mut Calls, buffer: &mut [u8]) -> Found {
        while let Some(timeout) = CONNECT_TIMEOUTS.get(self.tried.len()) {
            let chosen =
                self.client
                    .door
                    .place
                    .balance()
                    .choose(self.client.address, &self.tried, now, chance());
            let Some(endpoint) = chosen else { break };
            let counted = endpoint.count();
            let address = endpoint.address;
            let call = match dial(address, calls, &self.client.door.congestion) {
                Ok(call) => call,
                Err(error) => {
                    self.note(address, &error);
                    continue;
                }
            };
            if let Err(error) = self.client.up.hear(&self.client.stream, buffer) {
                tracing::debug!(%error, "a client is gone before it had an endpoint");
                break;
            }
            match self.client.greet(&call.stream) {
                Ok(true) => return Found::Joined(Box::new(self.join(call, true, counted))),
                Ok(false) => {
                    let dial = Dial {
                        search: self,
                        call,
                        address,
                        counted,
                    };
                    return Found::Asked(Box::new(dial), now + *timeout);
                }
                Err(error) => self.note(address, &error),
            }
        }
        self.client.refuse();
        Found::Nobody
    }

    fn note(&mut self, endpoint: SocketAddr, error: &io::Error) {
        tracing::debug!(%error, %endpoint, "an endpoint refuses, or does not answer");
        self.tried.push(endpoint);
    }

    fn join(self, call: Call, is_near: bool, counted: Counted) -> Joined {
        let Client {
            stream,
            door,
            permit,
            up,
            ..
        } = self.client;
        Joined::new(
            stream,
            call,
            is_near,
            up,
            door.congestion.clone(),
            (counted, permit),
        )
    }
}

impl Dial {
    /// Looks whether the endpoint has answered, when the kernel has told something of it.
    pub fn look(self, now: Instant, calls: &mut Calls, buffer: &mut [u8]) -> Found {
        match self.call.stream.take_error() {
            Ok(None) => Found::Joined(Box::new(self.search.join(self.call, false, self.counted))),
            Ok(Some(error)) | Err(error) => self.give_up(&error, now, calls, buffer),
        }
    }

    /// Has the client told by a reset that nothing comes of it, as soon as it is dropped.
    pub fn refuse(&self) {
        self.search.client.refuse();
    }

    /// Asks another endpoint, since this one did not answer in time.
    pub fn time_out(self, now: Instant, calls: &mut Calls, buffer: &mut [u8]) -> Found {
        self.give_up(&io::ErrorKind::TimedOut.into(), now, calls, buffer)
    }

    fn give_up(mut self, error: &io::Error, now: Instant, calls: &mut Calls, buffer: &mut [u8]) -> Found {
        self.search.note(self.address, error);
        drop((self.call, self.counted));
        self.search.go_on(now, calls, buffer)
    }
}

/// Begins a connection.
fn dial(address: SocketAddr, calls: &mut Calls, congestion: &CongestionControl) -> io::Result<Call> {
    let call = calls.take(address, congestion)?;
    let socket = SockRef::from(&call.stream);
    // That the handshake is complete is told with the first words, which mostly are there by now.
    if let Err(error) = socket.set_tcp_quickack(false) {
        tracing::debug!(%error, "an endpoint is told twice that it is connected");
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        Ok(()) | Err(_) => Ok(call),
    }
}
