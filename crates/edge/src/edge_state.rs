//! State that all ports of an edge share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use counting::SharedValues;
use relay::EncapsulationPorts;
use rustls::ClientConfig;

use crate::admission::ProcessConnections;
use crate::check_limits::CheckLimits;
use crate::port::Port;
use crate::port_key::PortKey;
use crate::sticky_cookie::StickyKeys;

/// State that all ports of an edge share.
#[derive(Debug)]
pub(crate) struct EdgeState {
    /// Zone of this node.
    zone: Mutex<Option<Arc<str>>>,
    /// TLS towards backends, whose certificates are not verified.
    pub tls_to_backends: Arc<ClientConfig>,
    /// Open connections and flows of all ports, and their limit.
    pub connections: Arc<ProcessConnections>,
    /// Limits of the health checks of each namespace.
    pub checks: SharedValues<CheckLimits>,
    /// Ports to which the edge sends no datagrams.
    pub encapsulation_ports: EncapsulationPorts,
    /// Keys of sticky cookies.
    pub sticky_keys: ArcSwap<StickyKeys>,
    /// Ports of Services without addresses, which are targets of routes. The references are weak, because the ports own
    /// this state.
    route_targets: ArcSwap<HashMap<PortKey, Weak<Port>>>,
    /// Tasks that accept connections or receive datagrams.
    accept_loops: AtomicUsize,
    /// True when the edge shuts down and closes the remaining connections.
    pub is_cut_off: AtomicBool,
}

impl EdgeState {
    /// Creates the state of an edge that starts.
    ///
    /// # Errors
    /// The error of rustls if TLS towards backends cannot be configured.
    pub(crate) fn new(
        zone: Option<Arc<str>>,
        connections: ProcessConnections,
        sticky_keys: StickyKeys,
    ) -> Result<Self, rustls::Error> {
        Ok(Self {
            zone: Mutex::new(zone),
            tls_to_backends: Arc::new(trust::client_config_without_verification()?),
            connections: Arc::new(connections),
            checks: SharedValues::default(),
            encapsulation_ports: EncapsulationPorts::default(),
            sticky_keys: ArcSwap::from_pointee(sticky_keys),
            route_targets: ArcSwap::default(),
            accept_loops: AtomicUsize::new(0),
            is_cut_off: AtomicBool::new(false),
        })
    }

    /// Returns the zone of this node.
    pub(crate) fn zone(&self) -> Option<Arc<str>> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the zone of this node. Returns true if it has changed: then each port has to refresh its backends.
    pub(crate) fn set_zone(&self, zone: Option<Arc<str>>) -> bool {
        let mut former = self.zone.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = *former != zone;
        *former = zone;
        has_changed
    }

    /// Replaces the ports to which routes lead.
    pub(crate) fn set_route_targets<'p>(&self, ports: impl Iterator<Item = &'p Arc<Port>>) {
        let targets = ports.map(|port| (port.key.clone(), Arc::downgrade(port)));
        self.route_targets.store(Arc::new(targets.collect()));
    }

    /// Returns the port to which a route leads, if it exists.
    pub(crate) fn route_target(&self, key: &PortKey) -> Option<Arc<Port>> {
        self.route_targets.load().get(key)?.upgrade()
    }

    /// Returns true while connections are open or a task may accept another one.
    pub(crate) fn is_busy(&self) -> bool {
        self.accept_loops.load(Ordering::Relaxed) > 0 || self.connections.open() > 0
    }
}

/// Counts a task that accepts connections or receives datagrams, until it is dropped.
pub(crate) struct AcceptLoopGuard(Arc<EdgeState>);

impl AcceptLoopGuard {
    /// Counts one more task.
    pub(crate) fn new(edge: Arc<EdgeState>) -> Self {
        edge.accept_loops.fetch_add(1, Ordering::Relaxed);
        Self(edge)
    }
}

impl Drop for AcceptLoopGuard {
    fn drop(&mut self) {
        self.0.accept_loops.fetch_sub(1, Ordering::Relaxed);
    }
}
