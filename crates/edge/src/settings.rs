//! Settings of the edge, as plain data. The crate `balancer` derives them from objects and annotations.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ipnet::IpNet;

use crate::loaded_certificate::LoadedCertificate;
use crate::routes::RouteTable;

/// Maximum number of ports of one Service at which the edge listens. Each takes a descriptor for each worker and
/// address, so a Service with many ports could take all descriptors of the process. Load balancers of clouds allow
/// fewer.
pub const LISTENERS_MAX: usize = 256;

/// Namespace and name of a Service, for logs and metrics too.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    /// Namespace of the Service.
    pub namespace: Arc<str>,
    /// Name of the Service.
    pub name: Arc<str>,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Services that the edge serves.
pub type Settings = BTreeMap<ServiceName, Arc<ServiceSettings>>;

/// Service at the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Addresses of the Service. Each listener listens at all of them.
    pub addresses: Vec<IpAddr>,
    /// Ports of the Service.
    pub listeners: Vec<Listener>,
    /// Policy of all its ports.
    pub policy: Policy,
    /// Access log; `None` for no log.
    pub access_log: Option<AccessLog>,
    /// Routes of HTTP requests. Their targets are ports of other Services; `None` if the backends of the Service serve
    /// all requests.
    pub routes: Option<Arc<RouteTable>>,
}

impl ServiceSettings {
    /// Creates a Service with these addresses and ports, and defaults for everything else.
    pub fn new(addresses: Vec<IpAddr>, listeners: Vec<Listener>) -> Self {
        Self {
            addresses,
            listeners,
            policy: Policy::default(),
            access_log: None,
            routes: None,
        }
    }
}

/// Policy of a Service towards its clients and backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Clients that may connect, in the order of addresses and without overlaps (`IpNet::aggregate`); empty permits all.
    /// Where a PROXY header is accepted, its address counts.
    pub source_ranges: Vec<IpNet>,
    /// Proxies whose connections begin with a PROXY header (version 1 or 2). Their connections without one are
    /// closed. From other addresses, no header is read.
    pub proxy_protocol_from: Vec<IpNet>,
    /// Version of the PROXY header that backends get.
    pub proxy_protocol_to_backends: Option<ProxyVersion>,
    /// Choice of the backend for a new connection or request.
    pub balance: Balance,
    /// Session affinity.
    pub stickiness: Stickiness,
    /// Health checks of backends, besides the readiness of endpoints.
    pub health_check: Option<HealthCheck>,
    /// Time for which a connection may be idle in both directions. For HTTP it counts between requests, and while a
    /// request is under way.
    pub idle_timeout: Duration,
    /// Time for one attempt to connect to a backend.
    pub connect_timeout: Duration,
    /// Drain time of connections to a removed backend; `None` leaves them open until they end.
    pub draining: Option<Duration>,
    /// Age at which a connection of a client ends: HTTP after the requests under way, others at once; `None` for no limit.
    /// Connections end up to a tenth earlier, so that those of the same time do not end together.
    pub connection_age_max: Option<Duration>,
    /// Limits of clients.
    pub limits: Limits,
    /// If true, the choice ignores zones. Otherwise backends in the edge's own zone have precedence while one of them
    /// is usable.
    pub is_cross_zone: bool,
}

impl Policy {
    /// Default idle timeout, which is that of AWS.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
    /// Default connect timeout, which is that of OpenStack.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
}

/// Policy of a Service without settings.
impl Default for Policy {
    fn default() -> Self {
        Self {
            source_ranges: Vec::new(),
            proxy_protocol_from: Vec::new(),
            proxy_protocol_to_backends: None,
            balance: Balance::default(),
            stickiness: Stickiness::default(),
            health_check: None,
            idle_timeout: Self::IDLE_TIMEOUT,
            connect_timeout: Self::CONNECT_TIMEOUT,
            draining: None,
            connection_age_max: None,
            limits: Limits::default(),
            is_cross_zone: true,
        }
    }
}

