//! Active health checks of backends.
//!
//! One task checks all backends of a port. A backend begins as healthy, and enough results in a row change that; first
//! checks are spread over an interval. The number of checks at the same time has a limit for each port and for each
//! namespace. Changed settings keep the states of backends that stay. Without a health check, all backends count as
//! healthy.

mod state;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time;

use crate::backends::Backend;
use crate::check_limits::CheckLimits;
use crate::outbound::{self, ConnectError};
use crate::port::{Port, PortSettings};
use crate::settings::{HealthCheck, HealthProbe};
use state::HealthState;

/// Checks of one port at the same time. The bound limits the new connections that backends and firewalls receive at
/// once.
const CHECKS_MAX: usize = 64;

/// Reason why a health check failed.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Http(#[from] probe::http::HttpFailure),
    #[error("unexpected status {0}")]
    Status(u16),
}

/// States of a port's backends.
#[derive(Debug, Default)]
struct HealthStates(HashMap<SocketAddr, HealthState>);

impl HealthStates {
    /// Adds the states of new backends, removes those of others, and applies changed settings.
    fn update(&mut self, backends: &[Arc<Backend>], check: &HealthCheck, now: Duration) {
        let addresses: HashSet<SocketAddr> = backends.iter().map(|backend| backend.address).collect();
        self.0.retain(|address, _| addresses.contains(address));
        for backend in backends {
            self.0
                .entry(backend.address)
                .and_modify(|state| state.set(check, now))
                .or_insert_with(|| HealthState::new(check, now, fastrand::u32(..)));
        }
    }

    /// Starts at most `count_max` checks that are due. Returns the backends.
    fn start_due(&mut self, count_max: usize, now: Duration) -> Vec<SocketAddr> {
        self.0
            .iter_mut()
            .filter(|(_, state)| state.due().is_some_and(|due| due <= now))
            .take(count_max)
            .map(|(address, state)| {
                state.start(now);
                *address
            })
            .collect()
    }

    /// Returns the time of the next check.
    fn next_due(&self) -> Option<Duration> {
        self.0.values().filter_map(HealthState::due).min()
    }

    /// Counts the result of a check.
    fn count(&mut self, port: &Port, backend: &Backend, result: Result<(), CheckError>) {
        let Some(state) = self.0.get_mut(&backend.address) else {
            return;
        };
        if let Err(error) = &result {
            backend.record_failure(format!("health check: {error}"));
        }
        if !state.count(result.is_ok()) {
            return;
        }
        backend.set_healthy(state.is_healthy());
        match result {
            Err(error) => {
                tracing::warn!(port = %port.key, backend = %backend.address, %error, "backend unhealthy")
            }
            Ok(()) => tracing::info!(port = %port.key, backend = %backend.address, "backend healthy again"),
        }
    }
}

/// Checks the backends of a port until this future is dropped.
pub(crate) async fn run(port: Arc<Port>) {
    let started_at = Instant::now();
    let limits = port.check_limits();
    let mut states = HealthStates::default();
    let mut checks = FuturesUnordered::new();
    loop {
        // Before the settings are read, so that no change is missed.
        let changed = port.policy.changed();
        let settings = port.policy.settings();
        let backends = port.policy.backends().all();
        let Some(check) = &settings.service.policy.health_check else {
            states = HealthStates::default();
            // Nothing polls them, and they would hold permits of the namespace.
            checks.clear();
            backends.iter().for_each(|backend| backend.set_healthy(true));
            changed.await;
            continue;
        };
        states.update(&backends, check, started_at.elapsed());
        tokio::pin!(changed);
        loop {
            let free = CHECKS_MAX.saturating_sub(checks.len());
            for address in states.start_due(free, started_at.elapsed()) {
                checks.push(check_backend(
                    port.clone(),
                    settings.clone(),
                    limits.clone(),
                    address,
                ));
            }
            let next = states.next_due().filter(|_| checks.len() < CHECKS_MAX);
            let pause = next.map(|due| due.saturating_sub(started_at.elapsed()));
            tokio::select! {
                () = &mut changed => break,
                Some((address, result)) = checks.next() => {
                    if let Some(backend) = backends.iter().find(|backend| backend.address == address) {
                        states.count(&port, backend, result);
                    }
                }
                () = time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }
}

/// Checks one backend, as soon as the limits of the namespace permit it.
async fn check_backend(
    port: Arc<Port>,
    settings: Arc<PortSettings>,
    limits: Arc<CheckLimits>,
    address: SocketAddr,
) -> (SocketAddr, Result<(), CheckError>) {
    let Some(check) = &settings.service.policy.health_check else {
        return (address, Ok(()));
    };
    let _permit = limits.start().await;
    let probed = time::timeout(check.timeout, probe(&port, &settings, check, address)).await;
    let result = probed.unwrap_or(Err(CheckError::Timeout(check.timeout)));
    (address, result)
}

async fn probe(
    port: &Port,
    settings: &PortSettings,
    check: &HealthCheck,
    address: SocketAddr,
) -> Result<(), CheckError> {
    let to = SocketAddr::new(address.ip(), check.port.unwrap_or(address.port()));
    let is_tls = match &check.probe {
        HealthProbe::Tcp => false,
        HealthProbe::Ssl => true,
        HealthProbe::Http { is_https, .. } => *is_https,
    };
    let stream = outbound::connect_for_check(port, settings, to, is_tls).await?;
    let HealthProbe::Http {
        path,
        host,
        expected_statuses,
        ..
    } = &check.probe
    else {
        return Ok(());
    };
    let host = host.as_deref().map_or_else(|| to.to_string(), ToOwned::to_owned);
    let status = probe::http::request_over(stream, &host, path).await?.as_u16();
    if expected_statuses
        .iter()
        .any(|(low, high)| (*low..=*high).contains(&status))
    {
        Ok(())
    } else {
        Err(CheckError::Status(status))
    }
}
