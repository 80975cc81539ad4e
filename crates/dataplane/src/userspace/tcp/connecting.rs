//! Search for an endpoint that accepts the connection of a client. No call blocks; each one returns the condition to
//! wait for.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustix::io::Errno;
use socket2::SockRef;

use super::lifetime::Lifetime;
use super::outbound_sockets::{OutboundSocket, OutboundSockets};
use super::pump::Pump;
use super::relay::{AcceptedClient, Relay, reset_at_close};
use super::{CongestionControl, SharedListener};
use crate::userspace::balancer::ConnectionCount;
use crate::userspace::connection_permits::ConnectionPermit;
use crate::userspace::random;

/// Timeouts of successive connection attempts; also their number.
const CONNECT_TIMEOUTS: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// An accepted client without an endpoint.
#[derive(Debug)]
pub(crate) struct Client {
    /// Connection of the client.
    pub stream: TcpStream,
    /// Source address.
    pub address: SocketAddr,
    /// Listener that accepted the client.
    pub listener: Arc<SharedListener>,
    /// Permit for one open connection.
    pub permit: ConnectionPermit,
    /// Initial data that no endpoint has received yet.
    up: Pump,
}

impl Client {
    /// Creates a client from an accepted connection.
    pub(crate) fn new(
        stream: TcpStream,
        address: SocketAddr,
        listener: Arc<SharedListener>,
        permit: ConnectionPermit,
    ) -> Self {
        let up = Pump::default();
        Self {
            stream,
            address,
            listener,
            permit,
            up,
        }
    }

    /// Returns true if the original destination differs from the listener's address. A client that connects to the
    /// listener directly bypasses the rules that restrict access.
    pub(crate) fn is_redirected(&self) -> bool {
        let (socket, here) = (SockRef::from(&self.stream), self.listener.address);
        let original = match here {
            SocketAddr::V4(_) => socket.original_dst_v4(),
            SocketAddr::V6(_) => socket.original_dst_v6(),
        };
        match original {
            Ok(original) => original.as_socket() != Some(here),
            Err(error) => {
                tracing::debug!(%error, "original destination unknown");
                false
            }
        }
    }

    /// Sends the initial data to an endpoint. Returns true if the endpoint is connected, which is the case at once
    /// for endpoints on this node.
    fn send_initial_data(&mut self, endpoint: &TcpStream) -> io::Result<bool> {
        if self.up.has_unsent() {
            self.up.try_send(endpoint)
        } else {
            Ok(endpoint.peer_addr().is_ok())
        }
    }

    /// Makes the drop of the connection send a reset.
    pub(crate) fn reset_on_drop(&self) {
        reset_at_close(&self.stream);
    }
}

/// A client with the endpoints that were tried for it.
#[derive(Debug)]
pub(super) struct EndpointSearch {
    client: Client,
    tried: Vec<SocketAddr>,
}

/// Result of a search step.
#[derive(Debug)]
pub(super) enum SearchResult {
    /// An endpoint accepted the connection.
    Connected(Box<Relay>),
    /// A connection attempt is pending until this deadline.
    Pending(Box<PendingConnect>, Instant),
    /// No endpoint accepts the connection, or the client closed it. The client gets a reset.
    Failed,
}

/// A pending connection attempt.
#[derive(Debug)]
pub(super) struct PendingConnect {
    search: EndpointSearch,
    /// Socket of the attempt.
    pub outbound: OutboundSocket,
    address: SocketAddr,
    connection_count: ConnectionCount,
}

