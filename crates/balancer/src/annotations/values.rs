//! Values of a Service's annotations, grouped by topic, before defaults and rules are applied.

use std::sync::Arc;
use std::time::Duration;

use api::selector::LabelSelector;
use edge::settings::{Alpn, Balance, LogFormat, ProxyVersion, TlsPolicy};
use ipnet::IpNet;

use super::row::EdgeNeed;
use super::setting::Setting;
use super::value::{PortRef, PortSet, SecretName};

/// Protocol between a client or a backend and the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppProtocol {
    /// Bytes over TCP.
    Tcp,
    /// Bytes over TLS.
    Ssl,
    /// HTTP without TLS.
    Http,
    /// HTTP over TLS.
    Https,
}

/// Protocol of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckProtocol {
    /// TCP connection.
    Tcp,
    /// TLS handshake.
    Ssl,
    /// GET request.
    Http,
    /// GET request over TLS.
    Https,
}

/// Criterion by which connections of a client keep their backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StickyMode {
    /// Sticky sessions are off.
    Off,
    /// Source address of the client.
    Source,
    /// Cookie of the edge.
    Cookie,
}

/// All values that annotations can select.
#[derive(Debug, Default)]
pub struct AnnotationValues {
    /// The strongest need of all annotations.
    pub edge_need: EdgeNeed,
    /// Set for a load balancer that forwards packets, such as AWS's NLB.
    pub forwards_packets: Setting<bool>,
    pub tls: TlsValues,
    pub protocols: ProtocolValues,
    pub proxy_protocol: ProxyProtocolValues,
    pub clients: ClientValues,
    pub balance: Setting<Balance>,
    pub is_cross_zone: Setting<bool>,
    pub stickiness: StickinessValues,
    pub health_check: HealthCheckValues,
    pub timeouts: TimeoutValues,
    pub limits: LimitValues,
    pub access_log: AccessLogValues,
    /// Name in the status alongside the address.
    pub hostname: Setting<String>,
    /// Nodes that may announce the addresses; a node has to match all selectors.
    pub node_selectors: Vec<LabelSelector>,
    /// True if Pods leave the cluster with the address of the Service.
    pub is_egress: Setting<bool>,
}

/// TLS between clients and the edge.
#[derive(Debug, Default)]
pub struct TlsValues {
    pub certificates: Setting<Vec<SecretName>>,
    pub ports: Setting<PortSet>,
    pub policy: Setting<TlsPolicy>,
    pub alpn: Setting<Alpn>,
    /// True if the edge forwards TLS to the backends without terminating it.
    pub passes_through: Setting<bool>,
}

/// Protocols of listeners and backends.
#[derive(Debug, Default)]
pub struct ProtocolValues {
    /// Protocol of all ports that [`Self::ports`] does not name.
    pub all_ports: Setting<AppProtocol>,
    /// Protocols of single ports, each with the annotation that selects it.
    pub ports: Vec<(&'static str, PortRef, AppProtocol)>,
    pub backends: Setting<AppProtocol>,
    pub redirects_to_https: Setting<bool>,
}

/// PROXY protocol from clients and to backends.
#[derive(Debug, Default)]
pub struct ProxyProtocolValues {
    pub to_backends: Setting<Option<ProxyVersion>>,
    /// Version that replaces the one of [`Self::to_backends`].
    pub version: Setting<ProxyVersion>,
    /// Clients that send a PROXY header.
    pub from_clients: Setting<Vec<IpNet>>,
}

/// Clients that may connect.
#[derive(Debug, Default)]
pub struct ClientValues {
    /// True if `spec.loadBalancerSourceRanges` is not empty; it takes precedence over annotations.
    pub has_ranges_in_spec: bool,
    pub source_ranges: Vec<IpNet>,
    /// The first annotation that contributed to [`Self::source_ranges`].
    pub ranges_source: Option<&'static str>,
}

/// Sticky sessions.
#[derive(Debug, Default)]
pub struct StickinessValues {
    pub mode: Setting<StickyMode>,
    pub timeout: Setting<Duration>,
    pub cookie_name: Setting<Arc<str>>,
    pub cookie_max_age: Setting<Duration>,
}

/// Health checks of backends.
#[derive(Debug, Default)]
pub struct HealthCheckValues {
    pub is_enabled: Setting<bool>,
    pub protocol: Setting<CheckProtocol>,
    /// Port of the check; `None` for the backend's own port.
    pub port: Setting<Option<u16>>,
    pub path: Setting<Arc<str>>,
    pub host: Setting<Arc<str>>,
    pub interval: Setting<Duration>,
    pub timeout: Setting<Duration>,
    pub healthy_threshold: Setting<u32>,
    pub unhealthy_threshold: Setting<u32>,
    /// Ranges of HTTP statuses, first and last.
    pub expected_statuses: Setting<Vec<(u16, u16)>>,
}

impl HealthCheckValues {
    /// Returns true if an annotation selects any of the settings.
    pub fn has_any(&self) -> bool {
        [
            self.protocol.source(),
            self.port.source(),
            self.path.source(),
            self.host.source(),
            self.interval.source(),
            self.timeout.source(),
            self.healthy_threshold.source(),
            self.unhealthy_threshold.source(),
            self.expected_statuses.source(),
        ]
        .iter()
        .any(Option::is_some)
    }
}

/// Timeouts of connections.
#[derive(Debug, Default)]
pub struct TimeoutValues {
    pub idle: Setting<Duration>,
    pub connect: Setting<Duration>,
    /// True if connections to a removed backend drain.
    pub is_draining: Setting<bool>,
    pub draining: Setting<Duration>,
    pub connection_age_max: Setting<Duration>,
}

/// Limits of a Service.
#[derive(Debug, Default)]
pub struct LimitValues {
    pub connections_max: Setting<u32>,
    pub connections_per_client: Setting<u32>,
    pub connections_per_second: Setting<u32>,
    pub received_bytes_per_second: Setting<u64>,
    pub sent_bytes_per_second: Setting<u64>,
    pub both_bytes_per_second: Setting<u64>,
}

/// Access log.
#[derive(Debug, Default)]
pub struct AccessLogValues {
    pub is_enabled: Setting<bool>,
    pub interval: Setting<Duration>,
    pub bucket: Setting<Arc<str>>,
    pub prefix: Setting<Arc<str>>,
    pub format: Setting<LogFormat>,
}

impl AnnotationValues {
    /// Returns true if forwarding packets does not suffice.
    pub fn needs_edge(&self) -> bool {
        let needed = if self.forwards_packets.get_or(false) {
            EdgeNeed::Required
        } else {
            EdgeNeed::Preferred
        };
        self.edge_need >= needed
    }
}
