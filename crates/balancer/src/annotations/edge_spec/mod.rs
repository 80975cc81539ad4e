//! Configuration of the edge that a Service's annotations select, with the rules and defaults of the clouds.

mod health_check;
mod listeners;

use std::sync::Arc;
use std::time::Duration;

use api::object::{Protocol, Service, ServicePort};
use edge::settings::{Alpn, BackendProtocol, Limits, LogFormat, Policy, ProxyVersion, Stickiness, TlsPolicy};
use ipnet::IpNet;

use super::AnnotationError;
use super::value::{self, SecretName};
use super::values::{AnnotationValues, StickyMode};

/// Drain timeout of connections to a removed backend: AWS's default.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for which a client keeps its backend after its last connection: the default of the API (API-30).
const STICKY_TIMEOUT: Duration = Duration::from_secs(10_800);
/// Time span of an access log file: AWS's default.
const LOG_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Default name of the cookie of sticky sessions.
const COOKIE_NAME: &str = "portolan-backend";

/// Error of a port whose protocol the edge does not serve, in `status.loadBalancer.ingress[].ports`.
pub const PROTOCOL_NOT_SUPPORTED: &str = "portolan.dev/ProtocolNotSupported";
/// Error of a TLS port without a certificate.
pub const NO_CERTIFICATE: &str = "portolan.dev/NoCertificate";

/// Configuration of the edge for a Service, without the parts that only a node has: endpoints,
/// certificates, addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeSpec {
    /// Ports that can be served.
    pub listeners: Vec<ListenerSpec>,
    /// Ports that cannot be served.
    pub refused: Vec<RefusedPort>,
    /// Certificates of TLS listeners.
    pub certificates: Vec<SecretName>,
    /// TLS versions and cipher suites of TLS listeners.
    pub tls_policy: TlsPolicy,
    /// ALPN protocols of TLS listeners.
    pub alpn: Alpn,
    /// Policy of all ports.
    pub policy: Policy,
    /// Access log, if enabled.
    pub access_log: Option<AccessLogSpec>,
}

/// Port that the edge serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSpec {
    /// Name of the port, possibly empty.
    pub name: Arc<str>,
    /// Port number.
    pub port: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Protocol between clients and the edge.
    pub frontend: FrontendSpec,
    /// Protocol between the edge and backends.
    pub backend_protocol: BackendProtocol,
}

/// Protocol between clients and the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontendSpec {
    /// Bytes over TCP.
    Tcp,
    /// Bytes over TLS.
    Ssl,
    /// HTTP without TLS.
    Http {
        /// HTTPS port to which requests are redirected.
        redirects_to_https: Option<u16>,
    },
    /// HTTP over TLS.
    Https,
    /// UDP.
    Udp,
}

impl FrontendSpec {
    /// Returns true if the edge terminates TLS.
    pub fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::Https)
    }
}

/// Port that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPort {
    /// Port number.
    pub port: u16,
    /// Protocol of the port.
    pub protocol: Protocol,
    /// Reason, as in `status.loadBalancer.ingress[].ports[].error`.
    pub error: &'static str,
}

/// Access log of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSpec {
    /// Bucket, if one is named.
    pub bucket: Option<Arc<str>>,
    /// Prefix of file names.
    pub prefix: Arc<str>,
    /// Time span of a file.
    pub interval: Duration,
    /// Format of a line.
    pub format: LogFormat,
}

/// Returns the protocol towards the backends of a port that serves HTTP, as its `appProtocol` selects (API-28).
pub fn http_backend_protocol(port: &ServicePort) -> BackendProtocol {
    listeners::http_backend_protocol(port)
}

/// Derives the configuration of the edge, and the errors of incomplete settings.
pub(super) fn resolve(values: &AnnotationValues, service: &Service) -> (EdgeSpec, Vec<AnnotationError>) {
    let mut errors = Vec::new();
    let (listeners, refused) = listeners::resolve(values, service, &mut errors);
    let policy = policy(values, service, &mut errors);
    let has_tls = listeners.iter().any(|listener| listener.frontend.has_tls());
    errors.extend(settings_without_effect(values, has_tls));
    let spec = EdgeSpec {
        listeners,
        refused,
        certificates: values.tls.certificates.get().cloned().unwrap_or_default(),
        tls_policy: values.tls.policy.get_or(TlsPolicy::default()),
        alpn: values.tls.alpn.get_or(Alpn::default()),
        policy,
        access_log: access_log(values),
    };
    (spec, errors)
}

