//! Metrics and port states of the edge for the pages of the process.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use edge::Edge;
use edge::status::PortStatus;

/// Metrics and port states of the edge; empty until the edge starts.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Weak<Edge>>);

impl Metrics {
    pub(super) fn set(&self, edge: &Arc<Edge>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(edge);
    }

    /// Renders the metrics in the Prometheus text format.
    pub fn render(&self) -> String {
        self.edge().map_or_else(String::new, |edge| edge.metrics())
    }

    /// Returns the state of each port.
    pub fn status(&self) -> Vec<PortStatus> {
        self.edge().map_or_else(Vec::new, |edge| edge.status())
    }

    fn edge(&self) -> Option<Arc<Edge>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}