impl EndpointSearch {
    /// Starts a search without tried endpoints.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            tried: Vec::new(),
        }
    }

    /// Connects to the next endpoint. Initial data of the client is read into `buffer` and sent to the endpoint.
    pub(super) fn try_next(
        mut self,
        now: Instant,
        sockets: &mut OutboundSockets,
        buffer: &mut [u8],
    ) -> SearchResult {
        while let Some(timeout) = CONNECT_TIMEOUTS.get(self.tried.len()) {
            let chosen =
                self.client
                    .listener
                    .balancer
                    .lock()
                    .choose(self.client.address, &self.tried, now, random());
            let Some(endpoint) = chosen else { break };
            let connection_count = endpoint.count_connection();
            let address = endpoint.address;
            let outbound = match start_connect(address, sockets, &self.client.listener.congestion) {
                Ok(outbound) => outbound,
                Err(error) => {
                    self.record_failure(address, &error);
                    continue;
                }
            };
            if let Err(error) = self.client.up.read_available(&self.client.stream, buffer) {
                tracing::debug!(%error, "client closed the connection before an endpoint accepted");
                break;
            }
            match self.client.send_initial_data(&outbound.stream) {
                Ok(true) => {
                    return SearchResult::Connected(Box::new(self.into_relay(
                        outbound,
                        true,
                        connection_count,
                    )));
                }
                Ok(false) => {
                    let connect = PendingConnect {
                        search: self,
                        outbound,
                        address,
                        connection_count,
                    };
                    return SearchResult::Pending(Box::new(connect), now + *timeout);
                }
                Err(error) => self.record_failure(address, &error),
            }
        }
        self.client.reset_on_drop();
        SearchResult::Failed
    }

    fn record_failure(&mut self, endpoint: SocketAddr, error: &io::Error) {
        tracing::debug!(%error, %endpoint, "endpoint refused or timed out");
        self.tried.push(endpoint);
    }

    fn into_relay(
        self,
        outbound: OutboundSocket,
        is_on_node: bool,
        connection_count: ConnectionCount,
    ) -> Relay {
        let Client {
            stream,
            listener,
            permit,
            up,
            ..
        } = self.client;
        Relay::new(
            stream,
            outbound,
            AcceptedClient {
                service: listener.service.clone(),
                lifetime: Lifetime::start(listener.age_limit.clone(), Instant::now(), random() as u16),
            },
            is_on_node,
            up,
            listener.congestion.clone(),
            (connection_count, permit),
        )
    }
}

impl PendingConnect {
    /// Checks the result of the attempt after an event on its socket.
    pub(super) fn check(
        self,
        now: Instant,
        sockets: &mut OutboundSockets,
        buffer: &mut [u8],
    ) -> SearchResult {
        match self.outbound.stream.take_error() {
            Ok(None) => SearchResult::Connected(Box::new(self.search.into_relay(
                self.outbound,
                false,
                self.connection_count,
            ))),
            Ok(Some(error)) | Err(error) => self.try_next_after(&error, now, sockets, buffer),
        }
    }

    /// Makes the drop of the client's connection send a reset.
    pub(super) fn reset_on_drop(&self) {
        self.search.client.reset_on_drop();
    }

    /// Tries another endpoint after a timeout.
    pub(super) fn time_out(
        self,
        now: Instant,
        sockets: &mut OutboundSockets,
        buffer: &mut [u8],
    ) -> SearchResult {
        self.try_next_after(&io::ErrorKind::TimedOut.into(), now, sockets, buffer)
    }

    fn try_next_after(
        mut self,
        error: &io::Error,
        now: Instant,
        sockets: &mut OutboundSockets,
        buffer: &mut [u8],
    ) -> SearchResult {
        self.search.record_failure(self.address, error);
        drop((self.outbound, self.connection_count));
        self.search.try_next(now, sockets, buffer)
    }
}

/// Starts a non-blocking connect.
fn start_connect(
    address: SocketAddr,
    sockets: &mut OutboundSockets,
    congestion: &CongestionControl,
) -> io::Result<OutboundSocket> {
    let outbound = sockets.acquire(address, congestion)?;
    let socket = SockRef::from(&outbound.stream);
    // With quick ACKs off, the final ACK of the handshake travels with the initial data, which is usually available.
    if let Err(error) = socket.set_tcp_quickack(false) {
        tracing::debug!(%error, "quick ACKs not disabled");
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        Ok(()) | Err(_) => Ok(outbound),
    }
}
