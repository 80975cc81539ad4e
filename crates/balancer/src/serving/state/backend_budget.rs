//! Bound of the backends of one Service. Pure.

use edge::settings::{Backend, LISTENERS_MAX};

#[cfg(test)]
mod tests;

/// Maximum number of backends of all ports of a Service together. The edge holds about a kilobyte for each, and a Service
/// and its EndpointSlices can have thousands of ports with thousands of endpoints.
const BACKENDS_MAX: usize = 100_000;

/// Number of ports and backends that a Service may still have.
#[derive(Debug)]
pub(super) struct BackendBudget {
    ports: usize,
    backends: usize,
    is_exceeded: bool,
}

impl BackendBudget {
    /// Creates the budget of a Service. The edge does not serve ports beyond [`LISTENERS_MAX`], so these have no backends.
    pub(super) fn new() -> Self {
        Self::of(LISTENERS_MAX, BACKENDS_MAX)
    }

    fn of(ports: usize, backends: usize) -> Self {
        Self {
            ports,
            backends,
            is_exceeded: false,
        }
    }

    /// Returns the backends of one more port, as far as the budget has room.
    pub(super) fn take(&mut self, backends: impl FnOnce() -> Vec<Backend>) -> Vec<Backend> {
        if self.ports == 0 {
            return Vec::new();
        }
        self.ports -= 1;
        if self.backends == 0 {
            self.is_exceeded = true;
            return Vec::new();
        }
        let mut backends = backends();
        if backends.len() > self.backends {
            self.is_exceeded = true;
            backends.truncate(self.backends);
        }
        self.backends -= backends.len();
        backends
    }

    /// Returns the fault of a Service whose budget was too small.
    pub(super) fn fault(&self) -> Option<String> {
        self.is_exceeded.then(|| {
            format!(
                "expected at most {BACKENDS_MAX} endpoints of all ports together, found more; further ones get no \
                 connections; divide the ports into several Services"
            )
        })
    }
}
