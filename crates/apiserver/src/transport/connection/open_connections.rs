//! Open connections, counted: each holds its place in the census until it ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use telemetry::{MetricType, MetricsText};

use super::activity::Silence;
use super::census::{Census, Source, Stage};
use super::displacement::{Displaceable, Unproved};
use super::node_connections::{NodeConnections, Registered};
use crate::access::authentication::Identity;
use crate::portions::Exceeded;
use crate::transport::long_running::Cut;

/// All connections of the server.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Mutex<Open>,
    nodes: Arc<NodeConnections>,
    refused: [AtomicU64; Refusal::ALL.len()],
}

/// The connections that are open.
#[derive(Debug)]
struct Open {
    census: Census,
    handshakes: Unproved,
    unauthenticated: Unproved,
}

/// Reason for which the server refused or closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There are too many, in its stage or of all.
    Connections,
    /// There are too many from its address.
    Address,
    /// The handshake failed or took too long.
    Handshake,
    /// The client sent no request.
    NoFirstRequest,
    /// The connection was idle for too long.
    Idle,
}

impl Refusal {
    const ALL: [Refusal; 5] = [
        Refusal::Connections,
        Refusal::Address,
        Refusal::Handshake,
        Refusal::NoFirstRequest,
        Refusal::Idle,
    ];

    fn reason(self) -> &'static str {
        match self {
            Refusal::Connections => "connections",
            Refusal::Address => "address",
            Refusal::Handshake => "handshake",
            Refusal::NoFirstRequest => "no-first-request",
            Refusal::Idle => "idle",
        }
    }
}

impl From<Exceeded> for Refusal {
    fn from(exceeded: Exceeded) -> Refusal {
        match exceeded {
            Exceeded::Total => Refusal::Connections,
            Exceeded::Holder => Refusal::Address,
        }
    }
}

impl From<Silence> for Refusal {
    fn from(silence: Silence) -> Refusal {
        match silence {
            Silence::NoFirstRequest => Refusal::NoFirstRequest,
            Silence::Idle => Refusal::Idle,
        }
    }
}

impl Connections {
    /// With a bound for each address; 0 for none.
    pub(crate) fn new(per_address: u32) -> Connections {
        Connections {
            open: Mutex::new(Open {
                census: Census::new(per_address),
                handshakes: Unproved::default(),
                unauthenticated: Unproved::default(),
            }),
            nodes: Arc::default(),
            refused: Default::default(),
        }
    }

    /// Connections with the certificate of a Node.
    pub(crate) fn nodes(&self) -> &Arc<NodeConnections> {
        &self.nodes
    }

    /// Counts a connection that arrives; `None` if it is refused.
    pub(crate) fn arrive(self: &Arc<Self>, peer: SocketAddr) -> Option<Arrived> {
        let source = Source::from(peer.ip());
        let mut open = self.open();
        if let Err(exceeded) = open.census.arrive(source) {
            self.refuse(exceeded.into());
            // The place of the oldest handshake is the new one's: the census stays as it is.
            if exceeded == Exceeded::Total || !open.handshakes.displace_oldest(source) {
                return None;
            }
        }
        let displaceable = Arc::<Displaceable>::default();
        open.handshakes.begin(source, &displaceable);
        Some(Arrived(Counted {
            connections: self.clone(),
            source,
            stage: AtomicU8::new(Stage::Handshake as u8),
            displaceable,
        }))
    }

