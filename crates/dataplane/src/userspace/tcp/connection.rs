//! A connection through this process: a client and an endpoint joined. It never waits: each call goes as far as the kernel
//! lets it, and says what it waits for.

use std::net::Shutdown;
use std::time::Duration;

use mio::net::TcpStream;
use socket2::SockRef;
use tokio::sync::OwnedSemaphorePermit;

use super::CongestionControl;
use super::calls::Call;
use super::direction::{Direction, Pumped};
use crate::userspace::balance::Counted;

/// Client and endpoint joined: what one says the other hears, each direction ends by itself, and what breaks one breaks
/// the other.
#[derive(Debug)]
pub struct Joined {
    /// The client's connection.
    pub client: TcpStream,
    /// The endpoint's.
    pub endpoint: Call,
    up: Direction,
    down: Direction,
    /// The endpoint has answered so soon that it is on this node.
    is_near: bool,
    /// What an endpoint sends is acknowledged at once.
    is_acknowledged: bool,
    /// The endpoint was told that the client has ended.
    is_endpoint_told: bool,
    /// Congestion control was chosen for this connection.
    is_settled: bool,
    congestion: CongestionControl,
    /// Given back when this is dropped.
    _places: Places,
}

/// A connection's place among those of its endpoint, and among those that may be open.
pub type Places = (Counted, OwnedSemaphorePermit);

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
    /// Not at all: both have ended.
    Over,
    /// Not at all: it broke. Both are to be reset.
    Broken,
}

impl Joined {
    /// A client and an endpoint that has answered; `is_near` if it did so at once. `up` is what the client has said.
    pub fn new(
        client: TcpStream,
        endpoint: Call,
        is_near: bool,
        up: Direction,
        congestion: CongestionControl,
        places: Places,
    ) -> Self {
        Self {
            client,
            endpoint,
            up,
            down: Direction::default(),
            is_near,
            is_acknowledged: false,
            is_endpoint_told: false,
            is_settled: false,
            congestion,
            _places: places,
        }
    }

    /// One direction, to take note of what the kernel tells of it.
    pub fn direction(&mut self, way: Way) -> &mut Direction {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }

    /// Has both told by a reset that it broke, as soon as it is dropped.
    pub fn reset(&self) {
        reset_at_close(&self.client);
        reset_at_close(&self.endpoint.stream);
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
        if let Err(error) = SockRef::from(&self.endpoint.stream).set_tcp_quickack(true) {
            tracing::debug!(%error, "an endpoint may learn late what was received");
        }
    }

    /// The endpoint's socket, if another connection may have it: when this one has ended, by all that it takes of this side.
    pub fn finish(self) -> Option<Call> {
        if !self.is_near || self.is_settled {
            return None;
        }
        if !self.is_endpoint_told
            && let Err(error) = SockRef::from(&self.endpoint.stream).shutdown(Shutdown::Write)
        {
            tracing::trace!(%error, "an endpoint has gone before it was told the end");
            return None;
        }
        Some(self.endpoint)
    }

    /// Passes on one direction.
    pub fn pump(&mut self, way: Way, buffer: &mut [u8]) -> Outcome {
        let (client, endpoint) = (&self.client, &self.endpoint.stream);
        let (direction, from, to, other) = match way {
            Way::Up => (&mut self.up, client, endpoint, &self.down),
            Way::Down => (&mut self.down, endpoint, client, &self.up),
        };
        let was_ended = direction.is_ended();
        let pumped = direction.pump(from, to, buffer);
        if direction.takes_much_from_now_on() {
            self.is_settled = true;
            self.congestion.settle(to);
        }
        let result = match pumped {
            Ok(Pumped::Ended) if other.is_ended() => return Outcome::Over,
            Ok(Pumped::Ended) if was_ended => Ok(Outcome::Later),
            Ok(Pumped::Ended) => {
                self.is_endpoint_told |= way == Way::Up;
                SockRef::from(to)
                    .shutdown(Shutdown::Write)
                    .map(|()| Outcome::Later)
            }
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
            Outcome::Broken
        })
    }
}

/// Has the peer told by a reset, as soon as the connection is dropped.
pub fn reset_at_close(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection is closed rather than reset");
    }
}
