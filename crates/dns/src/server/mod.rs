//! Sockets of the DNS server: UDP, TCP and TLS, with their limits.
//!
//! - `udp`, `datagrams`, `tcp`: receipt of queries and sending of responses
//! - `respond`: from a query message to its response; `answer`: the response code and the records; `search`: names of a
//!   search list
//! - `clients`: clients that may query; `connections`, `response_rate`, `waiting_responses`: limits of clients

mod answer;
mod clients;
mod connections;
mod datagrams;
mod respond;
mod response_rate;
mod search;
mod tcp;
mod udp;
mod waiting_responses;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use clients::ClientAccessList;
pub use respond::{Peer, PendingQuery, Policy, Reaction, Responder, Transport, UDP_BYTES_MAX, WorkerState};
pub use search::SearchList;

use connections::Connections;
use response_rate::RateLimit;
use tcp::Acceptor;
use udp::{Limits, UdpWorkers};

/// Length of the accept queue.
const BACKLOG: i32 = 1_024;

/// An address cannot be bound. A retry succeeds once the address exists and is free.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for DNS: {source}; choose another port")]
pub struct ListenError {
    /// Address that was to be bound.
    pub address: SocketAddr,
    /// Error of the socket.
    pub source: io::Error,
}

/// A DNS server; dropping it closes its sockets.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    acceptors: Vec<JoinHandle<()>>,
    udp_workers: Vec<UdpWorkers>,
}

/// Addresses, TLS and rate limits of a server.
#[derive(Clone, Default)]
pub struct ServerSettings {
    /// Addresses for UDP and TCP. Port 0 selects a free port.
    pub plain: Vec<SocketAddr>,
    /// Addresses for TLS (RFC 7858).
    pub tls: Vec<SocketAddr>,
    /// Certificate and key for TLS.
    pub tls_config: Option<Arc<rustls::ServerConfig>>,
    /// Limit of UDP responses per second for each /24 or /56 of clients; 0 for no limit.
    pub responses_per_second_max: u32,
    /// Limit of UDP refusals per second for each /24 or /56 of clients that are not allowed; 0 for no limit.
    pub refusals_per_second_max: u32,
}

impl Server {
    /// Listens on each of `addresses`, over UDP with one worker per core and over TCP. Port 0 selects a free port.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns [`ListenError`] if an address cannot be bound.
    pub fn start(addresses: &[SocketAddr], responder: Arc<Responder>) -> Result<Self, ListenError> {
        let settings = ServerSettings {
            plain: addresses.to_vec(),
            ..ServerSettings::default()
        };
        Self::listen(&settings, responder)
    }

    /// Listens with the given settings. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns [`ListenError`] if an address cannot be bound.
    pub fn listen(settings: &ServerSettings, responder: Arc<Responder>) -> Result<Self, ListenError> {
        let limit = |per_second| match per_second {
            0 => None,
            per_second => Some(Arc::new(RateLimit::new(per_second))),
        };
        let limits = Limits {
            responses: limit(settings.responses_per_second_max),
            refusals: limit(settings.refusals_per_second_max),
        };
        let mut server = Self {
            addresses: Vec::new(),
            acceptors: Vec::new(),
            udp_workers: Vec::new(),
        };
        let connections = Connections::new();
        let acceptor = |tls| {
            Arc::new(Acceptor {
                responder: responder.clone(),
                connections: connections.clone(),
                tls,
            })
        };
        let plain = acceptor(None);
        for &requested in &settings.plain {
            server
                .start_plain(requested, &plain, &limits)
                .map_err(|source| ListenError {
                    address: requested,
                    source,
                })?;
        }
        if let Some(config) = &settings.tls_config {
            let acceptor = acceptor(Some(tokio_rustls::TlsAcceptor::from(config.clone())));
            for &address in &settings.tls {
                let listener = listen(address).map_err(|source| ListenError { address, source })?;
                server.addresses.push(listener.local_addr().unwrap_or(address));
                server
                    .acceptors
                    .push(tokio::spawn(tcp::accept(listener, acceptor.clone())));
            }
        }
        Ok(server)
    }

    fn start_plain(
        &mut self,
        requested: SocketAddr,
        acceptor: &Arc<Acceptor>,
        limits: &Limits,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Handle::current();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let listener = listen(requested)?;
        let address = listener.local_addr()?;
        let sockets = udp::bind(address, cores)?;
        self.udp_workers
            .push(UdpWorkers::start(sockets, &acceptor.responder, limits, &runtime)?);
        self.acceptors
            .push(runtime.spawn(tcp::accept(listener, acceptor.clone())));
        self.addresses.push(address);
        Ok(())
    }

    /// Returns the bound addresses in the order of the settings, those for TLS last.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for acceptor in &self.acceptors {
            acceptor.abort();
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Returns the current addresses of the host's interfaces; none if the kernel does not report them.
pub(crate) fn host_addresses() -> Vec<IpAddr> {
    datagrams::interface_addresses()
}

/// Returns the addresses at which a server is reachable that listens on `listen`, without loopback. An unspecified
/// address stands for all addresses of the host.
pub fn own_addresses(listen: &[SocketAddr]) -> Vec<IpAddr> {
    let mut own = Vec::new();
    for address in listen.iter().map(SocketAddr::ip) {
        if address.is_unspecified() {
            let same_family = |found: &IpAddr| found.is_ipv4() == address.is_ipv4();
            own.extend(datagrams::interface_addresses().into_iter().filter(same_family));
        } else {
            own.push(address);
        }
    }
    own.retain(|address| !address.is_loopback());
    own.sort_unstable();
    own.dedup();
    own
}

#[cfg(test)]
mod tests;
