//! TCP node ports on 127.0.0.1. The kernel could only serve them with `route_localnet`, which exposes loopback
//! services to the network. This process therefore listens and relays to a node port on another address of the node,
//! in every mode (EPT-20). Where node ports answer on loopback only, it relays to the cluster IP of the Service.
//! IPv4 only, as upstream.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::object::ObjectKey;
use telemetry::accept_connections;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

/// Maximum number of ports; each one holds a file descriptor.
const PORTS_MAX: usize = 1_024;
/// Maximum number of open connections; each one holds two file descriptors and two buffers.
const CONNECTIONS_MAX: usize = 512;
/// Time limit of a connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between attempts to bind a port.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(30);

/// Node ports on loopback, shared between the worker and the relay.
#[derive(Debug, Default)]
pub(crate) struct LocalhostPorts {
    state: Mutex<DesiredNodePorts>,
    changed: Notify,
    /// Number of accepted connections.
    accepted: AtomicU64,
}

/// Node ports of a Service with its cluster IP and port.
pub(crate) type NodePorts = BTreeMap<u16, SocketAddr>;

/// Destination of relayed connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RelayDestination {
    /// None: no port is served on loopback.
    #[default]
    Nothing,
    /// The node port at this address of the node.
    NodePort(IpAddr),
    /// The cluster IP of the Service.
    ClusterIp,
}

/// Node ports to serve, and their destination.
#[derive(Clone, Debug, Default, PartialEq)]
struct DesiredNodePorts {
    ports: BTreeMap<ObjectKey, NodePorts>,
    destination: RelayDestination,
}

impl DesiredNodePorts {
    /// Returns the ports to serve with their destinations.
    fn destinations(&self) -> NodePorts {
        let all = self.ports.values().flatten().take(PORTS_MAX);
        all.filter_map(|(port, cluster_ip)| match self.destination {
            RelayDestination::Nothing => None,
            RelayDestination::NodePort(node) => Some((*port, SocketAddr::new(node, *port))),
            RelayDestination::ClusterIp => Some((*port, *cluster_ip)),
        })
        .collect()
    }
}

impl LocalhostPorts {
    /// Sets the TCP node ports of a Service that lead to endpoints from this node.
    pub(crate) fn set(&self, service: &ObjectKey, ports: NodePorts) {
        let mut desired = self.desired();
        let former = if ports.is_empty() {
            desired.ports.remove(service)
        } else {
            desired.ports.insert(service.clone(), ports.clone())
        };
        drop(desired);
        if former.unwrap_or_default() != ports {
            self.changed.notify_one();
        }
    }

    /// Sets the destination of relayed connections.
    pub(crate) fn relay_to(&self, destination: RelayDestination) {
        let mut desired = self.desired();
        if desired.destination != destination {
            desired.destination = destination;
            drop(desired);
            self.changed.notify_one();
        }
    }

    /// Returns the number of accepted connections (MET-19).
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    fn desired(&self) -> MutexGuard<'_, DesiredNodePorts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Relays all ports; opens and closes listeners as they change. Runs until it is dropped.
pub(crate) async fn relay_localhost(ports: Arc<LocalhostPorts>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut listeners = JoinSet::new();
    let mut open: BTreeMap<u16, (SocketAddr, AbortHandle)> = BTreeMap::new();
    loop {
        let destinations = ports.desired().destinations();
        open.retain(|port, (to, listener)| {
            let stays = destinations.get(port) == Some(to);
            if !stays {
                listener.abort();
            }
            stays
        });
        // An aborted task holds its port until it is joined.
        while listeners.len() > open.len() && listeners.join_next().await.is_some() {}
        let mut is_complete = true;
        for (port, to) in destinations {
            if open.contains_key(&port) {
                continue;
            }
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                Ok(listener) => {
                    let listener = listeners.spawn(accept(listener, to, permits.clone(), ports.clone()));
                    open.insert(port, (to, listener));
                }
                Err(error) => {
                    tracing::debug!(port, %error, "node port not bound on loopback");
                    is_complete = false;
                }
            }
        }
        let changed = ports.changed.notified();
        if is_complete {
            changed.await;
        } else if tokio::time::timeout(BIND_RETRY_PERIOD, changed).await.is_err() {
            tracing::trace!("node ports on loopback retried");
        }
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, permits: Arc<Semaphore>, ports: Arc<LocalhostPorts>) {
    let serve = move |stream| {
        ports.accepted.fetch_add(1, Ordering::Relaxed);
        relay(stream, to)
    };
    accept_connections(listener, permits, serve, |stream| reset_on_drop(&stream)).await;
}

/// Relays a connection until both sides have ended.
async fn relay(mut client: TcpStream, to: SocketAddr) {
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(to)).await {
        Ok(Ok(mut endpoint)) => {
            if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut endpoint).await {
                tracing::trace!(%error, "loopback connection ended early");
                reset_on_drop(&client);
            }
        }
        Ok(Err(error)) => {
            tracing::debug!(%to, %error, "loopback connection without endpoint");
            reset_on_drop(&client);
        }
        Err(_) => reset_on_drop(&client),
    }
}

/// Makes the kernel reset the connection on close, so that the client detects a failure.
fn reset_on_drop(client: &TcpStream) {
    if let Err(error) = client.set_zero_linger() {
        tracing::trace!(%error, "reset on close not enabled");
    }
}

#[cfg(test)]
mod tests;
