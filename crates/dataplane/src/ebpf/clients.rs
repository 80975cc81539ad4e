//! Sockets of the clients: connections end by destroying them (`SOCK_DESTROY`), because connection tracking does not know their
//! endpoint.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use netlink::route::NetworkNamespace;
use netlink::socket_diagnostics::{SocketDiagnostics, TcpSocket};

use super::client_namespaces::{ClientNamespaces, client_namespaces};
use crate::client_sockets::{ClientSocket, ClientSocketError};

/// Place of the clients' sockets.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Control group with the clients; `None` if all of them are in the network namespace of this process.
    control_group: Option<PathBuf>,
}

impl Clients {
    /// Returns the clients in a control group, or only those in the network namespace of this process.
    pub fn new(control_group: &Path, serves_pods: bool) -> Self {
        Self {
            control_group: serves_pods.then(|| control_group.to_owned()),
        }
    }

    /// Checks that this process can destroy the sockets of all clients.
    ///
    /// # Errors
    ///
    /// [`ClientSocketError`] with the reason why it cannot.
    pub fn probe(&self) -> Result<(), ClientSocketError> {
        SocketDiagnostics::open()?.probe()?;
        if let Some(path) = &self.control_group {
            if let Some(failure) = client_namespaces(path).failure {
                return Err(failure);
            }
            NetworkNamespace::current()?.enter(|| ())?;
        }
        Ok(())
    }

    /// Destroys sockets that are still connected to their endpoint. Returns their number. Failures of single network
    /// namespaces are logged.
    ///
    /// # Errors
    ///
    /// [`ClientSocketError`] if the only network namespace fails.
    pub fn destroy(&self, sockets: &[ClientSocket]) -> Result<usize, ClientSocketError> {
        let endpoints: HashMap<u64, SocketAddr> = sockets
            .iter()
            .map(|socket| (socket.cookie, socket.endpoint))
            .collect();
        if endpoints.is_empty() {
            return Ok(0);
        }
        let Some(path) = &self.control_group else {
            return destroy_in_namespace(SocketDiagnostics::open()?, &endpoints);
        };
        let mut destroyed = 0;
        let ClientNamespaces { found, mut failure } = client_namespaces(path);
        for namespace in found {
            if destroyed == endpoints.len() {
                return Ok(destroyed);
            }
            match enter_and_destroy(&namespace, &endpoints) {
                Ok(count) => destroyed += count,
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            tracing::warn!(%error, destroyed, "sockets of some clients not destroyed");
        }
        Ok(destroyed)
    }
}

fn enter_and_destroy(
    namespace: &NetworkNamespace,
    endpoints: &HashMap<u64, SocketAddr>,
) -> Result<usize, ClientSocketError> {
    let diagnostics = namespace.enter(SocketDiagnostics::open)??;
    destroy_in_namespace(diagnostics, endpoints)
}

fn destroy_in_namespace(
    mut diagnostics: SocketDiagnostics,
    endpoints: &HashMap<u64, SocketAddr>,
) -> Result<usize, ClientSocketError> {
    // A socket may have connected elsewhere since.
    let is_selected = |socket: &TcpSocket| {
        let remote = SocketAddr::new(socket.remote.ip().to_canonical(), socket.remote.port());
        endpoints.get(&socket.cookie) == Some(&remote)
    };
    let mut destroyed = 0;
    for socket in diagnostics.tcp_sockets(endpoints.len(), is_selected)? {
        destroyed += usize::from(diagnostics.destroy(&socket)?);
    }
    Ok(destroyed)
}