/// Port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Name of the port, possibly empty.
    pub name: Arc<str>,
    /// Port that clients use.
    pub port: u16,
    /// Protocol towards clients.
    pub frontend: Frontend,
    /// Protocol towards backends.
    pub backend_protocol: BackendProtocol,
    /// All endpoints of the port, in any condition.
    pub backends: Vec<Backend>,
}

/// Protocol towards clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frontend {
    /// TCP connections, relayed unchanged.
    Tcp,
    /// TLS, which is terminated here.
    Ssl(Tls),
    /// HTTP/1.1, and HTTP/2 with prior knowledge.
    Http {
        /// Port of `https://` to which every request is redirected.
        redirects_to_https: Option<u16>,
    },
    /// HTTP with TLS: HTTP/1.1 or HTTP/2, as ALPN selects.
    Https(Tls),
    /// UDP datagrams, by flow.
    Udp,
}

/// Protocol towards backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendProtocol {
    /// TCP, or UDP for a listener of [`Frontend::Udp`].
    Tcp,
    /// TLS. The certificate of the backend is not verified, as in the clouds' load balancers.
    Ssl,
    /// HTTP/1.1.
    Http,
    /// HTTP/2 without TLS, with prior knowledge (RFC 9113, section 3.3), for example gRPC. Requests for another protocol,
    /// such as WebSocket, use HTTP/1.1.
    Http2,
    /// HTTP with TLS; HTTP/2 if ALPN selects it. The certificate of the backend is not verified.
    Https,
}

/// Sources of the certificates of server names.
pub type HostCertificates = BTreeMap<Arc<str>, Option<Arc<str>>>;

/// TLS termination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificates, selected by SNI. Without `hosts`, the first one serves clients without SNI, and names that no
    /// certificate has.
    pub certificates: Vec<Arc<Certificate>>,
    /// Versions and cipher suites.
    pub policy: TlsPolicy,
    /// Protocols for ALPN.
    pub alpn: Alpn,
    /// Source of the certificate of each server name in lower case; `*.` starts a wildcard. Clients without one of these
    /// names are rejected, and so are those of a name without a source, which no wildcard covers. `None` selects by the
    /// names in the certificates.
    pub hosts: Option<HostCertificates>,
}

impl Tls {
    /// Creates a TLS termination with these certificates, and defaults for everything else.
    pub fn new(certificates: Vec<Arc<Certificate>>) -> Self {
        Self {
            certificates,
            policy: TlsPolicy::default(),
            alpn: Alpn::default(),
            hosts: None,
        }
    }
}

/// Certificate with its key, as a Secret of type `kubernetes.io/tls` holds them.
pub struct Certificate {
    /// Source of the certificate, for messages.
    pub source: Arc<str>,
    /// Certificate chain in PEM, the server certificate first.
    pub chain_pem: Vec<u8>,
    /// Private key in PEM.
    pub key_pem: Vec<u8>,
    /// The certificate as TLS uses it, or its defect. The first use sets the value. All ports of a Service have the same
    /// certificate, and share the value: a certificate can be large.
    pub(crate) loaded: OnceLock<Result<Arc<LoadedCertificate>, Arc<str>>>,
}

impl Certificate {
    /// Creates a certificate from a chain and a private key in PEM.
    pub fn new(source: Arc<str>, chain_pem: Vec<u8>, key_pem: Vec<u8>) -> Self {
        Self {
            source,
            chain_pem,
            key_pem,
            loaded: OnceLock::new(),
        }
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.chain_pem == other.chain_pem && self.key_pem == other.key_pem
    }
}

impl Eq for Certificate {}

/// The key stays out of logs.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// TLS versions and cipher suites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// TLS 1.2 with forward secrecy and authenticated encryption, and TLS 1.3.
    #[default]
    Tls12And13,
    /// TLS 1.3 only.
    Tls13,
    /// TLS 1.2 only, with forward secrecy and authenticated encryption.
    Tls12,
}

/// Protocols for ALPN (RFC 7301), as the policies of AWS's network load balancer define them. A client that offers
/// none of them continues without ALPN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/2 before HTTP/1.1 where the edge serves HTTP, and none where it relays bytes.
    #[default]
    Automatic,
    /// HTTP/1.1, HTTP/1.0.
    Http1Only,
    /// HTTP/2.
    Http2Only,
    /// HTTP/1.1, HTTP/1.0, HTTP/2.
    Http2Optional,
    /// HTTP/2, HTTP/1.1, HTTP/1.0.
    Http2Preferred,
    /// No ALPN.
    Never,
}

