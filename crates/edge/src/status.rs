//! State of ports at one moment, for status pages. Counts start when the port is first served.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backends::Backend;
use crate::faults::Fault;
use crate::port::{Port, PortSettings};
use crate::refusal::ConnectionRefusal;
use crate::settings::Frontend;

/// State of a port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortStatus {
    /// Namespace of the Service.
    pub namespace: Arc<str>,
    /// Name of the Service.
    pub service: Arc<str>,
    /// Port that clients use.
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: Cow<'static, str>,
    /// Protocol of clients: `tcp`, `ssl`, `http`, `https` or `udp`.
    pub frontend: Cow<'static, str>,
    /// Addresses of its listeners.
    pub addresses: Vec<IpAddr>,
    /// Open connections and flows.
    pub open_connections: u64,
    /// Accepted connections and flows, including those that were refused afterwards.
    pub connections: u64,
    /// Bytes from clients.
    pub received_bytes: u64,
    /// Bytes to clients.
    pub sent_bytes: u64,
    /// Refused connections, flows and datagrams by [`ConnectionRefusal::reason`]. Reasons without a refusal have no
    /// entry.
    pub refused: BTreeMap<Cow<'static, str>, u64>,
    /// Lost lines of the access log, of all ports of the Service.
    pub lost_log_lines: u64,
    /// Backends of the port.
    pub backends: Vec<BackendStatus>,
    /// Faults of the port, as texts.
    pub faults: Vec<String>,
}

/// State of a backend.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendStatus {
    /// Address and port of the backend.
    pub address: SocketAddr,
    /// Condition that decides about its use.
    pub state: BackendState,
    /// Connections and requests under way.
    pub under_way: usize,
    /// Connections and requests that chose it.
    pub connections: u64,
    /// Failed connections to it.
    pub failures: u64,
    /// Last failure, from which the backend may have recovered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// Failure of a backend.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// Seconds since the failure.
    pub seconds_ago: u64,
    /// Human-readable description.
    pub reason: String,
}

/// Condition of a backend: the first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendState {
    /// The endpoint of the backend terminates and still serves. It receives connections only if no other backend is
    /// usable.
    Terminating,
    /// The endpoint is not ready.
    NotReady,
    /// The health checks fail.
    Unhealthy,
    /// Ejected for a while after repeated failures.
    Ejected,
    /// In use.
    Healthy,
}

impl PortStatus {
    /// Creates the state of a port with these faults.
    pub(crate) fn of(port: &Port, faults: &[Fault]) -> Self {
        let settings = port.policy.settings();
        let counters = &port.counters;
        let refused =
            ConnectionRefusal::ALL.map(|refusal| (refusal.reason().into(), counters.refusals(refusal)));
        let (received_bytes, sent_bytes) = counters.bytes();
        let backends = port.policy.backends().all();
        Self {
            namespace: Arc::clone(&port.key.service.namespace),
            service: Arc::clone(&port.key.service.name),
            port: port.key.port,
            protocol: port.key.transport.name().into(),
            frontend: frontend_name(&settings.listener.frontend).into(),
            addresses: settings.service.addresses.clone(),
            open_connections: counters.open(),
            connections: counters.connections(),
            received_bytes,
            sent_bytes,
            refused: refused.into_iter().filter(|(_, count)| *count > 0).collect(),
            lost_log_lines: settings.log.as_ref().map_or(0, |log| log.lost_lines()),
            backends: backends
                .iter()
                .map(|backend| BackendStatus::of(port, &settings, backend))
                .collect(),
            faults: faults.iter().map(Fault::to_string).collect(),
        }
    }
}

impl BackendStatus {
    fn of(port: &Port, settings: &PortSettings, backend: &Backend) -> Self {
        let mut settings = settings.listener.backends.iter();
        let endpoint = settings.find(|endpoint| endpoint.address == backend.address);
        let (is_ready, is_terminating) = endpoint.map_or((false, false), |endpoint| {
            (endpoint.is_ready, endpoint.is_serving_while_terminating)
        });
        let state = if !is_ready && is_terminating {
            BackendState::Terminating
        } else if !is_ready {
            BackendState::NotReady
        } else if !backend.is_healthy() {
            BackendState::Unhealthy
        } else if port.policy.backends().is_ejected(backend) {
            BackendState::Ejected
        } else {
            BackendState::Healthy
        };
        Self {
            address: backend.address,
            state,
            under_way: backend.open_connections_and_requests(),
            connections: backend.connections(),
            failures: backend.failures(),
            last_failure: backend.last_failure().map(|failure| LastFailure {
                seconds_ago: failure.at.elapsed().as_secs(),
                reason: failure.reason,
            }),
        }
    }
}

fn frontend_name(frontend: &Frontend) -> &'static str {
    match frontend {
        Frontend::Tcp => "tcp",
        Frontend::Ssl(_) => "ssl",
        Frontend::Http { .. } => "http",
        Frontend::Https(_) => "https",
        Frontend::Udp => "udp",
    }
}
