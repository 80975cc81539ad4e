//! What the DNS server is told at its start.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use crate::forward::{CacheSettings, Policy, Protocol, ResolvConfError, Spelling, StubZone};
use crate::node_local::NodeLocalError;
use crate::records::PodNames;
use crate::server::ListenError;
use crate::wire::Name;

/// What the DNS server is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses and ports to listen on, over UDP and TCP. `[::]` does not include IPv4.
    pub listen: Vec<SocketAddr>,
    /// Addresses that are put on a link of this node's own, past connection tracking, and listened on at port 53
    /// (DNS-30).
    pub node_local: Vec<IpAddr>,
    /// Whether a node on which that cannot be set up is served without it.
    pub node_local_is_optional: bool,
    /// Whether that link and its rules stay behind at the end, for a successor.
    pub skip_teardown: bool,
    /// Addresses for DNS over TLS, with their certificate.
    pub tls: Option<(Vec<SocketAddr>, TlsFiles)>,
    /// The cluster's zone, in lower case.
    pub cluster_domain: Name,
    /// Seconds for which answers may be kept (DNS-24: 0 to 3600, 5 by default).
    pub ttl_seconds: u32,
    /// Which names of Pods are answered (DNS-14).
    pub pods: PodNames,
    /// Whether endpoints are named after their Pods (DNS-24).
    pub endpoint_pod_names: bool,
    /// Namespaces that are served; all if none are named (DNS-24).
    pub namespaces: Vec<String>,
    /// Label selector of namespaces that are served, or "" (DNS-24).
    pub namespace_labels: String,
    /// Label selector of Services, slices and Pods that are served, or "" (DNS-24).
    pub labels: String,
    /// Whether endpoints have no names, and their slices are not watched (DNS-24).
    pub no_endpoints: bool,
    /// Whether a cluster IP is answered only while the Service has an endpoint (DNS-24).
    pub ignore_empty_services: bool,
    /// Who knows the names outside of the cluster.
    pub upstreams: Upstreams,
    /// Zones with resolvers of their own.
    pub stubs: Vec<StubZone>,
    /// In which order resolvers are asked.
    pub forward_policy: Policy,
    /// How they are asked.
    pub forward_protocol: Protocol,
    /// In which spelling they are asked.
    pub forward_spelling: Spelling,
    /// Questions that may be open upstream at once.
    pub forward_open_max: usize,
    /// What is kept of other names.
    pub cache: CacheSettings,
    /// Whether the search list of Pods is walked for them (DNS-25). Watches Pods.
    pub server_side_search: bool,
    /// The Node whose Pods are watched for the search; all if not given.
    pub node_name: Option<String>,
    /// Networks that may have the whole zone (DNS-23).
    pub transfer_to: Vec<IpNet>,
    /// Clients that are answered, beside this machine; everybody if not given.
    pub allow_from: Option<AllowFrom>,
    /// Answers over UDP a second for each network of clients; 0 for any number.
    pub answers_per_second_max: u32,
    /// Refusals over UDP a second for each network of clients that are not answered; 0 for any number.
    pub refusals_per_second_max: u32,
    /// Octets of an answer over UDP at most.
    pub udp_octets_max: usize,
    /// Whether every query is logged.
    pub log_queries: bool,
    /// Where `/metrics` and `/explain` are served.
    pub metrics_address: Option<SocketAddr>,
    /// Where `/health` is served.
    pub health_address: Option<SocketAddr>,
    /// Where `/ready` is served.
    pub ready_address: Option<SocketAddr>,
    /// How long queries are still answered after the end was asked for, while `/health` says that it is near.
    pub lameduck: Duration,
    /// The last good state on disk, if it is kept.
    pub snapshot: Option<SnapshotSettings>,
}

impl Config {
    /// A server on these addresses that answers for a zone, and nothing out of the ordinary.
    pub fn new(listen: Vec<SocketAddr>, cluster_domain: Name) -> Self {
        Self {
            listen,
            node_local: Vec::new(),
            node_local_is_optional: false,
            skip_teardown: false,
            tls: None,
            cluster_domain,
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
            forward_spelling: Spelling::default(),
            forward_open_max: 0,
            cache: CacheSettings::default(),
            server_side_search: false,
            node_name: None,
            transfer_to: Vec::new(),
            allow_from: None,
            answers_per_second_max: 0,
            refusals_per_second_max: 0,
            udp_octets_max: 0,
            log_queries: false,
            metrics_address: None,
            health_address: None,
            ready_address: None,
            lameduck: Duration::ZERO,
            snapshot: None,
        }
    }
}

/// Clients that are answered.
#[derive(Clone, Debug, Default)]
pub struct AllowFrom {
    /// Their networks. Those of `transfer_to` are answered as well.
    pub networks: Vec<IpNet>,
    /// Whether the machines of the cluster are among them, at the addresses that the API has of its Nodes.
    pub nodes: bool,
}

/// Certificate chain and key for DNS over TLS, as PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub certificates: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// The last good state on disk.
#[derive(Clone, Debug)]
pub struct SnapshotSettings {
    /// The file.
    pub path: PathBuf,
    /// Seconds after which it is not used any more.
    pub age_seconds_max: u64,
}

/// Who knows the names outside of the cluster.
#[derive(Clone, Debug)]
pub enum Upstreams {
    /// The resolvers of a file in the form of `/etc/resolv.conf`.
    ResolvConf(PathBuf),
    /// These resolvers; with none, names outside of the cluster are refused.
    Addresses(Vec<SocketAddr>),
}

/// Why the DNS server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file of resolvers cannot be read.
    #[error(transparent)]
    ResolvConf(#[from] ResolvConfError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The node's own link or rules cannot be set up.
    #[error("node-local DNS: {0}")]
    NodeLocal(#[from] NodeLocalError),
    /// The certificate or its key cannot be used.
    #[error("DNS over TLS: {path}: {reason}", path = path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}
