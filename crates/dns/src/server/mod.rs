//! The sockets of the DNS server.

mod datagrams;
mod respond;
mod tcp;
mod udp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use respond::{Pending, Reaction, Responder, Transport, UDP_OCTETS_MAX};

use udp::UdpLoops;

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

impl Server {
    /// Listens on each of `addresses`, over UDP with a loop for each core and over TCP. Port 0 takes a
    /// free one. Must be called within a tokio runtime.
    pub fn start(addresses: &[SocketAddr], responder: Arc<Responder>) -> Result<Self, ListenError> {
        let runtime = tokio::runtime::Handle::current();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut server = Self {
            addresses: Vec::new(),
            acceptors: Vec::new(),
            loops: Vec::new(),
        };
        for &asked in addresses {
            let failed = |source| ListenError {
                address: asked,
                source,
            };
            let listener = listen(asked).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            let sockets = udp::bind(address, cores).map_err(failed)?;
            server
                .loops
                .push(UdpLoops::start(sockets, &responder, &runtime).map_err(failed)?);
            server
                .acceptors
                .push(runtime.spawn(tcp::accept(listener, responder.clone())));
            server.addresses.push(address);
        }
        Ok(server)
    }

    /// The addresses listened on, in the order asked for.
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
