//! What an agent is told at its start.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::CertificateFiles;
use ipnet::IpNet;
use serde::Serialize;

use crate::cgroups::PIDS_MAX_DEFAULT;
use crate::images::Images;
use crate::resolv_conf::ClusterDns;

/// Most Pods of one node if nothing else is said (upstream's default of `maxPods`).
pub const PODS_MAX_DEFAULT: usize = 110;

/// How long a Node's Lease lasts (upstream's `nodeLeaseDurationSeconds`).
pub const NODE_LEASE_DURATION: Duration = Duration::from_secs(40);

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of this node.
    pub node_name: String,
    /// The node's addresses, the primary one first; none to take those of the default route's link.
    pub node_ips: Vec<IpAddr>,
    /// Labels of the Node, on top of those for host name, system and architecture.
    pub node_labels: BTreeMap<String, String>,
    /// Taints that the Node is registered with. One that is there already keeps its own.
    pub node_taints: Vec<NodeTaint>,
    /// Ranges of Pods' addresses, one a family; none to wait for those of the Node object.
    pub pod_cidrs: Vec<IpNet>,
    /// Where the agent keeps what it must know after a restart, and the logs of containers.
    pub state_directory: PathBuf,
    /// Files and directories that no Pod sees, beside the state directory: the cluster's credentials on this node.
    pub hidden: Vec<PathBuf>,
    /// What stands for images.
    pub images: Images,
    /// The cluster's DNS.
    pub cluster_dns: ClusterDns,
    /// The node's resolv.conf.
    pub host_resolv_conf: PathBuf,
    /// Where the API server asks for logs; `None` to serve none.
    pub serving: Option<Serving>,
    /// Pods of this node at most.
    pub pods_max: usize,
    /// Pods that this node runs by itself; `None` for none.
    pub static_pods: Option<StaticPods>,
    /// Processes and threads of one container.
    pub pids_max: u64,
    /// How long the Node's Lease lasts; it is renewed four times as often.
    pub node_lease_duration: Duration,
    /// What becomes of the Pods when the agent is asked to end.
    pub at_end: AtEnd,
}

impl Settings {
    /// Settings with the defaults of everything but the node's name and the state directory.
    pub fn new(node_name: String, state_directory: PathBuf) -> Self {
        Self {
            node_name,
            node_ips: Vec::new(),
            node_labels: BTreeMap::new(),
            node_taints: Vec::new(),
            pod_cidrs: Vec::new(),
            state_directory,
            hidden: Vec::new(),
            images: Images::default(),
            cluster_dns: ClusterDns::default(),
            host_resolv_conf: PathBuf::from("/etc/resolv.conf"),
            serving: None,
            pods_max: PODS_MAX_DEFAULT,
            static_pods: None,
            pids_max: PIDS_MAX_DEFAULT,
            node_lease_duration: NODE_LEASE_DURATION,
            at_end: AtEnd::KeepPods,
        }
    }

    /// All paths that no Pod sees, absolute.
    pub fn hidden_paths(&self) -> Vec<PathBuf> {
        let all = self.hidden.iter().chain([&self.state_directory]);
        // Without a current directory a relative path leads nowhere.
        all.filter_map(|path| std::path::absolute(path).ok()).collect()
    }
}

/// A taint of a Node, without a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeTaint {
    /// Key.
    pub key: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Where the manifests are of Pods that a node runs by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticPods {
    /// A file, or a directory whose files are read.
    pub path: PathBuf,
    /// How often it is looked for changes.
    pub scan_interval: Duration,
}

/// The agent's own endpoint, for the API server alone.
#[derive(Clone)]
pub struct Serving {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Its certificate; until there is one, nobody is served.
    pub certificate: Arc<CertificateFiles>,
    /// The authority, PEM, by which the API server's certificate is checked.
    pub client_authority: Vec<u8>,
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is secret.
        f.debug_struct("Serving")
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// What becomes of the Pods when the agent is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// They run on, and the next agent takes them over.
    KeepPods,
    /// They are ended, and nothing is left of them on this machine. The API still has them: the next agent starts
    /// them anew.
    EndPods {
        /// How long they may take before they are killed, at most their own grace period.
        grace: Duration,
    },
}
