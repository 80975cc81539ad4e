//! What a Service asks of the edge. Plain data: whoever makes it has read objects and annotations already.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

/// Namespace and name of a Service; also what logs and metrics name it by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// All that the edge is to serve.
pub type Settings = BTreeMap<ServiceName, Arc<ServiceSettings>>;

/// A Service at the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Its addresses: each listener listens at each of them.
    pub addresses: Vec<IpAddr>,
    /// Its ports.
    pub listeners: Vec<Listener>,
    /// What holds for all of them.
    pub policy: Policy,
    /// Where the access log goes.
    pub access_log: Option<AccessLog>,
}

impl ServiceSettings {
    /// A Service with these addresses and ports that asks for nothing else.
    pub fn new(addresses: Vec<IpAddr>, listeners: Vec<Listener>) -> Self {
        Self {
            addresses,
            listeners,
            policy: Policy::default(),
            access_log: None,
        }
    }
}

/// How all ports of a Service treat their clients and backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Who may connect; everybody if empty. With PROXY protocol accepted, the address that it tells counts.
    pub source_ranges: Vec<IpNet>,
    /// From whom a PROXY header is expected (version 1 or 2); from others, none is read. A connection from there without
    /// one is closed.
    pub proxy_protocol_from: Vec<IpNet>,
    /// The PROXY header that backends are sent.
    pub proxy_protocol_to_backends: Option<ProxyVersion>,
    /// Which backend takes a new connection or request.
    pub balance: Balance,
    /// Which clients stay with their backend.
    pub stickiness: Stickiness,
    /// Checks of backends besides the readiness that endpoints have.
    pub health_check: Option<HealthCheck>,
    /// How long a connection may be silent, both ways; for HTTP, between requests and while one is answered.
    pub idle_timeout: Duration,
    /// How long one try to connect to a backend may take.
    pub connect_timeout: Duration,
    /// How long connections to a backend that left may go on: with `None` they are left alone until they end.
    pub draining: Option<Duration>,
    /// Bounds on what clients may have.
    pub limits: Limits,
    /// Whether backends of all zones are used alike; else those of the edge's own zone come first, while any is usable.
    pub is_cross_zone: bool,
}

impl Policy {
    /// How long a connection may be silent if nothing is said: AWS's default.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
    /// How long one try to connect to a backend may take if nothing is said: OpenStack's default.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
}

/// That of a Service that asks for nothing.
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
            limits: Limits::default(),
            is_cross_zone: true,
        }
    }
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The port's name, empty if it has none.
    pub name: Arc<str>,
    /// The port that clients use.
    pub port: u16,
    /// What clients speak.
    pub frontend: Frontend,
    /// What backends are spoken to.
    pub backend_protocol: BackendProtocol,
    /// All endpoints of the port, in any state.
    pub backends: Vec<Backend>,
}

/// What clients of a listener speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frontend {
    /// Bytes.
    Tcp,
    /// Bytes inside of TLS, which ends here.
    Ssl(Tls),
    /// HTTP/1.1, and HTTP/2 with prior knowledge.
    Http {
        /// Whether every request is answered with a redirection to `https://`, to this port.
        redirects_to_https: Option<u16>,
    },
    /// HTTP inside of TLS: HTTP/1.1 or HTTP/2, as ALPN has it.
    Https(Tls),
    /// Datagrams.
    Udp,
}

/// What backends are spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendProtocol {
    /// Bytes, or datagrams for a listener of [`Frontend::Udp`].
    Tcp,
    /// Bytes inside of TLS. The backend's certificate is not verified, as the clouds' balancers do.
    Ssl,
    /// HTTP/1.1.
    Http,
    /// HTTP inside of TLS; HTTP/2 if ALPN has it. The backend's certificate is not verified.
    Https,
}

/// How TLS ends at the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificates, chosen by SNI; the first one is for clients that name no server, or one that none is for.
    pub certificates: Vec<Arc<Certificate>>,
    /// Versions and suites.
    pub policy: TlsPolicy,
    /// What is agreed on by ALPN.
    pub alpn: Alpn,
}

impl Tls {
    /// With these certificates, and nothing else asked for.
    pub fn new(certificates: Vec<Arc<Certificate>>) -> Self {
        Self {
            certificates,
            policy: TlsPolicy::default(),
            alpn: Alpn::default(),
        }
    }
}

/// A certificate, as a Secret of type `kubernetes.io/tls` holds it.
#[derive(PartialEq, Eq)]
pub struct Certificate {
    /// Where it comes from, for messages.
    pub source: Arc<str>,
    /// The chain in PEM, the server's own first.
    pub chain_pem: Vec<u8>,
    /// Its private key in PEM.
    pub key_pem: Vec<u8>,
}

