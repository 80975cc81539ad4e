//! TCP node ports on 127.0.0.1. The kernel would do it only with `route_localnet`, which opens loopback services to
//! the network; so this process listens there and relays to a node port on one of the node's own addresses,
//! whatever the dataplane (EPT-20). IPv4 only, as upstream.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::object::ObjectKey;
use telemetry::accept_connections;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

/// Node ports that are listened on at once: each holds a descriptor.
const PORTS_MAX: usize = 1_024;
/// Connections relayed at once: each holds two descriptors and two buffers.
const CONNECTIONS_MAX: usize = 512;
/// How long an endpoint may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a port that could not be bound is tried again.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(30);

/// The node ports that answer on loopback, shared between who knows them and who relays.
#[derive(Debug, Default)]
pub(crate) struct LocalhostPorts {
    state: Mutex<Wanted>,
    changed: Notify,
    /// Connections that were relayed.
    accepted: AtomicU64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Wanted {
    ports: BTreeMap<ObjectKey, BTreeSet<u16>>,
    /// An address of the node on which node ports answer.
    node: Option<IpAddr>,
}

impl LocalhostPorts {
    /// Says which TCP node ports of a Service go to endpoints from this node.
    pub(crate) fn set(&self, service: &ObjectKey, ports: BTreeSet<u16>) {
        let mut wanted = self.wanted();
        let former = if ports.is_empty() {
            wanted.ports.remove(service)
        } else {
            wanted.ports.insert(service.clone(), ports.clone())
        };
        drop(wanted);
        if former.unwrap_or_default() != ports {
            self.changed.notify_one();
        }
    }

    /// Says by which address of the node they are reached; by none, nothing answers.
    pub(crate) fn reach_by(&self, node: Option<IpAddr>) {
        let mut wanted = self.wanted();
        if wanted.node != node {
            wanted.node = node;
            drop(wanted);
            self.changed.notify_one();
        }
    }

    /// How many connections came (MET-19).
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Relays all of them, opening and closing ports as they come and go. Runs until it is dropped.
pub(crate) async fn relay_localhost(ports: Arc<LocalhostPorts>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut listeners = JoinSet::new();
    let mut open: BTreeMap<u16, (IpAddr, AbortHandle)> = BTreeMap::new();
    loop {
        let wanted = ports.wanted().clone();
        let all: BTreeSet<u16> = wanted.ports.values().flatten().copied().take(PORTS_MAX).collect();
        open.retain(|port, (node, listener)| {
            let stays = all.contains(port) && wanted.node == Some(*node);
            if !stays {
                listener.abort();
            }
            stays
        });
        // What was aborted holds its port until it is joined.
        while listeners.len() > open.len() && listeners.join_next().await.is_some() {}
        let mut is_complete = true;
        for port in all {
            let Some(node) = wanted.node.filter(|_| !open.contains_key(&port)) else {
                continue;
            };
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                Ok(listener) => {
                    let to = SocketAddr::new(node, port);
                    let listener = listeners.spawn(accept(listener, to, places.clone(), ports.clone()));
                    open.insert(port, (node, listener));
                }
                Err(error) => {
                    tracing::debug!(port, %error, "a node port does not answer on loopback");
                    is_complete = false;
                }
            }
        }
        let changed = ports.changed.notified();
        if is_complete {
            changed.await;
        } else if tokio::time::timeout(BIND_RETRY_PERIOD, changed).await.is_err() {
            tracing::trace!("trying node ports again that could not be bound on loopback");
        }
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, places: Arc<Semaphore>, ports: Arc<LocalhostPorts>) {
    let serve = move |stream| {
        ports.accepted.fetch_add(1, Ordering::Relaxed);
        relay(stream, to)
    };
    accept_connections(listener, places, serve, |stream| refuse(&stream)).await;
}

/// Relays one connection until both sides have said all.
async fn relay(mut client: TcpStream, to: SocketAddr) {
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(to)).await {
        Ok(Ok(mut endpoint)) => {
            if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut endpoint).await {
                tracing::trace!(%error, "a connection by loopback ended early");
                refuse(&client);
            }
        }
        Ok(Err(error)) => {
            tracing::debug!(%to, %error, "a connection by loopback finds no endpoint");
            refuse(&client);
        }
        Err(_) => refuse(&client),
    }
}

/// Makes the kernel reset the connection when it is closed, so that its client sees a failure.
fn refuse(client: &TcpStream) {
    if let Err(error) = client.set_zero_linger() {
        tracing::trace!(%error, "a connection is closed instead of reset");
    }
}

#[cfg(test)]
mod tests;