/// Returns the errors of settings that change nothing without another one.
fn settings_without_effect(values: &AnnotationValues, has_tls: bool) -> Vec<AnnotationError> {
    let (tls, timeouts, log) = (&values.tls, &values.timeouts, &values.access_log);
    let drains = timeouts.is_draining.get_or(false);
    let is_logged = log.is_enabled.get_or(false);
    // A missing certificate is an error of its own.
    let wants_tls = has_tls || tls.certificates.get().is_some() || !values.protocols.ports.is_empty();
    let all = [
        (
            wants_tls,
            tls.ports.source(),
            "no annotation selects a certificate",
        ),
        (
            wants_tls,
            tls.policy.source(),
            "no annotation selects a certificate",
        ),
        (
            wants_tls,
            tls.alpn.source(),
            "no annotation selects a certificate",
        ),
        (
            drains,
            timeouts.draining.source(),
            "no annotation enables draining",
        ),
        (
            is_logged,
            log.interval.source(),
            "no annotation enables the access log",
        ),
        (
            is_logged,
            log.bucket.source(),
            "no annotation enables the access log",
        ),
        (
            is_logged,
            log.prefix.source(),
            "no annotation enables the access log",
        ),
        (
            is_logged,
            log.format.source(),
            "no annotation enables the access log",
        ),
    ];
    let without_effect = all.into_iter().filter(|(applies, ..)| !applies);
    without_effect
        .filter_map(|(_, source, reason)| Some((source?, reason)))
        .map(|(source, reason)| {
            AnnotationError::Incomplete(format!("annotation {source} has no effect: {reason}"))
        })
        .collect()
}

fn policy(values: &AnnotationValues, service: &Service, errors: &mut Vec<AnnotationError>) -> Policy {
    let limits = &values.limits;
    let proxy_from_clients = values.proxy_protocol.from_clients.get();
    Policy {
        source_ranges: source_ranges(values, service),
        proxy_protocol_from: proxy_from_clients.cloned().unwrap_or_default(),
        proxy_protocol_to_backends: proxy_protocol(values),
        balance: values.balance.get().copied().unwrap_or_default(),
        stickiness: stickiness(values, service),
        health_check: health_check::resolve(&values.health_check, errors),
        idle_timeout: values.timeouts.idle.get_or(Policy::IDLE_TIMEOUT),
        connect_timeout: values.timeouts.connect.get_or(Policy::CONNECT_TIMEOUT),
        draining: drain_timeout(values),
        connection_age_max: values.timeouts.connection_age_max.get().copied(),
        limits: Limits {
            connections_max: limits.connections_max.get_or(0),
            connections_per_client: limits.connections_per_client.get_or(0),
            connections_per_second: limits.connections_per_second.get_or(0),
            received_bytes_per_second: limits.received_bytes_per_second.get_or(0),
            sent_bytes_per_second: limits.sent_bytes_per_second.get_or(0),
            both_bytes_per_second: limits.both_bytes_per_second.get_or(0),
        },
        is_cross_zone: is_cross_zone(values, service),
    }
}

/// Returns the ranges of clients. The field takes precedence over annotations (upstream's
/// `GetLoadBalancerSourceRanges`). The ranges are sorted and joined, so that the edge compares few of them.
fn source_ranges(values: &AnnotationValues, service: &Service) -> Vec<IpNet> {
    let field = &service.spec.load_balancer_source_ranges;
    if field.is_empty() {
        return IpNet::aggregate(&values.clients.source_ranges);
    }
    // The API has validated them.
    let ranges = field.iter().filter_map(|text| value::range(text.trim()));
    IpNet::aggregate(&ranges.collect())
}

fn proxy_protocol(values: &AnnotationValues) -> Option<ProxyVersion> {
    let version = (*values.proxy_protocol.to_backends.get()?)?;
    Some(values.proxy_protocol.version.get_or(version))
}

fn stickiness(values: &AnnotationValues, service: &Service) -> Stickiness {
    let values = &values.stickiness;
    match values.mode.get() {
        Some(StickyMode::Source) => Stickiness::Source {
            timeout: values.timeout.get_or(STICKY_TIMEOUT),
        },
        Some(StickyMode::Cookie) => Stickiness::Cookie {
            name: values
                .cookie_name
                .get()
                .cloned()
                .unwrap_or_else(|| COOKIE_NAME.into()),
            max_age: values.cookie_max_age.get().copied(),
        },
        Some(StickyMode::Off) => Stickiness::None,
        None => {
            let seconds = service.spec.affinity_timeout_seconds();
            seconds.map_or(Stickiness::None, |seconds| Stickiness::Source {
                timeout: Duration::from_secs(seconds.into()),
            })
        }
    }
}

/// Returns the drain timeout. Zero closes connections at once if draining is disabled; `None` if nothing is selected.
fn drain_timeout(values: &AnnotationValues) -> Option<Duration> {
    let timeouts = &values.timeouts;
    timeouts.is_draining.get().map(|is_draining| {
        if *is_draining {
            timeouts.draining.get_or(DRAIN_TIMEOUT)
        } else {
            Duration::ZERO
        }
    })
}

fn is_cross_zone(values: &AnnotationValues, service: &Service) -> bool {
    let prefers_same_zone = matches!(
        service.spec.traffic_distribution.as_deref(),
        Some("PreferClose" | "PreferSameZone" | "PreferSameNode")
    );
    values.is_cross_zone.get_or(!prefers_same_zone)
}

fn access_log(values: &AnnotationValues) -> Option<AccessLogSpec> {
    let values = &values.access_log;
    values.is_enabled.get_or(false).then(|| AccessLogSpec {
        bucket: values.bucket.get().cloned(),
        prefix: values.prefix.get().cloned().unwrap_or_default(),
        interval: values.interval.get_or(LOG_INTERVAL),
        format: values.format.get_or(LogFormat::default()),
    })
}
