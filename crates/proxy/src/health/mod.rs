//! Whether the proxy is healthy: no update has been waiting for long, and the node stays (HLT-01 to
//! HLT-03).

mod service;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use jiff::Timestamp;
use serde_json::json;
use telemetry::Response;

pub(crate) use service::{ServiceChecks, serve_service_checks};

/// How long an update may wait: twice the sync period of the reference, unless another is set.
const PENDING_MAX: Duration = Duration::from_secs(60);
/// Sync periods that an update may wait (HLT-01).
const PENDING_SYNC_PERIODS_MAX: u32 = 2;

/// A time, as both clocks tell it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// What people call it. It jumps when somebody sets the machine's clock.
    pub(crate) wall: Timestamp,
    /// What waiting is measured by: it goes on evenly.
    pub(crate) steady: Instant,
}

impl Moment {
    /// The present one.
    pub(crate) fn now() -> Self {
        Self {
            wall: Timestamp::now(),
            steady: Instant::now(),
        }
    }
}

/// The state behind `/healthz` and `/livez`. Times come from the caller.
#[derive(Debug)]
pub(crate) struct Health {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Since when the oldest change waits that is not in force.
    pending_since: Option<Instant>,
    last_updated: Option<Timestamp>,
    is_node_eligible: bool,
    pending_max: Duration,
}

impl Default for Health {
    fn default() -> Self {
        let state = State {
            pending_since: None,
            last_updated: None,
            is_node_eligible: true,
            pending_max: PENDING_MAX,
        };
        Self {
            state: Mutex::new(state),
        }
    }
}

impl Health {
    /// Sets how long an update may wait by the sync period.
    pub(crate) fn set_sync_period(&self, period: Duration) {
        self.state().pending_max = period.saturating_mul(PENDING_SYNC_PERIODS_MAX);
    }

    /// A change came that is not in force.
    pub(crate) fn queued(&self, now: Moment) {
        self.state().pending_since.get_or_insert(now.steady);
    }

    /// Everything that came is in force.
    pub(crate) fn updated(&self, now: Moment) {
        let mut state = self.state();
        state.pending_since = None;
        state.last_updated = Some(now.wall);
    }

    /// Takes note of whether the node should get traffic.
    pub(crate) fn set_node_eligible(&self, is_eligible: bool) {
        self.state().is_node_eligible = is_eligible;
    }

    /// Whether no change has been waiting for too long. Healthy while it starts.
    pub(crate) fn is_healthy(&self, now: Moment) -> bool {
        self.state().is_healthy(now)
    }

    /// The answer of `/healthz`.
    pub(crate) fn healthz(&self, now: Moment) -> Response {
        let state = self.state();
        let is_healthy = state.is_healthy(now) && state.is_node_eligible;
        state.answer(now, is_healthy, Some(state.is_node_eligible))
    }

    /// The answer of `/livez`.
    pub(crate) fn livez(&self, now: Moment) -> Response {
        let state = self.state();
        state.answer(now, state.is_healthy(now), None)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_healthy(&self, now: Moment) -> bool {
        self.pending_since
            .is_none_or(|since| now.steady.saturating_duration_since(since) < self.pending_max)
    }

    /// One dataplane serves both families, so their states are one.
    fn answer(&self, now: Moment, is_healthy: bool, node_eligible: Option<bool>) -> Response {
        let last_updated = if self.is_healthy(now) {
            Some(now.wall)
        } else {
            self.last_updated
        };
        let last_updated = last_updated.map(|at| at.to_string());
        let of_family = json!({"lastUpdated": last_updated, "healthy": self.is_healthy(now)});
        let mut body = json!({
            "lastUpdated": last_updated,
            "currentTime": now.wall.to_string(),
            "healthy": is_healthy,
            "status": {"IPv4": of_family, "IPv6": of_family},
        });
        if let Some(node_eligible) = node_eligible {
            body["nodeEligible"] = node_eligible.into();
        }
        let status = if is_healthy {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        Response::json(status, &body)
    }
}

#[cfg(test)]
mod tests;
