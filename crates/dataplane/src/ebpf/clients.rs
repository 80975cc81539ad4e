//! Sockets of the clients. The destruction of a socket (`SOCK_DESTROY`) ends its connection, because connection
//! tracking does not record the Service.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use netlink::route::NetworkNamespace;
use netlink::socket_diagnostics::{SocketDiagnostics, TcpSocket};

use super::client_namespaces::{ClientNamespaces, client_namespaces};
use crate::client_sockets::{ClientSocket, ClientSocketError};

/// Place of the clients' sockets.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    /// Control group with the clients; `None` if all of them are in the network namespace of this process.
    control_group: Option<PathBuf>,
}

impl Clients {
    /// Returns the clients in a control group, or only those in the network namespace of this process.
    pub(super) fn new(control_group: &Path, serves_pods: bool) -> Self {
        Self {
            control_group: serves_pods.then(|| control_group.to_owned()),
        }
    }

    /// Checks that this process can destroy the sockets of all clients.
    ///
    /// # Errors
    ///
    /// [`ClientSocketError`] with the reason why it cannot.
    pub(super) fn probe(&self) -> Result<(), ClientSocketError> {
        SocketDiagnostics::open()?.probe()?;
        if let Some(path) = &self.control_group {
            if let Some(failure) = client_namespaces(path).failure {
                return Err(failure);
            }
            NetworkNamespace::current()?.enter(|| ())?;
        }
        Ok(())
    }

    /// Destroys sockets that are still connected to their endpoint. Returns their numbers. Failures are logged.
    pub(super) fn destroy<'a>(&self, sockets: impl Iterator<Item = &'a ClientSocket>) -> HashSet<u64> {
        let endpoints: HashMap<u64, SocketAddr> =
            sockets.map(|socket| (socket.cookie, socket.endpoint)).collect();
        let mut destroyed = HashSet::new();
        if endpoints.is_empty() {
            return destroyed;
        }
        let failure = match &self.control_group {
            Some(path) => destroy_in_all(path, &endpoints, &mut destroyed),
            None => destroy_in_one(None, &endpoints, &mut destroyed),
        };
        if let Err(error) = failure {
            let count = destroyed.len();
            tracing::warn!(%error, destroyed = count, "sockets of some clients not destroyed");
        }
        destroyed
    }
}

/// Destroys sockets in the network namespaces of a control group, until none is left. Returns the last failure.
fn destroy_in_all(
    control_group: &Path,
    endpoints: &HashMap<u64, SocketAddr>,
    destroyed: &mut HashSet<u64>,
) -> Result<(), ClientSocketError> {
    let ClientNamespaces { found, mut failure } = client_namespaces(control_group);
    for namespace in found {
        if destroyed.len() == endpoints.len() {
            return Ok(());
        }
        if let Err(error) = destroy_in_one(Some(&namespace), endpoints, destroyed) {
            failure = Some(error);
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Destroys sockets in a network namespace; `None` for that of this thread. Returns the last failure.
fn destroy_in_one(
    namespace: Option<&NetworkNamespace>,
    endpoints: &HashMap<u64, SocketAddr>,
    destroyed: &mut HashSet<u64>,
) -> Result<(), ClientSocketError> {
    let mut diagnostics = match namespace {
        Some(namespace) => namespace.enter(SocketDiagnostics::open)??,
        None => SocketDiagnostics::open()?,
    };
    // A socket may have connected elsewhere since.
    let is_selected = |socket: &TcpSocket| {
        let remote = SocketAddr::new(socket.remote.ip().to_canonical(), socket.remote.port());
        endpoints.get(&socket.cookie) == Some(&remote)
    };
    let mut result = Ok(());
    for socket in diagnostics.tcp_sockets(endpoints.len(), is_selected)? {
        match diagnostics.destroy(&socket) {
            Ok(true) => {
                destroyed.insert(socket.cookie);
            }
            Ok(false) => {}
            Err(error) => result = Err(error.into()),
        }
    }
    result
}
