//! The edge of this process, which starts with the first Service.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use edge::{Edge, Faults, StickySecrets};
use tokio::sync::watch;

use crate::serving::{Addresses, ServeError, Settings};

/// The edge, and settings that it needs at its start.
pub(super) struct EdgeInstance {
    edge: Option<Arc<Edge>>,
    zone: Option<Arc<str>>,
    sticky_secrets: StickySecrets,
    pub(super) faults: Option<watch::Receiver<Arc<Faults>>>,
    /// Resolves when a successor has the listening sockets.
    pub(super) handed_over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl EdgeInstance {
    pub(super) fn new(zone: Option<Arc<str>>, sticky_secrets: StickySecrets) -> Self {
        Self {
            edge: None,
            zone,
            sticky_secrets,
            faults: None,
            handed_over: Box::pin(pending()),
        }
    }

    /// Returns true if the edge runs.
    pub(super) fn is_started(&self) -> bool {
        self.edge.is_some()
    }

    /// Starts the edge.
    pub(super) fn start(&mut self, settings: &Settings) -> Result<(), ServeError> {
        let edge = Edge::start(edge::Options {
            zone: self.zone.clone(),
            threads: settings.threads,
            connections_max: settings.connections_max,
            shares: settings.shares,
            log_destinations: settings.log_destinations.clone(),
            sticky_secrets: self.sticky_secrets.clone(),
            handover_socket: settings.handover_socket.clone(),
        })?;
        let edge = Arc::new(edge);
        settings.metrics.set(&edge);
        self.faults = Some(edge.faults());
        if settings.handover_socket.is_some() {
            let edge = Arc::clone(&edge);
            self.handed_over = Box::pin(async move { edge.handed_over().await });
        }
        self.edge = Some(edge);
        Ok(())
    }

    /// Applies settings of all Services, if the edge is started.
    pub(super) fn apply(&self, settings: &edge::settings::Settings) {
        if let Some(edge) = &self.edge {
            edge.apply(settings);
        }
    }

    /// Sets the zone of the node, also of the running edge.
    pub(super) fn set_zone(&mut self, zone: Option<Arc<str>>) {
        if zone == self.zone {
            return;
        }
        tracing::info!(
            zone = zone.as_deref().unwrap_or_default(),
            "zone of the node changed"
        );
        self.zone = zone;
        if let Some(edge) = &self.edge {
            edge.set_zone(self.zone.clone());
        }
    }

    /// Returns true if a key of sticky-session cookies is set.
    pub(super) fn has_sticky_secrets(&self) -> bool {
        self.sticky_secrets != StickySecrets::default()
    }

    /// Sets the keys of sticky-session cookies, also of the running edge.
    pub(super) fn set_sticky_secrets(&mut self, secrets: StickySecrets) {
        if self.sticky_secrets == secrets {
            return;
        }
        if let Some(edge) = &self.edge {
            edge.set_sticky_secrets(&secrets);
        }
        self.sticky_secrets = secrets;
    }

    /// Faults of ports; empty until the edge starts.
    pub(super) fn current_faults(&self) -> Arc<Faults> {
        // Without `borrow_and_update`, a change that is first read here still resolves `faults_changed`.
        let faults = self.faults.as_ref();
        faults
            .map(|faults| Arc::clone(&faults.borrow()))
            .unwrap_or_default()
    }

    /// Returns the addresses with open connections.
    pub(super) fn busy_addresses(&self) -> Addresses {
        let ports = self.edge.as_deref().map_or_else(Vec::new, Edge::status);
        let busy = ports.into_iter().filter(|port| port.open_connections > 0);
        busy.flat_map(|port| port.addresses).collect()
    }

    /// Returns true if a predecessor may still serve.
    pub(super) fn has_predecessor(&self) -> bool {
        self.edge.as_ref().is_some_and(|edge| edge.has_predecessor())
    }

    /// Stops the edge after open connections have finished, at the latest after `timeout`.
    pub(super) async fn drain(&mut self, timeout: Duration) {
        if let Some(edge) = self.edge.take() {
            edge.drain(timeout).await;
        }
    }
}

/// Resolves when the faults of the edge change.
pub(super) async fn faults_changed(faults: &mut Option<watch::Receiver<Arc<Faults>>>) {
    if let Some(faults) = faults
        && faults.changed().await.is_ok()
    {
        return;
    }
    pending().await
}
