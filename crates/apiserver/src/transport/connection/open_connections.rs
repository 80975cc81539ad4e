//! Registry of open connections: their stages, displacement and metrics.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use telemetry::{MetricType, MetricsText};

use super::activity::IdleReason;
use super::displacement::{Displaceable, DisplacementQueue};
use super::node_connections::{NodeConnections, Registration};
use super::source::Source;
use super::stage_counts::{Stage, StageCounts};
use crate::access::authentication::Identity;
use crate::limited_pool::ExceededLimit;
use crate::transport::long_running::Revocation;

/// All connections of the server.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Mutex<OpenConnections>,
    nodes: Arc<NodeConnections>,
    refused: [AtomicU64; Refusal::ALL.len()],
}

/// State of the open connections.
#[derive(Debug)]
struct OpenConnections {
    counts: StageCounts,
    handshakes: DisplacementQueue,
    unauthenticated: DisplacementQueue,
}

/// Reason why the server refused or closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Too many connections are open, in the stage or in total.
    Connections,
    /// Too many connections of the address are open.
    Address,
    /// The handshake failed or took too long.
    Handshake,
    /// The client sent no request.
    NoFirstRequest,
    /// The connection was idle for too long.
    Idle,
    /// The client read nothing of a response.
    Unread,
}

impl Refusal {
    const ALL: [Refusal; 6] = [
        Refusal::Connections,
        Refusal::Address,
        Refusal::Handshake,
        Refusal::NoFirstRequest,
        Refusal::Idle,
        Refusal::Unread,
    ];

    fn reason(self) -> &'static str {
        match self {
            Refusal::Connections => "connections",
            Refusal::Address => "address",
            Refusal::Handshake => "handshake",
            Refusal::NoFirstRequest => "no-first-request",
            Refusal::Idle => "idle",
            Refusal::Unread => "unread-response",
        }
    }
}

impl From<ExceededLimit> for Refusal {
    fn from(exceeded: ExceededLimit) -> Refusal {
        match exceeded {
            ExceededLimit::Total => Refusal::Connections,
            ExceededLimit::Holder => Refusal::Address,
        }
    }
}

impl From<IdleReason> for Refusal {
    fn from(reason: IdleReason) -> Refusal {
        match reason {
            IdleReason::NoFirstRequest => Refusal::NoFirstRequest,
            IdleReason::Idle => Refusal::Idle,
            IdleReason::Unread => Refusal::Unread,
        }
    }
}

impl Connections {
    /// Creates an empty registry with a limit for each address; 0 means no limit.
    pub(crate) fn new(per_address: u32) -> Connections {
        Connections {
            open: Mutex::new(OpenConnections {
                counts: StageCounts::new(per_address),
                handshakes: DisplacementQueue::default(),
                unauthenticated: DisplacementQueue::default(),
            }),
            nodes: Arc::default(),
            refused: Default::default(),
        }
    }

    /// Returns the connections with the certificate of a node.
    pub(crate) fn nodes(&self) -> &Arc<NodeConnections> {
        &self.nodes
    }

    /// Registers a new connection. Returns `None` if it is refused.
    pub(crate) fn accept(self: &Arc<Self>, peer: SocketAddr) -> Option<Handshaking> {
        let source = Source::from(peer.ip());
        let mut open = self.open();
        if let Err(exceeded) = open.counts.enter(source) {
            self.count_refusal(exceeded.into());
            // The new connection takes over the count of the oldest handshake, so the counts do not change.
            if exceeded == ExceededLimit::Total || !open.handshakes.displace_oldest(source) {
                return None;
            }
        }
        let displaceable = Arc::<Displaceable>::default();
        open.handshakes.push(source, &displaceable);
        Some(Handshaking(CountedConnection {
            connections: self.clone(),
            source,
            stage: AtomicU8::new(Stage::Handshake as u8),
            displaceable,
        }))
    }

