//! The sockets of the DNS server.

mod answer;
mod clients;
mod connections;
mod datagrams;
mod limit;
mod respond;
mod search;
mod tcp;
mod udp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use clients::Clients;
pub use respond::{Lane, Peer, Pending, Policy, Reaction, Responder, Transport, UDP_OCTETS_MAX};
pub use search::SearchList;

use connections::Connections;
use limit::RateLimit;
use tcp::Acceptor;
use udp::{Limits, UdpLoops};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 1_024;

/// An address cannot be listened on. Trying again helps once nobody else has it, or it exists.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for DNS: {source}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// What the kernel said.
    pub source: io::Error,
}

/// A server that answers until it is dropped.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    acceptors: Vec<JoinHandle<()>>,
    loops: Vec<UdpLoops>,
}

/// Where a server listens, and what it allows.
#[derive(Clone, Default)]
pub struct Listening {
    /// Addresses for UDP and TCP. Port 0 takes a free one.
    pub plain: Vec<SocketAddr>,
    /// Addresses for TLS (RFC 7858).
    pub tls: Vec<SocketAddr>,
    /// Certificate and key for them.
    pub tls_config: Option<Arc<rustls::ServerConfig>>,
    /// Answers over UDP a second for each /24 or /56 of clients; 0 for any number.
    pub answers_per_second_max: u32,
    /// Refusals over UDP a second for each /24 or /56 of clients that are not answered; 0 for any number.
    pub refusals_per_second_max: u32,
}

impl Server {
    /// Listens on each of `addresses`, over UDP with a loop for each core and over TCP. Port 0 takes a
    /// free one. Must be called within a tokio runtime.
    pub fn start(addresses: &[SocketAddr], responder: Arc<Responder>) -> Result<Self, ListenError> {
        let listening = Listening {
            plain: addresses.to_vec(),
            ..Listening::default()
        };
        Self::listen(&listening, responder)
    }

    /// Listens as told. Must be called within a tokio runtime.
    pub fn listen(listening: &Listening, responder: Arc<Responder>) -> Result<Self, ListenError> {
        let limit = |per_second| match per_second {
            0 => None,
            per_second => Some(Arc::new(RateLimit::new(per_second))),
        };
        let limits = Limits {
            answers: limit(listening.answers_per_second_max),
            refusals: limit(listening.refusals_per_second_max),
        };
        let mut server = Self {
            addresses: Vec::new(),
            acceptors: Vec::new(),
            loops: Vec::new(),
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
        for &asked in &listening.plain {
            server
                .start_plain(asked, &plain, &limits)
                .map_err(|source| ListenError {
                    address: asked,
                    source,
                })?;
        }
        if let Some(config) = &listening.tls_config {
            let acceptor = acceptor(Some(tokio_rustls::TlsAcceptor::from(config.clone())));
            for &address in &listening.tls {
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
        asked: SocketAddr,
        acceptor: &Arc<Acceptor>,
        limits: &Limits,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Handle::current();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let listener = listen(asked)?;
        let address = listener.local_addr()?;
        let sockets = udp::bind(address, cores)?;
        self.loops
            .push(UdpLoops::start(sockets, &acceptor.responder, limits, &runtime)?);
        self.acceptors
            .push(runtime.spawn(tcp::accept(listener, acceptor.clone())));
        self.addresses.push(address);
        Ok(())
    }

    /// The addresses listened on, in the order asked for, those for TLS last.
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

/// The addresses of this machine's interfaces at this moment; none if the kernel does not say.
pub(crate) fn machine_addresses() -> Vec<IpAddr> {
    datagrams::interface_addresses()
}

/// The addresses that a server which listens on `listen` is reached at, without loopback ones: for an
/// unspecified address, all of this machine's.
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