/// The key stays out of logs.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Which versions and suites of TLS are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// TLS 1.2 with forward secrecy and authenticated encryption, and TLS 1.3.
    #[default]
    Tls12And13,
    /// TLS 1.3 alone.
    Tls13,
    /// TLS 1.2 alone, with forward secrecy and authenticated encryption.
    Tls12,
}

/// Which protocols a client may agree on by ALPN (RFC 7301), as the policies of AWS's network balancer have them. A client that
/// offers none of them goes on without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/2 before HTTP/1.1 where the edge speaks HTTP; nothing where it passes bytes on.
    #[default]
    AsSpoken,
    /// HTTP/1.1, HTTP/1.0.
    Http1Only,
    /// HTTP/2.
    Http2Only,
    /// HTTP/1.1, HTTP/1.0, HTTP/2.
    Http2Optional,
    /// HTTP/2, HTTP/1.1, HTTP/1.0.
    Http2Preferred,
    /// Nothing.
    Never,
}

/// Versions of the PROXY protocol (haproxy's `proxy-protocol.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Which backend takes a new connection or request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The one with the fewest under way; of equal ones, by turns.
    LeastConnections,
    /// By the client's address, moving as few as possible when backends change.
    Maglev,
}

/// Which clients stay with their backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stickiness {
    /// None.
    #[default]
    None,
    /// Those of one address, for so long after their last connection.
    Source {
        /// How long.
        timeout: Duration,
    },
    /// Those with our cookie (HTTP only; for other listeners as `None`).
    Cookie {
        /// The cookie's name.
        name: Arc<str>,
        /// `Max-Age`; for as long as the browser runs if not given.
        max_age: Option<Duration>,
    },
}

/// Checks of backends by the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// How a backend is asked.
    pub probe: HealthProbe,
    /// The port that is asked, if it is not the backend's own.
    pub port: Option<u16>,
    /// From one check's beginning to the next one's.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Good answers in a row until a backend that failed is used again.
    pub healthy_threshold: u32,
    /// Bad answers in a row until a backend is not used any more.
    pub unhealthy_threshold: u32,
}

/// How a backend is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthProbe {
    /// It takes a connection.
    Tcp,
    /// It completes a TLS handshake.
    Ssl,
    /// It answers a GET.
    Http {
        /// With TLS, whose certificate is not verified.
        is_https: bool,
        /// Path and query.
        path: Arc<str>,
        /// `Host`; the backend's address if not given.
        host: Option<Arc<str>>,
        /// Statuses that are good, as inclusive ranges.
        good_statuses: Vec<(u16, u16)>,
    },
}

/// Bounds on what clients may have. 0 is "no more than the process can bear", unless it is said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once, of all clients together.
    pub connections_max: u32,
    /// Connections at once, of one client address; 0 is the process's default ([`crate::Shares`]).
    pub connections_per_client: u32,
    /// New connections a second, of one client address.
    pub connections_per_second: u32,
    /// Bytes a second that come from all clients together.
    pub received_bytes_per_second: u64,
    /// Bytes a second that go to all clients together.
    pub sent_bytes_per_second: u64,
    /// Bytes a second of both directions together, as far as these have no bound of their own.
    pub both_bytes_per_second: u64,
}

/// Where and how requests and connections are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Where files go.
    pub destination: LogDestination,
    /// Begins the name of each file; may hold slashes.
    pub prefix: Arc<str>,
    /// How long lines are gathered for one file.
    pub interval: Duration,
    /// What a line looks like.
    pub format: LogFormat,
}

/// Where the files of an access log go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDestination {
    /// The directory that the process was given for access logs.
    Directory,
    /// A bucket of the S3-compatible service that the process was given.
    Bucket(Arc<str>),
}

/// What a line of an access log looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// The Common Log Format for HTTP; for connections, a line of the same shape.
    #[default]
    Common,
    /// One JSON object.
    Json,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Where it is reached.
    pub address: SocketAddr,
    /// Its zone, if its slice says so.
    pub zone: Option<Arc<str>>,
    /// Whether it takes new connections (endpoint condition `ready`).
    pub is_ready: bool,
    /// Whether it serves though it terminates: it takes new connections only when no other is ready (KEP-1669).
    pub is_serving_while_terminating: bool,
}

impl Backend {
    /// One that takes new connections, in a zone that nobody knows.
    pub fn ready(address: SocketAddr) -> Self {
        Self {
            address,
            zone: None,
            is_ready: true,
            is_serving_while_terminating: false,
        }
    }
}
