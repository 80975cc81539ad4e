//! A connection: an endpoint that answers is looked for, and both are joined. It never waits: each call goes as far as the
//! kernel lets it, and says what it waits for.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustix::io::Errno;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::sync::OwnedSemaphorePermit;

use super::direction::{Direction, Pumped};
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
    /// What it says.
    up: Direction,
}

impl Client {
    /// One that was taken at a door.
    pub fn new(stream: TcpStream, address: SocketAddr, door: Arc<Door>, permit: OwnedSemaphorePermit) -> Self {
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
    Asked(Dial, Instant),
    /// None answers: the client is told by a reset.
    Nobody,
}

/// An endpoint that is asked.
#[derive(Debug)]
pub struct Dial {
    search: Search,
    /// The connection in the making.
    pub stream: TcpStream,
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
    pub fn go_on(mut self, now: Instant, buffer: &mut [u8]) -> Found {
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
            let stream = match dial(address, &self.client.door.congestion) {
                Ok(stream) => stream,
                Err(error) => {
                    self.note(address, &error);
                    continue;
                }
            };
            if let Err(error) = self.client.up.hear(&self.client.stream, buffer) {
                tracing::debug!(%error, "a client is gone before it had an endpoint");
                break;
            }
            match self.client.greet(&stream) {
                Ok(true) => return Found::Joined(Box::new(self.join(stream, counted))),
                Ok(false) => {
                    let dial = Dial {
                        search: self,
                        stream,
                        address,
                        counted,
                    };
                    return Found::Asked(dial, now + *timeout);
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

    fn join(self, endpoint: TcpStream, counted: Counted) -> Joined {
        Joined {
            client: self.client.stream,
            endpoint,
            up: self.client.up,
            down: Direction::default(),
            is_acknowledged: false,
            congestion: self.client.door.congestion.clone(),
            _counted: counted,
            _permit: self.client.permit,
        }
    }
}

impl Dial {
    /// Looks whether the endpoint has answered, when the kernel has told something of it.
    pub fn look(self, now: Instant, buffer: &mut [u8]) -> Found {
        match self.stream.take_error() {
            Ok(None) => Found::Joined(Box::new(self.search.join(self.stream, self.counted))),
            Ok(Some(error)) | Err(error) => self.give_up(&error, now, buffer),
        }
    }

    /// Asks another endpoint, since this one did not answer in time.
    pub fn time_out(self, now: Instant, buffer: &mut [u8]) -> Found {
        self.give_up(&io::ErrorKind::TimedOut.into(), now, buffer)
    }

    fn give_up(mut self, error: &io::Error, now: Instant, buffer: &mut [u8]) -> Found {
        self.search.note(self.address, error);
        drop((self.stream, self.counted));
        self.search.go_on(now, buffer)
    }
}

/// Client and endpoint joined: what one says the other hears, each direction ends by itself, and what breaks one breaks
/// the other.
#[derive(Debug)]
pub struct Joined {
    /// The client's connection.
    pub client: TcpStream,
    /// The endpoint's.
    pub endpoint: TcpStream,
    up: Direction,
    down: Direction,
    /// What an endpoint sends is acknowledged at once.
    is_acknowledged: bool,
    congestion: CongestionControl,
    _counted: Counted,
    _permit: OwnedSemaphorePermit,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the endpoint.
    Up,
    /// From the endpoint to the client.
    Down,
}

/// How a joined connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// When the sender says more.
    Later,
    /// When the reader takes more.
    WhenWritable,
    /// As soon as others had their turn.
    Soon,
    /// Not at all: it is to be dropped.
    Over,
}

impl Joined {
    /// Takes note that who speaks in a direction will say no more than what the kernel has, and whether some of that is
    /// urgent.
    pub fn note_end(&mut self, way: Way, has_urgent: bool) {
        match way {
            Way::Up => self.up.note_end(has_urgent),
            Way::Down => self.down.note_end(has_urgent),
        }
    }

    /// Whether the client's first words have gone to the endpoint, and none of them wait.
    pub fn is_greeted(&self) -> bool {
        self.up.has_spoken() && !self.up.has_rest()
    }

    /// Tells an endpoint that it is connected, unless words have: it may be the one to speak first.
    pub fn welcome(&mut self) {
        if !self.up.has_spoken() {
            self.acknowledge();
        }
    }

    /// Acknowledges what the endpoint sent. It does not see to that by itself from the beginning: mostly an answer ends the
    /// connection, and is acknowledged by what ends it from this side.
    fn acknowledge(&mut self) {
        self.is_acknowledged = true;
        if let Err(error) = SockRef::from(&self.endpoint).set_tcp_quickack(true) {
            tracing::debug!(%error, "an endpoint may learn late what was received");
        }
    }

    /// Passes on one direction. After an error both connections are reset when this is dropped.
    pub fn pump(&mut self, way: Way, buffer: &mut [u8]) -> Outcome {
        let (direction, from, to, other) = match way {
            Way::Up => (&mut self.up, &self.client, &self.endpoint, &self.down),
            Way::Down => (&mut self.down, &self.endpoint, &self.client, &self.up),
        };
        let was_ended = direction.is_ended();
        let pumped = direction.pump(from, to, buffer);
        if direction.takes_much_from_now_on() {
            self.congestion.settle(to);
        }
        let result = match pumped {
            Ok(Pumped::Ended) if other.is_ended() => return Outcome::Over,
            Ok(Pumped::Ended) if was_ended => Ok(Outcome::Later),
            Ok(Pumped::Ended) => SockRef::from(to)
                .shutdown(Shutdown::Write)
                .map(|()| Outcome::Later),
            Ok(Pumped::Empty) => Ok(Outcome::Later),
            Ok(Pumped::Full) => Ok(Outcome::WhenWritable),
            Ok(Pumped::HasMore) => Ok(Outcome::Soon),
            Err(error) => Err(error),
        };
        if !self.is_acknowledged && self.down.is_amid() {
            self.acknowledge();
        }
        result.unwrap_or_else(|error| {
            tracing::trace!(%error, "a connection broke");
            reset_at_close(&self.client);
            reset_at_close(&self.endpoint);
            Outcome::Over
        })
    }
}

/// Begins a connection.
fn dial(address: SocketAddr, congestion: &CongestionControl) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_tcp_nodelay(true)?;
    congestion.begin(&socket);
    // That the handshake is complete is told with the first words, which mostly are there by now.
    if let Err(error) = socket.set_tcp_quickack(false) {
        tracing::debug!(%error, "an endpoint is told twice that it is connected");
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        Ok(()) | Err(_) => Ok(TcpStream::from_std(socket.into())),
    }
}

/// Has the peer told by a reset, as soon as the connection is dropped.
fn reset_at_close(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection is closed rather than reset");
    }
}
