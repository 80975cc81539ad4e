//! Readiness probes: counting results (pure), and asking (`ask`).

mod ask;

use std::time::Duration;

use crate::object::{Container, Probe};
use api::object::IntOrString;

pub use ask::{ProbeFailure, http_get, tcp_connect};

#[cfg(test)]
mod tests;

/// Whether a container counts as ready, from the results of its probe so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    is_ready: bool,
    /// Results in a row that speak against the present state.
    against: u32,
}

impl Readiness {
    /// Counts a result; `true` if the state has changed by it.
    pub fn count(&mut self, succeeded: bool, probe: &Probe) -> bool {
        if succeeded == self.is_ready {
            self.against = 0;
            return false;
        }
        self.against += 1;
        let threshold = if succeeded {
            probe.success_threshold
        } else {
            probe.failure_threshold
        };
        if self.against < threshold.max(1) {
            return false;
        }
        *self = Self {
            is_ready: succeeded,
            against: 0,
        };
        true
    }

    /// Whether the container is ready.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }
}

/// How long to wait before the first result.
pub fn initial_delay(probe: &Probe) -> Duration {
    Duration::from_secs(probe.initial_delay_seconds.into())
}

/// How long between two results; never nothing, whatever the object says.
pub fn period(probe: &Probe) -> Duration {
    Duration::from_secs(probe.period_seconds.max(1).into())
}

/// How long an answer may take.
pub fn timeout(probe: &Probe) -> Duration {
    Duration::from_secs(probe.timeout_seconds.max(1).into())
}

/// The number of a probe's port: itself, or that of the container's port of that name.
pub fn port_number(port: &IntOrString, container: &Container) -> Option<u16> {
    match port {
        IntOrString::Int(number) => u16::try_from(*number).ok().filter(|n| *n != 0),
        IntOrString::String(name) => container
            .ports
            .iter()
            .find(|p| p.name == *name)
            .map(|p| p.container_port)
            .or_else(|| name.parse().ok().filter(|n| *n != 0)),
    }
}
