//! Settings of the agent.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::images::ImageStore;
use client::CertificateFiles;
use ipnet::IpNet;
use serde::Serialize;

use crate::images::image_table::ImageTable;
use crate::network::resolv_conf::ClusterDns;
use crate::resources::cgroups::PIDS_MAX_DEFAULT;
use crate::server::reports::Reports;

/// Default of the Pods of one node (upstream's default of `maxPods`).
pub const PODS_MAX_DEFAULT: usize = 110;

/// Duration of a Node's Lease (upstream's `nodeLeaseDurationSeconds`).
pub const NODE_LEASE_DURATION: Duration = Duration::from_secs(40);

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the Node.
    pub node_name: String,
    /// Addresses of the node, the primary one first. Without any, those of the default route's link.
    pub node_ips: Vec<IpAddr>,
    /// Labels of the Node, in addition to host name, operating system and architecture.
    pub node_labels: BTreeMap<String, String>,
    /// Taints for the registration of the Node. An existing Node keeps its own.
    pub node_taints: Vec<NodeTaint>,
    /// Pod ranges, at most one for each family. Without any, those of the Node object.
    pub pod_cidrs: Vec<IpNet>,
    /// Directory for the records of Pods and the logs of containers.
    pub state_directory: PathBuf,
    /// Paths that Pods do not see, in addition to the state directory: credentials of the cluster on this node.
    pub hidden: Vec<PathBuf>,
    /// Image table.
    pub images: ImageTable,
    /// Image store; `None` for a node that runs programs of the image table only.
    pub image_store: Option<NodeImageStore>,
    /// Cluster DNS.
    pub cluster_dns: ClusterDns,
    /// Path of the node's resolv.conf.
    pub host_resolv_conf: PathBuf,
    /// Endpoint for the API server; `None` to serve none.
    pub server: Option<ServerSettings>,
    /// Reports about the node that the endpoint serves.
    pub reports: Reports,
    /// Limit of Pods on this node.
    pub pods_max: usize,
    /// Static Pods; `None` if the agent runs no static Pods.
    pub static_pods: Option<StaticPods>,
    /// Limit of processes and threads in one container.
    pub pids_max: u64,
    /// Duration of the Node's Lease, which is renewed four times as often.
    pub node_lease_duration: Duration,
    /// Treatment of Pods at the agent's shutdown.
    pub shutdown: ShutdownPolicy,
}

impl Settings {
    /// Returns settings with defaults for everything except the node name and the state directory.
    pub fn new(node_name: String, state_directory: PathBuf) -> Self {
        Self {
            node_name,
            node_ips: Vec::new(),
            node_labels: BTreeMap::new(),
            node_taints: Vec::new(),
            pod_cidrs: Vec::new(),
            state_directory,
            hidden: Vec::new(),
            images: ImageTable::default(),
            image_store: None,
            cluster_dns: ClusterDns::default(),
            host_resolv_conf: PathBuf::from("/etc/resolv.conf"),
            server: None,
            reports: Reports::default(),
            pods_max: PODS_MAX_DEFAULT,
            static_pods: None,
            pids_max: PIDS_MAX_DEFAULT,
            node_lease_duration: NODE_LEASE_DURATION,
            shutdown: ShutdownPolicy::KeepPods,
        }
    }

    /// Returns the absolute forms of all paths that Pods do not see.
    pub fn hidden_paths(&self) -> Vec<PathBuf> {
        let images = self.image_store.iter().map(|images| &images.directory);
        let all = self.hidden.iter().chain([&self.state_directory]).chain(images);
        // A relative path without a current directory has no absolute form.
        all.filter_map(|path| std::path::absolute(path).ok()).collect()
    }
}

/// Image store of a node.
#[derive(Clone, Debug)]
pub struct NodeImageStore {
    /// The store.
    pub store: ImageStore,
    /// Absolute path of its directory.
    pub directory: PathBuf,
}

/// Taint of a Node, without a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeTaint {
    /// Key, a qualified name.
    pub key: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Source of static Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticPods {
    /// Manifest file, or directory of manifests.
    pub path: PathBuf,
    /// Interval between scans for changes.
    pub scan_interval: Duration,
}

/// Endpoint for the API server.
#[derive(Clone)]
pub struct ServerSettings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Server certificate. Handshakes fail until it exists.
    pub certificate: Arc<CertificateFiles>,
    /// CA of client certificates, PEM.
    pub client_authority: Vec<u8>,
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the certificate, whose key is secret.
        f.debug_struct("ServerSettings")
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// Treatment of Pods at the agent's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownPolicy {
    /// Pods keep running, and the next agent adopts them.
    KeepPods,
    /// Pods are terminated and removed from the node. The API keeps them, so the next agent starts them again.
    TerminatePods {
        /// Longest grace period; that of a Pod applies if it is shorter.
        grace: Duration,
    },
}
