//! Current settings of a port, and the backends that follow them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::backends::{Backend, Backends, ChosenBackend};
use crate::edge_state::EdgeState;
use crate::log::Log;
use crate::settings::{Listener, ServiceName, ServiceSettings};
use crate::tls::TlsTermination;

/// Settings of a port at one moment. They are replaced as a whole. An open connection keeps the settings that it
/// needs from its start.
#[derive(Debug)]
pub(crate) struct PortSettings {
    /// Settings of the Service.
    pub service: Arc<ServiceSettings>,
    /// Settings of the port.
    pub listener: Listener,
    /// Access log of the Service.
    pub log: Option<Arc<Log>>,
    /// TLS towards clients; `None` for frontends without TLS, and while no certificate is valid.
    pub tls: Option<Arc<TlsTermination>>,
}

/// Current settings of a port, and the backends that follow them.
#[derive(Debug)]
pub(crate) struct PortPolicy {
    service: ServiceName,
    settings: ArcSwap<PortSettings>,
    backends: Backends,
    changed: Notify,
    edge: Arc<EdgeState>,
}

impl PortPolicy {
    /// Creates the policy of a port with its first settings.
    pub(crate) fn new(service: ServiceName, settings: PortSettings, edge: Arc<EdgeState>) -> Self {
        let backends = Backends::default();
        backends.set(&settings.service, &settings.listener, edge.zone().as_deref());
        Self {
            service,
            settings: ArcSwap::from_pointee(settings),
            backends,
            changed: Notify::new(),
            edge,
        }
    }

    /// Replaces the settings. Returns the backends that are removed.
    pub(crate) fn set(&self, settings: PortSettings) -> Vec<Arc<Backend>> {
        let zone = self.edge.zone();
        let removed = self
            .backends
            .set(&settings.service, &settings.listener, zone.as_deref());
        let former_protocol = self.settings.load().listener.backend_protocol;
        if settings.listener.backend_protocol != former_protocol {
            // Pooled connections use the former protocol.
            let backends = self.backends.all();
            backends.iter().for_each(|backend| backend.pool().clear());
        }
        self.settings.store(Arc::new(settings));
        self.changed.notify_waiters();
        removed
    }

    /// Applies the node's current zone to the backends. No other thread may replace the settings at the same time.
    pub(crate) fn refresh_zone(&self) {
        let settings = self.settings.load();
        let zone = self.edge.zone();
        // The backends stay the same, so none is removed.
        self.backends
            .set(&settings.service, &settings.listener, zone.as_deref());
    }

    /// Returns the current settings.
    pub(crate) fn settings(&self) -> Arc<PortSettings> {
        self.settings.load_full()
    }

    /// Borrows the current settings for a short time, without a reference count.
    pub(crate) fn load(&self) -> Guard<Arc<PortSettings>> {
        self.settings.load()
    }

    /// Completes when the settings are replaced after this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns the backends.
    pub(crate) fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Chooses the backend for a client's new connection or request, except the addresses in `tried`. Returns `None` if
    /// there is none.
    pub(crate) fn choose(&self, client: IpAddr, tried: &[SocketAddr]) -> Option<ChosenBackend> {
        self.backends.choose(client, tried)
    }

    /// Chooses the backend that one of these cookie ids names, if it may take a request.
    pub(crate) fn choose_by_cookie(&self, ids: &[u64]) -> Option<ChosenBackend> {
        let keys = self.edge.sticky_keys.load_full();
        self.backends
            .choose_by(|backend| backend.cookie_ids(&keys, &self.service).matches_any(ids))
    }

    /// Returns the id of a backend in new cookies.
    pub(crate) fn cookie_id(&self, backend: &Backend) -> u64 {
        let keys = self.edge.sticky_keys.load_full();
        backend.cookie_ids(&keys, &self.service).current()
    }

    /// Returns true if connections from this address have to begin with a PROXY header.
    pub(crate) fn expects_proxy_header_from(&self, address: IpAddr) -> bool {
        let settings = self.settings.load();
        let trusted = &settings.service.policy.proxy_protocol_from;
        trusted
            .iter()
            .any(|range| range.contains(&address.to_canonical()))
    }
}