/// Versions of the PROXY protocol (haproxy's `proxy-protocol.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// Line of text.
    V1,
    /// Binary header.
    V2,
}

/// Choice of the backend for a new connection or request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// In turn.
    #[default]
    RoundRobin,
    /// Backend with the fewest connections and requests under way; in turn among equal ones.
    LeastConnections,
    /// By a hash of the client's address that moves few clients when backends change.
    Maglev,
}

/// Session affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stickiness {
    /// No session affinity.
    #[default]
    None,
    /// By client address, until `timeout` after the last connection.
    Source {
        /// Time since the last connection.
        timeout: Duration,
    },
    /// By a cookie of the edge (HTTP only; no affinity for other listeners).
    Cookie {
        /// Name of the cookie.
        name: Arc<str>,
        /// `Max-Age`; without it the cookie ends with the browser session.
        max_age: Option<Duration>,
    },
}

/// Health checks of backends by the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Kind of the check.
    pub probe: HealthProbe,
    /// Port of the check, if it is not the backend's own.
    pub port: Option<u16>,
    /// Time from the start of one check to the start of the next.
    pub interval: Duration,
    /// Time for one check.
    pub timeout: Duration,
    /// Successes in a row after which an unhealthy backend is healthy again.
    pub healthy_threshold: u32,
    /// Failures in a row after which a healthy backend is unhealthy.
    pub unhealthy_threshold: u32,
}

/// Kind of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthProbe {
    /// TCP connection.
    Tcp,
    /// TLS handshake.
    Ssl,
    /// Response to a GET request.
    Http {
        /// Uses TLS, without verification of the certificate.
        is_https: bool,
        /// Path and query.
        path: Arc<str>,
        /// `Host`; the backend's address by default.
        host: Option<Arc<str>>,
        /// Expected statuses, as inclusive ranges.
        expected_statuses: Vec<(u16, u16)>,
    },
}

/// Limits of clients. With 0, only the limit of the process applies, unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time, of all clients together.
    pub connections_max: u32,
    /// Connections at the same time, of one client address; 0 is the process's default ([`crate::Shares`]).
    pub connections_per_client: u32,
    /// New connections per second, of one client address.
    pub connections_per_second: u32,
    /// Bytes per second from all clients together.
    pub received_bytes_per_second: u64,
    /// Bytes per second to all clients together.
    pub sent_bytes_per_second: u64,
    /// Bytes per second of both directions together, as far as they have no limit of their own.
    pub both_bytes_per_second: u64,
}

/// Access log of requests and connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Destination of its files.
    pub destination: LogDestination,
    /// Prefix of each file name, which may contain slashes.
    pub prefix: Arc<str>,
    /// Time for which lines are gathered into one file.
    pub interval: Duration,
    /// Format of a line.
    pub format: LogFormat,
}

/// Destination of the files of an access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDestination {
    /// Directory for access logs that the process was given.
    Directory,
    /// Bucket of the S3-compatible service that the process was given.
    Bucket(Arc<str>),
}

/// Format of a line of an access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Common Log Format for HTTP, and a line of the same shape for connections.
    #[default]
    Common,
    /// One JSON object.
    Json,
}

/// Endpoint of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Address and port.
    pub address: SocketAddr,
    /// Zone of the endpoint, if its EndpointSlice names one.
    pub zone: Option<Arc<str>>,
    /// Endpoint condition `ready`: it takes new connections.
    pub is_ready: bool,
    /// True if the endpoint terminates and still serves: it takes new connections only if no other one is
    /// ready (KEP-1669).
    pub is_serving_while_terminating: bool,
}

impl Backend {
    /// Creates a ready endpoint without a zone.
    pub fn ready(address: SocketAddr) -> Self {
        Self {
            address,
            zone: None,
            is_ready: true,
            is_serving_while_terminating: false,
        }
    }
}