    /// Counts a refusal.
    pub(super) fn count_refusal(&self, refusal: Refusal) {
        self.refused[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the metrics.
    pub(crate) fn write_metrics(&self, out: &mut MetricsText) {
        let name = "portolan_apiserver_connections";
        out.family(name, MetricType::Gauge, "Number of open connections, by stage.");
        let open = {
            let open = self.open();
            Stage::ALL.map(|stage| (stage, open.counts.open(stage)))
        };
        for (stage, count) in open {
            out.sample(name, &format!("stage=\"{}\"", stage.name()), count);
        }
        let name = "portolan_apiserver_connections_refused_total";
        out.family(
            name,
            MetricType::Counter,
            "Number of connections refused or closed by the server, by reason.",
        );
        for (refusal, count) in Refusal::ALL.iter().zip(&self.refused) {
            let labels = format!("reason=\"{}\"", refusal.reason());
            out.sample(name, &labels, count.load(Ordering::Relaxed));
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connection in its TLS handshake.
pub(crate) struct Handshaking(CountedConnection);

/// Counted connection; dropping it ends the count.
#[derive(Debug)]
struct CountedConnection {
    connections: Arc<Connections>,
    source: Source,
    stage: AtomicU8,
    /// Displacement by a newer connection, until the client is authenticated.
    displaceable: Arc<Displaceable>,
}

/// Connection after its TLS handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    identity: Option<Arc<Identity>>,
    /// Registration under the Node of the client certificate.
    node: Option<Registration>,
    counted: CountedConnection,
}

impl Handshaking {
    /// Resolves when a newer connection of the same address displaces this one.
    pub(super) async fn displaced(&self) {
        self.0.displaceable.displaced().await;
    }

    /// Completes the handshake. `identity` is the subject of the client certificate. Returns `None` if the
    /// limits refuse the connection.
    pub(super) fn complete(self, identity: Option<Arc<Identity>>) -> Option<Connection> {
        let stage = match &identity {
            Some(identity) if identity.is_privileged() => Stage::Exempt,
            Some(_) => Stage::WithCertificate,
            None => Stage::Unauthenticated,
        };
        match self.0.advance(stage) {
            Ok(()) => Some(Connection {
                node: identity
                    .as_ref()
                    .and_then(|identity| self.0.connections.nodes.register(identity)),
                identity,
                counted: self.0,
            }),
            Err(exceeded) => {
                self.0.connections.count_refusal(exceeded.into());
                None
            }
        }
    }
}

impl Connection {
    /// Returns the identity of the client certificate.
    pub(crate) fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// Returns the revocation for a request that begins now; `None` without the certificate of a node.
    pub(crate) fn revocation(&self) -> Option<Revocation> {
        self.node.as_ref().map(Registration::revocation)
    }

    /// Resolves when a newer connection displaces this unauthenticated one.
    pub(super) async fn displaced(&self) {
        self.counted.displaceable.displaced().await;
    }

    /// Moves a connection to the pool of authenticated ones, after a request with a valid token. If that pool
    /// is full, the connection stays in its pool, and no newer connection displaces it.
    pub(crate) fn authenticate(&self) {
        if self.counted.stage() == Some(Stage::Unauthenticated)
            && let Err(exceeded) = self.counted.advance(Stage::WithToken)
        {
            tracing::debug!(
                ?exceeded,
                "connection counted as unauthenticated: too many connections with tokens"
            );
            let mut open = self.counted.connections.open();
            open.unauthenticated
                .remove(self.counted.source, &self.counted.displaceable);
        }
    }
}

impl CountedConnection {
    fn stage(&self) -> Option<Stage> {
        Stage::ALL
            .get(usize::from(self.stage.load(Ordering::Relaxed)))
            .copied()
    }

    fn advance(&self, to: Stage) -> Result<(), ExceededLimit> {
        // The stage changes under the lock: two requests of one connection may authenticate it at the same time.
        let mut open = self.connections.open();
        let from = match self.stage() {
            Some(_) if self.displaceable.is_displaced() => return Err(ExceededLimit::Holder),
            Some(from) if from != to => from,
            _ => return Ok(()),
        };
        if let Err(exceeded) = open.counts.advance(self.source, from, to) {
            let is_displacing =
                to == Stage::Unauthenticated && open.displace_unauthenticated(self.source, exceeded);
            if !is_displacing {
                return Err(exceeded);
            }
            self.connections.count_refusal(exceeded.into());
            open.counts.advance(self.source, from, to)?;
        }
        self.stage.store(to as u8, Ordering::Relaxed);
        if let Some(queue) = open.displacement_queue(from) {
            queue.remove(self.source, &self.displaceable);
        }
        if let Some(queue) = open.displacement_queue(to) {
            queue.push(self.source, &self.displaceable);
        }
        Ok(())
    }
}

impl OpenConnections {
    /// Returns the displacement queue of a stage; `None` after authentication.
    fn displacement_queue(&mut self, stage: Stage) -> Option<&mut DisplacementQueue> {
        match stage {
            Stage::Handshake => Some(&mut self.handshakes),
            Stage::Unauthenticated => Some(&mut self.unauthenticated),
            Stage::WithToken | Stage::WithCertificate | Stage::Exempt => None,
        }
    }

    /// Displaces the oldest unauthenticated connection: of the same address, or of the address with the most
    /// if the total is exceeded.
    fn displace_unauthenticated(&mut self, source: Source, exceeded: ExceededLimit) -> bool {
        let from = match exceeded {
            ExceededLimit::Holder => Some(source),
            ExceededLimit::Total => self.unauthenticated.largest_source(),
        };
        let Some(from) = from.filter(|from| self.unauthenticated.displace_oldest(*from)) else {
            return false;
        };
        self.counts.leave(from, Stage::Unauthenticated);
        true
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        let Some(stage) = self.stage() else { return };
        if let Some(queue) = open.displacement_queue(stage) {
            // A newer connection took over the count.
            if self.displaceable.is_displaced() {
                return;
            }
            queue.remove(self.source, &self.displaceable);
        }
        open.counts.leave(self.source, stage);
    }
}

#[cfg(test)]
mod tests;
