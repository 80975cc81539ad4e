//! How ports are at a moment, for people and for programs that look after them. Counts are since the port was first served.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backends::Backend;
use crate::counters::Refusal;
use crate::faults::Fault;
use crate::port::{Current, Port};
use crate::settings::Frontend;

/// How a port is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortStatus {
    /// The Service's namespace.
    pub namespace: Arc<str>,
    /// The Service.
    pub service: Arc<str>,
    /// The port that clients use.
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: Cow<'static, str>,
    /// What clients speak: `tcp`, `ssl`, `http`, `https` or `udp`.
    pub frontend: Cow<'static, str>,
    /// Where it is listened.
    pub addresses: Vec<IpAddr>,
    /// Connections and flows that are open.
    pub open_connections: u64,
    /// Connections and flows that were taken, those that were then refused among them.
    pub connections: u64,
    /// Bytes from clients.
    pub received_bytes: u64,
    /// Bytes to clients.
    pub sent_bytes: u64,
    /// Clients that were sent away, by [`Refusal::reason`]; reasons for which none was are not in it.
    pub refused: BTreeMap<Cow<'static, str>, u64>,
    /// Lines of the access log, of all ports of the Service, that were lost.
    pub lost_log_lines: u64,
    /// Its backends.
    pub backends: Vec<BackendStatus>,
    /// What keeps it from being served as asked, for people.
    pub faults: Vec<String>,
}

/// How a backend is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendStatus {
    /// Where it is reached.
    pub address: SocketAddr,
    /// What keeps it from being used, or nothing.
    pub state: BackendState,
    /// Connections and requests under way.
    pub under_way: usize,
    /// Connections and requests that it was chosen for.
    pub connections: u64,
    /// Connections to it that failed.
    pub failures: u64,
    /// What failed last; it may work again by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// What failed last.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// Seconds since then.
    pub seconds_ago: u64,
    /// What it was, for people.
    pub why: String,
}

/// Whether a backend is used. Of several, the first that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendState {
    /// Its endpoint is about to end and still serves: it is used if no other one is.
    Terminating,
    /// Its endpoint is not ready.
    NotReady,
    /// It fails its health checks.
    Unhealthy,
    /// It refused connections again and again, and is left in peace for a while.
    Ejected,
    /// It is used.
    Healthy,
}

impl PortStatus {
    /// How a port is, of which this is wrong.
    pub(crate) fn of(port: &Port, faults: &[Fault]) -> Self {
        let current = port.current();
        let counters = port.counters();
        let refused = Refusal::ALL.map(|why| (why.reason().into(), counters.refusals(why)));
        let (received_bytes, sent_bytes) = counters.bytes();
        let backends = port.backends().all();
        Self {
            namespace: Arc::clone(&port.key.service.namespace),
            service: Arc::clone(&port.key.service.name),
            port: port.key.port,
            protocol: port.key.transport.name().into(),
            frontend: name(&current.listener.frontend).into(),
            addresses: current.service.addresses.clone(),
            open_connections: counters.open(),
            connections: counters.connections(),
            received_bytes,
            sent_bytes,
            refused: refused.into_iter().filter(|(_, count)| *count > 0).collect(),
            lost_log_lines: current.log.as_ref().map_or(0, |log| log.lost_lines()),
            backends: backends
                .iter()
                .map(|backend| BackendStatus::of(port, &current, backend))
                .collect(),
            faults: faults.iter().map(Fault::to_string).collect(),
        }
    }
}

impl BackendStatus {
    fn of(port: &Port, current: &Current, backend: &Backend) -> Self {
        let mut settings = current.listener.backends.iter();
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
        } else if port.backends().is_ejected(backend) {
            BackendState::Ejected
        } else {
            BackendState::Healthy
        };
        Self {
            address: backend.address,
            state,
            under_way: backend.under_way(),
            connections: backend.connections(),
            failures: backend.failures(),
            last_failure: backend.last_failure().map(|failed| LastFailure {
                seconds_ago: failed.at.elapsed().as_secs(),
                why: failed.why,
            }),
        }
    }
}

fn name(frontend: &Frontend) -> &'static str {
    match frontend {
        Frontend::Tcp => "tcp",
        Frontend::Ssl(_) => "ssl",
        Frontend::Http { .. } => "http",
        Frontend::Https(_) => "https",
        Frontend::Udp => "udp",
    }
}
