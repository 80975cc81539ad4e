//! A Service's port: its policy, its admission and its counters, which all of its connections share.

mod policy;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustls::ClientConfig;
use tokio::sync::watch;

use crate::admission::{Admission, ConnectionPermit, ServiceLoad};
use crate::check_limits::CheckLimits;
use crate::counters::PortCounters;
use crate::edge_state::{AcceptLoopGuard, EdgeState};
use crate::port_key::PortKey;
use crate::refusal::ConnectionRefusal;
pub(crate) use policy::{PortPolicy, PortSettings};

/// Port of a Service.
#[derive(Debug)]
pub(crate) struct Port {
    /// Identity of the port.
    pub key: PortKey,
    /// Settings and backends.
    pub policy: PortPolicy,
    /// Limits of connections, clients and bandwidth.
    pub admission: Arc<Admission>,
    /// Counters for metrics and status.
    pub counters: Arc<PortCounters>,
    drain: watch::Sender<bool>,
    edge: Arc<EdgeState>,
}

impl Port {
    /// Creates a port with its first settings.
    pub(crate) fn new(
        key: PortKey,
        settings: PortSettings,
        load: Arc<ServiceLoad>,
        edge: Arc<EdgeState>,
    ) -> Self {
        let counters = Arc::<PortCounters>::default();
        Self {
            policy: PortPolicy::new(key.service.clone(), settings, edge.clone()),
            admission: Arc::new(Admission::new(edge.connections.clone(), load, counters.clone())),
            key,
            counters,
            drain: watch::Sender::new(false),
            edge,
        }
    }

    /// Counts one more connection or flow, until the permit is dropped.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn permit(&self) -> Result<ConnectionPermit, ConnectionRefusal> {
        self.admission.permit(&self.policy.load().service.policy.limits)
    }

    /// Checks the client of a connection against the current settings.
    ///
    /// # Errors
    /// The rule or limit that refuses the client.
    pub(crate) fn admit_client(
        &self,
        client: IpAddr,
        permit: &mut ConnectionPermit,
    ) -> Result<(), ConnectionRefusal> {
        self.admission
            .admit_client(client, &self.policy.load().service.policy, permit)
    }

    /// Returns true if the host of this edge receives encapsulated packets at the port of a backend. The edge sends no
    /// datagrams there.
    pub(crate) fn is_encapsulation_port(&self, backend: SocketAddr) -> bool {
        self.edge.encapsulation_ports.contains(backend.port())
    }

    /// Becomes true when connections have to end as soon as they can: the edge drains, or the port is removed.
    pub(crate) fn drain(&self) -> watch::Receiver<bool> {
        self.drain.subscribe()
    }

    /// Requests that the connections end as soon as they can; see [`Port::drain`].
    pub(crate) fn start_draining(&self) {
        self.drain.send_replace(true);
    }

    /// Returns true if the edge shuts down and closes the remaining connections.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.edge.is_cut_off.load(Ordering::Relaxed)
    }

    /// Returns the port to which a route leads, if it exists.
    pub(crate) fn route_target(&self, key: &PortKey) -> Option<Arc<Port>> {
        self.edge.route_target(key)
    }

    /// Returns the TLS configuration towards its backends.
    pub(crate) fn tls_to_backends(&self) -> &Arc<ClientConfig> {
        &self.edge.tls_to_backends
    }

    /// Returns the limits of the health checks of the namespace.
    pub(crate) fn check_limits(&self) -> Arc<CheckLimits> {
        let namespace = &self.key.service.namespace;
        self.edge.checks.get(namespace, CheckLimits::new)
    }

    /// Counts the calling task as one that accepts connections, until the guard is dropped.
    pub(crate) fn accept_loop(&self) -> AcceptLoopGuard {
        AcceptLoopGuard::new(self.edge.clone())
    }
}
