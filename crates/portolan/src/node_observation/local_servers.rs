//! Servers of this host, and the processes that answer at their addresses.
//!
//! A process can have any arguments, also one in a Pod, and arguments name the addresses of servers. A request to an
//! address that another process answers would be a request that the process with the arguments chooses.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use explain::observation::TransportProtocol;
use netlink::route::Connection;

use super::listeners::has_open;
use super::processes::Process;
use super::sockets::{self, Socket};

/// Maximum number of TCP listeners that are read. Servers of other listeners receive no query.
const LISTENERS_MAX: usize = 10_000;

/// TCP listeners in the network namespace of this process.
#[derive(Debug, Default)]
pub(super) struct LocalServers {
    /// Inode of the network namespace.
    namespace: u64,
    /// Addresses of the links.
    addresses: Vec<IpAddr>,
    /// Inodes of the listening sockets.
    listeners: HashMap<SocketAddr, HashSet<u64>>,
}

impl LocalServers {
    /// Reads the listeners. `namespace` is the network namespace of this process. Parts that cannot be read are
    /// absent, so their servers are not queried.
    pub(super) fn read(namespace: u64) -> Self {
        let is_server = |socket: &Socket| socket.protocol == TransportProtocol::Tcp && socket.is_listener();
        let directory = Path::new("/proc/thread-self/net");
        let sockets = sockets::read(directory, LISTENERS_MAX, is_server);
        let (found, _) = sockets.unwrap_or_else(|error: io::Error| {
            tracing::debug!(%error, "listeners not read; proxies are not queried");
            (Vec::new(), false)
        });
        let addresses = Connection::open().and_then(|mut connection| connection.addresses());
        let addresses = addresses.unwrap_or_default();
        let addresses = addresses.iter().map(|address| address.network.addr()).collect();
        Self::of(namespace, addresses, &found)
    }

    fn of(namespace: u64, addresses: Vec<IpAddr>, found: &[Socket]) -> Self {
        let mut listeners: HashMap<SocketAddr, HashSet<u64>> = HashMap::new();
        for socket in found {
            let address = SocketAddr::new(socket.local.ip().to_canonical(), socket.local.port());
            listeners.entry(address).or_default().insert(socket.inode);
        }
        Self {
            namespace,
            addresses,
            listeners,
        }
    }

    /// Returns true if the address is one of this host, and the process answers there. It has to be in the network
    /// namespace of the host, with the listening socket open.
    ///
    /// The namespace of process IDs may be another one: kube-proxy usually runs in a Pod with the network of the host.
    pub(super) fn is_answered_by(&self, address: SocketAddr, process: &Process) -> bool {
        let is_local = address.ip().is_loopback() || self.addresses.contains(&address.ip());
        let is_here = process.namespace == Some(self.namespace);
        let sockets = self.sockets_of(address);
        is_local && is_here && sockets.is_some_and(|sockets| has_open(process, sockets))
    }

    /// Returns the sockets that receive connections to an address of the host. The kernel prefers those of the
    /// address over those of all addresses. A socket of all IPv6 addresses usually accepts IPv4, too.
    fn sockets_of(&self, address: SocketAddr) -> Option<&HashSet<u64>> {
        let any_v6 = IpAddr::from(Ipv6Addr::UNSPECIFIED);
        let candidates = match address.ip().to_canonical() {
            ip @ IpAddr::V4(_) => [ip, Ipv4Addr::UNSPECIFIED.into(), any_v6],
            ip @ IpAddr::V6(_) => [ip, any_v6, any_v6],
        };
        candidates
            .into_iter()
            .find_map(|ip| self.listeners.get(&SocketAddr::new(ip, address.port())))
    }
}

#[cfg(test)]
mod tests;
