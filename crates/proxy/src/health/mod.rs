//! Health of the proxy (HLT-01 to HLT-03). It is healthy if no update waits too long and the Node is not about to be
//! deleted.

mod listener;
mod service;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use jiff::Timestamp;
use serde_json::json;
use telemetry::Response;

pub(crate) use service::{ServiceChecks, serve_service_checks};

/// Maximum wait of an update: by default, twice the sync period of kube-proxy.
const PENDING_MAX: Duration = Duration::from_secs(60);
/// Maximum wait of an update in sync periods (HLT-01).
const PENDING_SYNC_PERIODS_MAX: u32 = 2;

/// A point in time on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Wall clock time, which may jump.
    pub(crate) wall: Timestamp,
    /// Monotonic time for durations.
    pub(crate) monotonic: Instant,
}

impl Moment {
    /// Returns the current time.
    pub(crate) fn now() -> Self {
        Self {
            wall: Timestamp::now(),
            monotonic: Instant::now(),
        }
    }
}

/// State behind `/healthz` and `/livez`. Callers pass the time.
#[derive(Debug)]
pub(crate) struct Health {
    state: Mutex<State>,
}

/// State of the proxy that health depends on.
#[derive(Debug)]
struct State {
    /// Time since which the oldest unapplied change waits.
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
    /// Derives the maximum wait of updates from the sync period.
    pub(crate) fn set_sync_period(&self, period: Duration) {
        self.state().pending_max = period.saturating_mul(PENDING_SYNC_PERIODS_MAX);
    }

    /// Records that a change arrived.
    pub(crate) fn queued(&self, now: Moment) {
        self.state().pending_since.get_or_insert(now.monotonic);
    }

    /// Records that all changes are applied.
    pub(crate) fn updated(&self, now: Moment) {
        let mut state = self.state();
        state.pending_since = None;
        state.last_updated = Some(now.wall);
    }

    /// Records if the node is to receive traffic.
    pub(crate) fn set_node_eligible(&self, is_eligible: bool) {
        self.state().is_node_eligible = is_eligible;
    }

    /// Returns true if no change waits too long. The proxy is healthy during its start.
    pub(crate) fn is_healthy(&self, now: Moment) -> bool {
        self.state().is_healthy(now)
    }

    /// Returns the age of the oldest change that is not applied; zero if all are.
    pub(crate) fn behind(&self, now: Moment) -> Duration {
        let since = self.state().pending_since;
        since.map_or(Duration::ZERO, |since| {
            now.monotonic.saturating_duration_since(since)
        })
    }

    /// Returns the response of `/healthz`.
    pub(crate) fn healthz(&self, now: Moment) -> Response {
        let state = self.state();
        let is_available = state.is_healthy(now) && state.is_node_eligible;
        state.answer(now, is_available, Some(state.is_node_eligible))
    }

    /// Returns the response of `/livez`.
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
            .is_none_or(|since| now.monotonic.saturating_duration_since(since) < self.pending_max)
    }

    /// Returns a response with the code for `is_available`. Its field `healthy` does not depend on the Node, as in
    /// kube-proxy (`pkg/proxy/healthcheck/proxy_health.go`, healthzHandler). One data plane serves both families, so
    /// their states are the same.
    fn answer(&self, now: Moment, is_available: bool, node_eligible: Option<bool>) -> Response {
        let is_healthy = self.is_healthy(now);
        let changed = self.last_updated.map(|at| at.to_string());
        let last_updated = if is_available {
            Some(now.wall.to_string())
        } else {
            changed.clone()
        };
        let family_health = json!({"lastUpdated": changed, "healthy": is_healthy});
        let mut body = json!({
            "lastUpdated": last_updated,
            "currentTime": now.wall.to_string(),
            "healthy": is_healthy,
            "status": {"IPv4": family_health, "IPv6": family_health},
        });
        if let Some(node_eligible) = node_eligible {
            body["nodeEligible"] = node_eligible.into();
        }
        let status = if is_available {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        Response::json(status, &body)
    }
}

#[cfg(test)]
mod tests;
