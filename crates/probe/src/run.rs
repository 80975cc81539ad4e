//! Execution of network probes within their timeout.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::object::{ContainerPort, IntOrString};
use rustls::ClientConfig;
use tokio::time;

use crate::definition::{HttpGet, Probe};
use crate::http::{HttpFailure, HttpSuccess};
use crate::{Host, ProbeResult, grpc, http, tcp, timeout};

/// Target of probes without a host.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Address of the Pod, if it has one yet.
    pub address: Option<IpAddr>,
    /// Ports that probes may refer to by name.
    pub ports: &'a [ContainerPort],
}

/// Report of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// Result of the probe.
    pub result: ProbeResult,
    /// Human-readable message, or "".
    pub message: String,
    /// True if the probe succeeded with a warning.
    pub has_warning: bool,
}

impl ProbeReport {
    /// Creates a report from a result and a message.
    pub fn new(result: ProbeResult, message: impl ToString) -> Self {
        Self {
            result,
            message: message.to_string(),
            has_warning: false,
        }
    }

    fn of(result: Result<(), impl ToString>) -> Self {
        match result {
            Ok(()) => Self::new(ProbeResult::Success, ""),
            Err(failure) => Self::new(ProbeResult::Failure, failure),
        }
    }
}

/// Runs an `httpGet`, `tcpSocket` or `grpc` probe. The caller runs `exec` probes.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use probe::definition::{HttpGet, Probe};
/// use probe::{ProbeResult, Target};
///
/// # async fn example(tls: Arc<rustls::ClientConfig>) -> Result<(), std::net::AddrParseError> {
/// let probe = Probe {
///     http_get: Some(HttpGet { path: "/healthz".to_owned(), ..HttpGet::default() }),
///     ..Probe::default()
/// };
/// let target = Target { address: Some("10.244.1.2".parse()?), ports: &[] };
/// let report = probe::execute(&probe, target, &tls).await;
/// if report.result != ProbeResult::Success {
///     eprintln!("unhealthy: {}", report.message);
/// }
/// # Ok(())
/// # }
/// ```
pub async fn execute(probe: &Probe, target: Target<'_>, tls: &Arc<ClientConfig>) -> ProbeReport {
    let limit = timeout(probe);
    if let Some(http_get) = &probe.http_get {
        return get(http_get, target, tls, limit).await;
    }
    let endpoint = match (&probe.tcp_socket, &probe.grpc) {
        (Some(socket), _) => target.endpoint(&socket.host, &socket.port),
        (_, Some(grpc)) => target.endpoint("", &IntOrString::Int(grpc.port.into())),
        (None, None) => Err("missing probe handler".to_owned()),
    };
    let (host, port) = match endpoint {
        Ok(endpoint) => endpoint,
        Err(reason) => return ProbeReport::new(ProbeResult::Unknown, reason),
    };
    if let Some(grpc) = &probe.grpc {
        let report = time::timeout(limit, grpc::probe(&host, port, &grpc.service)).await;
        return report.map_or_else(
            |_| {
                let message = format!("timeout: health rpc did not complete within {limit:?}");
                ProbeReport::new(ProbeResult::Failure, message)
            },
            ProbeReport::of,
        );
    }
    let report = time::timeout(limit, tcp::probe(&host, port)).await;
    let slow = || format!("dial tcp {}: i/o timeout", host.with_port(port));
    report.map_or_else(
        |_| ProbeReport::new(ProbeResult::Failure, slow()),
        ProbeReport::of,
    )
}

/// Runs an HTTP request of a probe or of a lifecycle handler.
pub async fn get(get: &HttpGet, target: Target<'_>, tls: &Arc<ClientConfig>, limit: Duration) -> ProbeReport {
    let (host, port) = match target.endpoint(&get.host, &get.port) {
        Ok(endpoint) => endpoint,
        Err(reason) => return ProbeReport::new(ProbeResult::Unknown, reason),
    };
    match time::timeout(limit, http::probe(get, &host, port, tls)).await {
        Ok(Ok(HttpSuccess::Plain)) => ProbeReport::new(ProbeResult::Success, ""),
        Ok(Ok(HttpSuccess::RedirectedAway)) => ProbeReport {
            has_warning: true,
            ..ProbeReport::new(ProbeResult::Success, "Probe terminated redirects")
        },
        Ok(Err(HttpFailure::Request { reason })) => ProbeReport::new(ProbeResult::Unknown, reason),
        Ok(Err(failure)) => ProbeReport::new(ProbeResult::Failure, failure),
        Err(_) => {
            let scheme = if get.scheme.is_empty() {
                "http"
            } else {
                &get.scheme
            };
            let url = format!(
                "{}://{}{}",
                scheme.to_ascii_lowercase(),
                host.with_port(port),
                get.path
            );
            let reason = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            ProbeReport::new(ProbeResult::Failure, format!("Get {url:?}: {reason}"))
        }
    }
}

impl Target<'_> {
    /// Returns the host of the probe, or else the address of the target.
    fn endpoint(self, host: &str, port: &IntOrString) -> Result<(Host, u16), String> {
        let number = self.number(port);
        let number = number.ok_or("the port is neither a number nor the name of a container port")?;
        let host = match (host, self.address) {
            ("", Some(address)) => Host::Address(address),
            ("", None) => return Err("the Pod has no address".to_owned()),
            (named, _) => Host::parse(named),
        };
        Ok((host, number))
    }

    /// Resolves the port of a probe: a number, or the name of a container port.
    pub(crate) fn number(self, port: &IntOrString) -> Option<u16> {
        match port {
            IntOrString::Int(number) => u16::try_from(*number).ok().filter(|port| *port != 0),
            IntOrString::String(name) => self
                .ports
                .iter()
                .find(|port| port.name == *name)
                .map(|port| port.container_port)
                .or_else(|| name.parse().ok().filter(|port| *port != 0)),
        }
    }
}
