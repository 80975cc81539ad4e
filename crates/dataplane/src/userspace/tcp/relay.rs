//! Relay between a client and an endpoint. No call blocks; each one returns the condition to wait for.
//!
//! The event loop calls [`Relay::pump`] for one direction and waits for the condition that it returns. Each direction
//! ends by itself: the FIN of one side goes to the other, and the opposite direction continues. An error of one side
//! resets both, so that neither takes a part of the data for the whole. A socket to an endpoint of this node may serve
//! another connection later.

use std::net::Shutdown;
use std::time::Duration;

use api::object::ObjectKey;
use mio::net::TcpStream;
use socket2::SockRef;

use super::CongestionControl;
use super::lifetime::Lifetime;
use super::outbound_sockets::OutboundSocket;
use super::pump::{Pump, PumpProgress};
use crate::userspace::balancer::ConnectionCount;
use crate::userspace::connection_permits::ConnectionPermit;

/// A relay. Each direction ends by itself; an error of one side resets both.
#[derive(Debug)]
pub(super) struct Relay {
    /// Connection of the client.
    pub client: TcpStream,
    /// Connection to the endpoint.
    pub endpoint: OutboundSocket,
    /// Origin of the connection.
    pub accepted: AcceptedClient,
    up: Pump,
    down: Pump,
    /// True if the endpoint connected at once, so it is on this node.
    is_on_node: bool,
    /// True if data of the endpoint is acknowledged at once.
    has_quick_acks: bool,
    /// True if the client's FIN was relayed to the endpoint.
    is_endpoint_shut_down: bool,
    /// True if the connection carries bulk data, and has another congestion control.
    is_bulk: bool,
    congestion: CongestionControl,
    /// Released when the relay is dropped.
    _permits: Permits,
}

/// Service of the listener that accepted a client, and the age of the connection.
#[derive(Debug)]
pub(super) struct AcceptedClient {
    /// Service of the listener.
    pub service: ObjectKey,
    /// Start and maximum age.
    pub lifetime: Lifetime,
}

/// Count of the endpoint's connections, and permit for one open connection.
pub(super) type Permits = (ConnectionCount, ConnectionPermit);

/// Direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Client to endpoint.
    Up,
    /// Endpoint to client.
    Down,
}

/// Condition for the next step of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RelayProgress {
    /// The sender has to send more.
    AwaitReadable,
    /// The receiver has to become writable.
    AwaitWritable,
    /// Other connections continue first.
    Yielded,
    /// Both directions have ended.
    Finished,
    /// The relay failed; both connections have to be reset.
    Broken,
}

impl Relay {
    /// Creates the relay of a client of a Service and a connected endpoint. `is_on_node` is true if the endpoint
    /// connected at once; `up` holds the initial data of the client.
    pub(super) fn new(
        client: TcpStream,
        endpoint: OutboundSocket,
        accepted: AcceptedClient,
        is_on_node: bool,
        up: Pump,
        congestion: CongestionControl,
        permits: Permits,
    ) -> Self {
        Self {
            client,
            endpoint,
            accepted,
            up,
            down: Pump::default(),
            is_on_node,
            has_quick_acks: false,
            is_endpoint_shut_down: false,
            is_bulk: false,
            congestion,
            _permits: permits,
        }
    }

    /// Returns the state of one direction, to record events.
    pub(super) fn pump_mut(&mut self, direction: Direction) -> &mut Pump {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Makes the drop of both connections send a reset.
    pub(super) fn reset(&self) {
        reset_at_close(&self.client);
        reset_at_close(&self.endpoint.stream);
    }

    /// Returns true if the initial data was sent to the endpoint completely.
    pub(super) fn has_sent_initial_data(&self) -> bool {
        self.up.has_sent() && !self.up.has_unsent()
    }

    /// Acknowledges the handshake if no data does so: the endpoint may be the first to send.
    pub(super) fn acknowledge_handshake(&mut self) {
        if !self.up.has_sent() {
            self.enable_quick_acks();
        }
    }

    /// Enables immediate acknowledgements to the endpoint. They are off at first: usually the response ends the
    /// connection, and the FIN of this side acknowledges it.
    fn enable_quick_acks(&mut self) {
        self.has_quick_acks = true;
        if let Err(error) = SockRef::from(&self.endpoint.stream).set_tcp_quickack(true) {
            tracing::debug!(%error, "quick ACKs not enabled");
        }
    }

    /// Returns the socket to the endpoint if another connection may reuse it. Both directions have ended;
    /// this side is shut down here if it is not yet.
    pub(super) fn into_reusable_socket(self) -> Option<OutboundSocket> {
        if !self.is_on_node || self.is_bulk {
            return None;
        }
        if !self.is_endpoint_shut_down
            && let Err(error) = SockRef::from(&self.endpoint.stream).shutdown(Shutdown::Write)
        {
            tracing::trace!(%error, "endpoint closed before shutdown");
            return None;
        }
        Some(self.endpoint)
    }

    /// Relays one direction.
    pub(super) fn pump(&mut self, direction: Direction, buffer: &mut [u8]) -> RelayProgress {
        let (client, endpoint) = (&self.client, &self.endpoint.stream);
        let (pump, from, to, other) = match direction {
            Direction::Up => (&mut self.up, client, endpoint, &self.down),
            Direction::Down => (&mut self.down, endpoint, client, &self.up),
        };
        let was_ended = pump.is_ended();
        let progress = pump.pump(from, to, buffer);
        if pump.take_became_bulk() {
            self.is_bulk = true;
            self.congestion.apply_bulk(to);
        }
        let result = match progress {
            Ok(PumpProgress::Ended) if other.is_ended() => return RelayProgress::Finished,
            Ok(PumpProgress::Ended) if was_ended => Ok(RelayProgress::AwaitReadable),
            Ok(PumpProgress::Ended) => {
                self.is_endpoint_shut_down |= direction == Direction::Up;
                SockRef::from(to)
                    .shutdown(Shutdown::Write)
                    .map(|()| RelayProgress::AwaitReadable)
            }
            Ok(PumpProgress::Drained) => Ok(RelayProgress::AwaitReadable),
            Ok(PumpProgress::Blocked) => Ok(RelayProgress::AwaitWritable),
            Ok(PumpProgress::Yielded) => Ok(RelayProgress::Yielded),
            Err(error) => Err(error),
        };
        if !self.has_quick_acks && self.down.is_mid_stream() {
            self.enable_quick_acks();
        }
        result.unwrap_or_else(|error| {
            tracing::trace!(%error, "connection failed");
            RelayProgress::Broken
        })
    }
}

/// Makes the drop of the connection send a reset.
pub(super) fn reset_at_close(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "reset on close not enabled");
    }
}
