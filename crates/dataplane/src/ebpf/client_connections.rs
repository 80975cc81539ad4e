//! Connections of clients by the addresses of their sockets, for processes other than the proxy.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use netlink::bpf::Map;
use netlink::socket_diagnostics::{SocketDiagnostics, TcpSocket};

use super::client_namespaces::process_namespaces;
use super::layout::{Limits, Shapes, client_socket};
use super::pins::directory;
use crate::client_sockets::ClientSocketError;

/// Frontends of connections, by the address of the client and the endpoint.
pub type FrontendsOfConnections = HashMap<(SocketAddr, SocketAddr), SocketAddr>;

/// Reader of the open connections whose endpoints were chosen when they began, in the network namespace in which it was
/// created.
#[derive(Clone, Debug)]
pub struct ClientConnections {
    /// Directory of the pins.
    pins: PathBuf,
}

impl ClientConnections {
    /// Creates a reader of the pins that a proxy has, or may have later.
    ///
    /// # Errors
    ///
    /// The error of the file system, if the network namespace is unknown.
    pub fn new(pins: &Path) -> io::Result<Self> {
        Ok(Self {
            pins: directory(pins)?,
        })
    }

    /// Returns the open connections. Without a proxy in eBPF mode, there are none. Sockets in network namespaces that this
    /// process cannot enter are missing.
    ///
    /// # Errors
    ///
    /// [`ClientSocketError`] without capabilities.
    pub fn read(&self) -> Result<FrontendsOfConnections, ClientSocketError> {
        let shape = Shapes::new(Limits::default()).connections;
        let mut found = HashMap::new();
        let Some(map) = Map::pinned(shape, &self.pins.join(shape.name))? else {
            return Ok(found);
        };
        let mut sockets = HashMap::new();
        map.read(|cookie, value| {
            if let Some(socket) = client_socket(cookie, value) {
                sockets.insert(socket.cookie, socket);
            }
        })?;
        if sockets.is_empty() {
            return Ok(found);
        }
        for namespace in process_namespaces() {
            if sockets.is_empty() {
                break;
            }
            let Ok(Ok(mut diagnostics)) = namespace.enter(SocketDiagnostics::open) else {
                continue;
            };
            let is_known = |socket: &TcpSocket| sockets.contains_key(&socket.cookie);
            let listed = diagnostics.tcp_sockets(sockets.len(), is_known)?;
            for socket in listed {
                let (local, remote) = (canonical_address(socket.local), canonical_address(socket.remote));
                // A socket may have connected elsewhere since.
                if let Some(known) = sockets
                    .remove(&socket.cookie)
                    .filter(|known| known.endpoint == remote)
                {
                    found.insert((local, remote), known.frontend);
                }
            }
        }
        Ok(found)
    }
}

/// Returns an IPv4 address for one as `::ffff:…`.
fn canonical_address(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
