//! Health check node ports: a server for each Service that has one (HLT-05 to HLT-07).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::object::ObjectKey;
use http::StatusCode;
use plan::HealthCheck;
use serde_json::json;
use telemetry::{CONNECTIONS_MAX, Response, serve_at_most};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use super::listener::{is_family_missing, listen_in_family};
use super::{Health, Moment};
use crate::reports::events::Events;

/// Addresses to listen on if all are chosen. Each family has a server of its own, which reports its endpoints (HLT-07).
const ALL_ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];
/// Pause between attempts to bind a port.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(30);
/// Open connections of all servers, which they share equally. A tenant can have thousands of such Services.
const ALL_CONNECTIONS_MAX: usize = 8_192;
/// Part of the file descriptors of the process that these connections may have: a quarter.
const DESCRIPTORS_DIVISOR: u64 = 4;
/// Open connections of one server, if there are so many that the equal part is smaller.
const CONNECTIONS_MIN: usize = 4;

/// State of all health check node ports, shared between the worker and the servers.
#[derive(Debug, Default)]
pub(crate) struct ServiceChecks {
    state: Mutex<DesiredHealthChecks>,
    changed: Notify,
}

/// Health checks to serve, and their addresses.
#[derive(Clone, Debug, Default, PartialEq)]
struct DesiredHealthChecks {
    checks: BTreeMap<ObjectKey, HealthCheck>,
    /// UIDs of the Services with a check.
    uids: BTreeMap<ObjectKey, Box<str>>,
    /// Addresses to listen on; `None` for all addresses.
    addresses: Option<Vec<IpAddr>>,
}

impl ServiceChecks {
    /// Sets or removes the check of the Service with the UID `uid`.
    pub(crate) fn set(&self, service: &ObjectKey, uid: &str, check: Option<HealthCheck>) {
        let mut desired = self.desired();
        match check {
            Some(check) => {
                desired.checks.insert(service.clone(), check);
                desired.uids.insert(service.clone(), uid.into());
            }
            None => {
                desired.checks.remove(service);
                desired.uids.remove(service);
            }
        }
        drop(desired);
        self.changed.notify_one();
    }

    /// Sets the addresses to listen on; `None` for all.
    pub(crate) fn listen_on(&self, addresses: Option<Vec<IpAddr>>) {
        self.desired().addresses = addresses;
        self.changed.notify_one();
    }

    /// Returns the addresses to listen on; `None` for all.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> Option<Vec<IpAddr>> {
        self.desired().addresses.clone()
    }

    /// Returns the response of the server on `address`.
    fn answer(&self, service: &ObjectKey, address: IpAddr, is_proxy_healthy: bool) -> Response {
        let check = self.desired().checks.get(service).copied();
        let Some(local_endpoints) = check.and_then(|check| check.endpoints_at(address)) else {
            return Response::not_found();
        };
        let is_healthy = local_endpoints > 0 && is_proxy_healthy;
        let status = if is_healthy {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let body = json!({
            "service": {"namespace": &*service.namespace, "name": &*service.name},
            "localEndpoints": local_endpoints,
            "serviceProxyHealthy": is_proxy_healthy,
        });
        let mut answer = Response::json(status, &body);
        answer
            .headers
            .push(("x-load-balancing-endpoint-weight", local_endpoints.to_string()));
        answer
    }

    fn desired(&self) -> MutexGuard<'_, DesiredHealthChecks> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves all checks; opens and closes ports as Services change. Runs until it is dropped.
pub(crate) async fn serve_service_checks(checks: Arc<ServiceChecks>, health: Arc<Health>, events: Events) {
    let mut servers = Servers {
        tasks: JoinSet::new(),
        open: BTreeMap::new(),
        connections_max: Arc::default(),
        listen: listen_in_family,
        checks,
        health,
        events,
    };
    loop {
        let is_complete = servers.reconcile().await;
        let changed = servers.checks.changed.notified();
        if is_complete {
            changed.await;
        } else if tokio::time::timeout(BIND_RETRY_PERIOD, changed).await.is_err() {
            tracing::debug!("health check ports retried");
        }
    }
}

/// Returns the number of connections that each of so many servers may have, in a process with a limit of open files.
fn connections_of_each(servers: usize, open_files: u64) -> usize {
    let descriptors = usize::try_from(open_files / DESCRIPTORS_DIVISOR).unwrap_or(usize::MAX);
    let all = ALL_CONNECTIONS_MAX.min(descriptors);
    (all / servers.max(1)).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
}

/// Open servers by Service and address.
struct Servers {
    tasks: JoinSet<()>,
    open: BTreeMap<(ObjectKey, SocketAddr), AbortHandle>,
    /// Limit of the open connections of each server.
    connections_max: Arc<AtomicUsize>,
    /// Opens the socket of a server.
    listen: fn(SocketAddr) -> io::Result<TcpListener>,
    checks: Arc<ServiceChecks>,
    health: Arc<Health>,
    events: Events,
}

impl Servers {
    /// Closes servers that are not desired and opens missing ones. Returns true if all are open that the host can open.
    async fn reconcile(&mut self) -> bool {
        let desired = self.checks.desired().clone();
        let addresses = desired.addresses.unwrap_or(ALL_ADDRESSES.to_vec());
        let at = |(service, check): (&ObjectKey, &HealthCheck)| -> Vec<(ObjectKey, SocketAddr)> {
            addresses
                .iter()
                .filter(|ip| check.endpoints_at(**ip).is_some())
                .map(|ip| (service.clone(), SocketAddr::new(*ip, check.port)))
                .collect()
        };
        let mut desired: Vec<(ObjectKey, SocketAddr)> = desired.checks.iter().flat_map(at).collect();
        desired.sort_unstable();
        self.open.retain(|key, server| {
            let is_desired = desired.binary_search(key).is_ok();
            if !is_desired {
                server.abort();
            }
            is_desired
        });
        // An aborted server holds its port, which another Service may have now, until it is joined.
        while self.tasks.len() > self.open.len() && self.tasks.join_next().await.is_some() {}
        let of_each = connections_of_each(desired.len(), netlink::rlimit::open_files());
        self.connections_max.store(of_each, Ordering::Relaxed);
        let mut is_complete = true;
        for key in desired {
            if !self.open.contains_key(&key) {
                is_complete &= self.open_one(key);
            }
        }
        is_complete
    }

    /// Opens a server. Returns false if that failed and can succeed later.
    fn open_one(&mut self, (service, address): (ObjectKey, SocketAddr)) -> bool {
        let listener = match (self.listen)(address) {
            Ok(listener) => listener,
            Err(error) if address.ip().is_unspecified() && is_family_missing(&error) => {
                tracing::debug!(%service, %address, "the host does not have this IP family");
                return true;
            }
            Err(error) => {
                let message = format!("node cannot answer health checks of {service} on {address}: {error}");
                tracing::warn!(%service, %address, %error, "health check node port not opened");
                let uid = self
                    .checks
                    .desired()
                    .uids
                    .get(&service)
                    .cloned()
                    .unwrap_or_default();
                self.events.record_service_warning(
                    &service,
                    &uid,
                    "FailedToStartServiceHealthcheck",
                    message,
                );
                return false;
            }
        };
        let (checks, health, of) = (self.checks.clone(), self.health.clone(), service.clone());
        let handler = move |_: &http::Uri| checks.answer(&of, address.ip(), health.is_healthy(Moment::now()));
        let server = self.tasks.spawn(serve_at_most(
            listener,
            Arc::new(handler),
            self.connections_max.clone(),
        ));
        self.open.insert((service, address), server);
        true
    }
}

#[cfg(test)]
mod tests;
