//! Health check node ports: one server for each Service that has one (HLT-05 to HLT-07).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::object::ObjectKey;
use http::StatusCode;
use plan::HealthCheck;
use serde_json::json;
use telemetry::{Response, listen, serve};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use super::{Health, Moment};
use crate::events::Events;

/// How often a port that could not be bound is tried again.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(30);

/// What the health check node ports tell, shared between who knows it and who answers.
#[derive(Debug, Default)]
pub(crate) struct ServiceChecks {
    state: Mutex<Wanted>,
    changed: Notify,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Wanted {
    checks: BTreeMap<ObjectKey, HealthCheck>,
    /// Where to listen; `None` for all addresses.
    addresses: Option<Vec<IpAddr>>,
}

impl ServiceChecks {
    /// Sets or takes out the check of a Service.
    pub(crate) fn set(&self, service: &ObjectKey, check: Option<HealthCheck>) {
        let mut wanted = self.wanted();
        match check {
            Some(check) => wanted.checks.insert(service.clone(), check),
            None => wanted.checks.remove(service),
        };
        drop(wanted);
        self.changed.notify_one();
    }

    /// Says on which addresses they are answered; `None` for all.
    pub(crate) fn listen_on(&self, addresses: Option<Vec<IpAddr>>) {
        self.wanted().addresses = addresses;
        self.changed.notify_one();
    }

    fn answer(&self, service: &ObjectKey, is_proxy_healthy: bool) -> Response {
        let Some(check) = self.wanted().checks.get(service).copied() else {
            return Response::not_found();
        };
        let is_healthy = check.local_endpoints > 0 && is_proxy_healthy;
        let status = if is_healthy {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let body = json!({
            "service": {"namespace": &*service.namespace, "name": &*service.name},
            "localEndpoints": check.local_endpoints,
            "serviceProxyHealthy": is_proxy_healthy,
        });
        let mut answer = Response::json(status, &body);
        answer.headers.push((
            "x-load-balancing-endpoint-weight",
            check.local_endpoints.to_string(),
        ));
        answer
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers all checks, opening and closing ports as Services come and go. Runs until it is dropped.
pub(crate) async fn serve_service_checks(checks: Arc<ServiceChecks>, health: Arc<Health>, events: Events) {
    let mut servers = Servers {
        tasks: JoinSet::new(),
        open: BTreeMap::new(),
        checks,
        health,
        events,
    };
    loop {
        let is_complete = servers.reconcile();
        let changed = servers.checks.changed.notified();
        if is_complete {
            changed.await;
        } else if tokio::time::timeout(BIND_RETRY_PERIOD, changed).await.is_err() {
            tracing::debug!("trying health check ports again that could not be bound");
        }
    }
}

/// The servers that are open, by Service and address.
struct Servers {
    tasks: JoinSet<()>,
    open: BTreeMap<(ObjectKey, SocketAddr), AbortHandle>,
    checks: Arc<ServiceChecks>,
    health: Arc<Health>,
    events: Events,
}

impl Servers {
    /// Closes what is not wanted any more, opens what is missing; tells whether all is open.
    fn reconcile(&mut self) -> bool {
        let wanted = self.checks.wanted().clone();
        let addresses = wanted
            .addresses
            .unwrap_or(vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]);
        let at = |(service, check): (&ObjectKey, &HealthCheck)| -> Vec<(ObjectKey, SocketAddr)> {
            addresses
                .iter()
                .map(|ip| (service.clone(), SocketAddr::new(*ip, check.port)))
                .collect()
        };
        let wanted: Vec<(ObjectKey, SocketAddr)> = wanted.checks.iter().flat_map(at).collect();
        self.open.retain(|place, server| {
            let is_wanted = wanted.binary_search(place).is_ok();
            if !is_wanted {
                server.abort();
            }
            is_wanted
        });
        while self.tasks.try_join_next().is_some() {}
        let mut is_complete = true;
        for place in wanted {
            if !self.open.contains_key(&place) {
                is_complete &= self.open_one(place);
            }
        }
        is_complete
    }

    fn open_one(&mut self, (service, address): (ObjectKey, SocketAddr)) -> bool {
        let listener = match listen(address) {
            Ok(listener) => listener,
            Err(error) => {
                let message = format!("node cannot answer health checks of {service} on {address}: {error}");
                tracing::warn!("{message}");
                self.events
                    .warn_about_service(&service, "FailedToStartServiceHealthcheck", message);
                return false;
            }
        };
        let (checks, health, of) = (self.checks.clone(), self.health.clone(), service.clone());
        let handler = move |_: &http::Uri| checks.answer(&of, health.is_healthy(Moment::now()));
        let server = self.tasks.spawn(serve(listener, Arc::new(handler)));
        self.open.insert((service, address), server);
        true
    }
}

#[cfg(test)]
mod tests;