    /// Counts a refusal.
    pub(super) fn refuse(&self, why: Refusal) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the metrics.
    pub(crate) fn render(&self, out: &mut MetricsText) {
        let name = "portolan_apiserver_connections";
        out.family(name, MetricType::Gauge, "Number of open connections, by stage.");
        let open = {
            let open = self.open();
            Stage::ALL.map(|stage| (stage, open.census.open(stage)))
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
        for (why, count) in Refusal::ALL.iter().zip(&self.refused) {
            let labels = format!("reason=\"{}\"", why.reason());
            out.sample(name, &labels, count.load(Ordering::Relaxed));
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in its handshake.
pub(crate) struct Arrived(Counted);

/// A connection in the census, until this is dropped.
#[derive(Debug)]
struct Counted {
    connections: Arc<Connections>,
    source: Source,
    stage: AtomicU8,
    /// Its end for a newer connection, as long as it has proved nothing.
    displaceable: Arc<Displaceable>,
}

/// A connection that takes requests.
#[derive(Debug)]
pub(crate) struct Connection {
    identity: Option<Arc<Identity>>,
    /// Among the connections of Nodes' machines, if it is one of them.
    of_node: Option<Registered>,
    counted: Counted,
}

impl Arrived {
    /// Returns once a newer connection of the same address has taken this one's place.
    pub(super) async fn displaced(&self) {
        self.0.displaceable.displaced().await;
    }

    /// The handshake is over; `identity` is whom the client certificate names. `None` if there are too many such.
    pub(super) fn shake(self, identity: Option<Arc<Identity>>) -> Option<Connection> {
        let stage = match &identity {
            Some(identity) if identity.is_privileged() => Stage::Exempt,
            Some(_) => Stage::WithCertificate,
            None => Stage::Unauthenticated,
        };
        match self.0.advance(stage) {
            Ok(()) => Some(Connection {
                of_node: identity
                    .as_ref()
                    .and_then(|identity| self.0.connections.nodes.register(identity)),
                identity,
                counted: self.0,
            }),
            Err(exceeded) => {
                self.0.connections.refuse(exceeded.into());
                None
            }
        }
    }
}

impl Connection {
    /// Whom the client certificate names.
    pub(crate) fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// The early end of what begins to last now; `None` if only client and server end it.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.of_node.as_ref().map(Registered::cut)
    }

    /// Returns once a newer connection has taken this one's place among those that have proved nothing.
    pub(super) async fn displaced(&self) {
        self.counted.displaceable.displaced().await;
    }

    /// A request brought a valid credential: the connection leaves the pool of those without. If the pool of those with a
    /// token is full, it keeps its place, and no newer connection takes it any more.
    pub(crate) fn prove(&self) {
        if self.counted.stage() == Some(Stage::Unauthenticated)
            && let Err(exceeded) = self.counted.advance(Stage::WithToken)
        {
            tracing::debug!(?exceeded, "a connection with a token stays among those without");
            let mut open = self.counted.connections.open();
            open.unauthenticated
                .end(self.counted.source, &self.counted.displaceable);
        }
    }
}

impl Counted {
    fn stage(&self) -> Option<Stage> {
        Stage::ALL
            .get(usize::from(self.stage.load(Ordering::Relaxed)))
            .copied()
    }

    fn advance(&self, to: Stage) -> Result<(), Exceeded> {
        // The stage changes under the lock: requests of one connection may prove it at the same time.
        let mut open = self.connections.open();
        let from = match self.stage() {
            Some(_) if self.displaceable.is_displaced() => return Err(Exceeded::Holder),
            Some(from) if from != to => from,
            _ => return Ok(()),
        };
        if let Err(exceeded) = open.census.advance(self.source, from, to) {
            let is_displacing =
                to == Stage::Unauthenticated && open.displace_unauthenticated(self.source, exceeded);
            if !is_displacing {
                return Err(exceeded);
            }
            self.connections.refuse(exceeded.into());
            open.census.advance(self.source, from, to)?;
        }
        self.stage.store(to as u8, Ordering::Relaxed);
        if let Some(unproved) = open.unproved(from) {
            unproved.end(self.source, &self.displaceable);
        }
        if let Some(unproved) = open.unproved(to) {
            unproved.begin(self.source, &self.displaceable);
        }
        Ok(())
    }
}

impl Open {
    /// The connections of a stage in which they can be displaced.
    fn unproved(&mut self, stage: Stage) -> Option<&mut Unproved> {
        match stage {
            Stage::Handshake => Some(&mut self.handshakes),
            Stage::Unauthenticated => Some(&mut self.unauthenticated),
            Stage::WithToken | Stage::WithCertificate | Stage::Exempt => None,
        }
    }

    /// Ends the oldest connection without credentials, of the same address, or of the one with the most if all together are
    /// too many.
    fn displace_unauthenticated(&mut self, source: Source, exceeded: Exceeded) -> bool {
        let from = match exceeded {
            Exceeded::Holder => Some(source),
            Exceeded::Total => self.unauthenticated.fullest(),
        };
        let Some(from) = from.filter(|from| self.unauthenticated.displace_oldest(*from)) else {
            return false;
        };
        self.census.leave(from, Stage::Unauthenticated);
        true
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        let Some(stage) = self.stage() else { return };
        if let Some(unproved) = open.unproved(stage) {
            // Its place is a newer connection's.
            if self.displaceable.is_displaced() {
                return;
            }
            unproved.end(self.source, &self.displaceable);
        }
        open.census.leave(self.source, stage);
    }
}

#[cfg(test)]
mod tests;
