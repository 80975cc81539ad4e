//! Configuration of the DNS server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use crate::forward::{CacheSettings, Policy, Protocol, QueryCase, ResolvConfError, StubZone};
use crate::node_local::NodeLocalError;
use crate::records::PodNames;
use crate::server::ListenError;
use crate::wire::Name;

/// Configuration of the DNS server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses and ports for UDP and TCP. `[::]` does not include IPv4.
    pub listen: Vec<SocketAddr>,
    /// Addresses for node-local DNS at port 53, on a link of its own and without connection tracking (DNS-30).
    pub node_local: Vec<IpAddr>,
    /// Serves without node-local DNS if it cannot be set up.
    pub node_local_is_optional: bool,
    /// Keeps the link and its rules at exit, for a successor.
    pub skip_teardown: bool,
    /// Addresses for DNS over TLS, with their certificate.
    pub tls: Option<(Vec<SocketAddr>, TlsFiles)>,
    /// Domain of the cluster in lower case.
    pub cluster_domain: Name,
    /// Domain of the set of clusters in lower case; `None` without one (KEP-1645).
    pub clusterset_domain: Option<Name>,
    /// TTL of records in seconds (DNS-24: 0 to 3600, 5 by default).
    pub ttl_seconds: u32,
    /// Mode of Pod names (DNS-14).
    pub pods: PodNames,
    /// Names endpoints after their Pods (DNS-24).
    pub endpoint_pod_names: bool,
    /// Namespaces to serve; all if empty (DNS-24).
    pub namespaces: Vec<String>,
    /// Label selector of namespaces to serve, or "" (DNS-24).
    pub namespace_labels: String,
    /// Label selector of Services, slices and Pods to serve, or "" (DNS-24).
    pub labels: String,
    /// Disables names of endpoints, and the watch of their slices (DNS-24).
    pub no_endpoints: bool,
    /// Answers with a cluster IP only while the Service has an endpoint (DNS-24).
    pub ignore_empty_services: bool,
    /// Resolvers for names outside of the cluster.
    pub upstreams: Upstreams,
    /// Zones with resolvers of their own.
    pub stubs: Vec<StubZone>,
    /// Order of resolvers.
    pub forward_policy: Policy,
    /// Transport of forwarded queries.
    pub forward_protocol: Protocol,
    /// Case of letters in forwarded queries.
    pub forward_query_case: QueryCase,
    /// Limit of open forwarded queries.
    pub forward_open_queries_max: usize,
    /// Settings of the cache.
    pub cache: CacheSettings,
    /// Tries the names of the search list of a Pod on the server (DNS-25). The server then watches Pods.
    pub server_side_search: bool,
    /// Node whose Pods are watched for the search; all if `None`.
    pub node_name: Option<String>,
    /// Networks that may transfer the zone (DNS-23).
    pub transfer_to: Vec<IpNet>,
    /// Allowed clients in addition to this host; `None` allows all.
    pub allow_from: Option<AllowFrom>,
    /// Limit of UDP responses per second for each network of clients; 0 for no limit.
    pub responses_per_second_max: u32,
    /// Limit of UDP refusals per second for each network of clients that are not allowed; 0 for no limit.
    pub refusals_per_second_max: u32,
    /// Limit of UDP responses to other hosts in bytes.
    pub udp_bytes_max: usize,
    /// Logs every query.
    pub log_queries: bool,
    /// Address for `/metrics` and `/explain`.
    pub metrics_address: Option<SocketAddr>,
    /// Address for `/health`.
    pub health_address: Option<SocketAddr>,
    /// Address for `/ready`.
    pub ready_address: Option<SocketAddr>,
    /// Period after the shutdown request in which the server still answers, while `/health` and `/ready`
    /// report `lameduck`.
    pub lameduck: Duration,
    /// Snapshot on disk, if enabled.
    pub snapshot: Option<SnapshotSettings>,
}

impl Config {
    /// Returns the default configuration for these addresses and this zone.
    pub fn new(listen: Vec<SocketAddr>, cluster_domain: Name) -> Self {
        Self {
            listen,
            node_local: Vec::new(),
            node_local_is_optional: false,
            skip_teardown: false,
            tls: None,
            cluster_domain,
            clusterset_domain: None,
            ttl_seconds: 5,
            pods: PodNames::default(),
            endpoint_pod_names: false,
            namespaces: Vec::new(),
            namespace_labels: String::new(),
            labels: String::new(),
            no_endpoints: false,
            ignore_empty_services: false,
            upstreams: Upstreams::Addresses(Vec::new()),
            stubs: Vec::new(),
            forward_policy: Policy::default(),
            forward_protocol: Protocol::default(),
            forward_query_case: QueryCase::default(),
            forward_open_queries_max: 0,
            cache: CacheSettings::default(),
            server_side_search: false,
            node_name: None,
            transfer_to: Vec::new(),
            allow_from: None,
            responses_per_second_max: 0,
            refusals_per_second_max: 0,
            udp_bytes_max: 0,
            log_queries: false,
            metrics_address: None,
            health_address: None,
            ready_address: None,
            lameduck: Duration::ZERO,
            snapshot: None,
        }
    }
}

/// Allowed clients.
#[derive(Clone, Debug, Default)]
pub struct AllowFrom {
    /// Networks of clients. Clients in `transfer_to` are allowed, too.
    pub networks: Vec<IpNet>,
    /// Allows the nodes of the cluster, by the addresses of their Node objects.
    pub nodes: bool,
}

/// Certificate chain and key for DNS over TLS, as PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate chain, the certificate of the server first.
    pub certificates: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// Settings of the snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotSettings {
    /// Path of the file.
    pub path: PathBuf,
    /// Maximum age in seconds.
    pub age_seconds_max: u64,
}

/// Resolvers for names outside of the cluster.
#[derive(Clone, Debug)]
pub enum Upstreams {
    /// Resolvers of a file in the format of `/etc/resolv.conf`.
    ResolvConf(PathBuf),
    /// The given resolvers. Without resolvers, queries for names outside of the cluster are refused.
    Addresses(Vec<SocketAddr>),
}

/// Failure to start the DNS server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file with resolvers cannot be read.
    #[error(transparent)]
    ResolvConf(#[from] ResolvConfError),
    /// An address cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Node-local DNS cannot be set up.
    #[error("node-local DNS: {0}")]
    NodeLocal(#[from] NodeLocalError),
    /// The certificate or its key cannot be used.
    #[error("DNS over TLS: {path}: {reason}", path = path.display())]
    Tls {
        /// Path of the file.
        path: PathBuf,
        /// Error of the TLS library.
        reason: String,
    },
}
