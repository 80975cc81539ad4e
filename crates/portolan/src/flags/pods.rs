//! Flags of the Node and of its Pods.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::images::image_table::ImageTable;
use agent::settings::NodeImageStore;
use agent::{PODS_MAX_DEFAULT, Settings, ShutdownPolicy, StaticPods};
use clap::Args;
use images::{ImageStore, StoreSettings};
use ipnet::IpNet;

use super::values::{cidr, duration, label, one_per_family};
use crate::error::{CommandError, FileError};

/// Minimum time between two scans of manifests.
const SCAN_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Grace period of Pods that end with the agent.
const END_PODS_GRACE: Duration = Duration::from_secs(5);

/// Address of cluster DNS that installers of Kubernetes choose by default.
const CLUSTER_DNS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10));

/// Flags of the Node and its Pods.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Node and Pods")]
pub(crate) struct PodFlags {
    /// Addresses of this Node, the primary one first [default: those of the interface with the default route]
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS[,ADDRESS]")]
    pub node_ip: Vec<IpAddr>,
    /// Labels of this Node
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE", value_parser = label)]
    pub node_labels: Vec<(String, String)>,
    /// Pod CIDRs of this Node, one per IP family; only `up` writes them to the Node [default: those of the Node]
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    pub pod_cidr: Vec<IpNet>,
    /// YAML file that maps images to programs of this host
    #[arg(long, value_name = "FILE")]
    pub image_table: Option<PathBuf>,
    /// Directory with settings of registries: HOST/hosts.toml or HOST:PORT/hosts.toml, as containerd's certs.d
    #[arg(long, value_name = "DIR")]
    pub image_registry_config: Option<PathBuf>,
    /// Addresses of cluster DNS in the resolv.conf of Pods
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS")]
    pub cluster_dns: Vec<IpAddr>,
    /// Maximum number of Pods on this Node
    #[arg(long, default_value_t = PODS_MAX_DEFAULT, value_name = "N")]
    pub max_pods: usize,
    /// File or directory of static Pod manifests, which run without an API server, too
    #[arg(long, value_name = "PATH")]
    pub pod_manifest_path: Option<PathBuf>,
    /// Time between two scans of the static Pod manifests
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = duration)]
    pub file_check_frequency: Duration,
    /// Duration of the Node's Lease, 1 to 3600; it is renewed every quarter
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub node_lease_duration_seconds: Option<u16>,
    /// Terminate the Pods when the agent exits; otherwise the next agent adopts them
    #[arg(long)]
    pub end_pods: bool,
}

impl PodFlags {
    /// Returns the settings of the agent. `image_directory` is the directory of the image store, `lease_seconds` is the
    /// default duration of the Node's Lease.
    ///
    /// # Errors
    ///
    /// [`crate::error::UsageError`] if there are two Pod CIDRs of a family, or an error about the image table or the
    /// image store.
    pub(crate) fn settings(
        &self,
        node_name: String,
        state_directory: PathBuf,
        image_directory: &Path,
        domain: &str,
        lease_seconds: u16,
    ) -> Result<Settings, CommandError> {
        if !self.pod_cidr.is_empty() {
            one_per_family(&self.pod_cidr, "--pod-cidr")?;
        }
        let mut settings = Settings::new(node_name, state_directory);
        settings.node_ips.clone_from(&self.node_ip);
        settings.node_labels = BTreeMap::from_iter(self.node_labels.iter().cloned());
        settings.pod_cidrs.clone_from(&self.pod_cidr);
        settings.cluster_dns.servers = match self.cluster_dns.as_slice() {
            [] => vec![CLUSTER_DNS],
            given => given.to_vec(),
        };
        settings.cluster_dns.domain = domain.to_owned();
        if let Some(path) = &self.image_table {
            settings.images = read_image_table(path)?;
        }
        settings.image_store = Some(self.image_store(image_directory)?);
        // The settings of registries can contain keys.
        settings.hidden.extend(self.image_registry_config.clone());
        settings.pods_max = self.max_pods;
        settings.static_pods = self.pod_manifest_path.clone().map(|path| StaticPods {
            path,
            scan_interval: self.file_check_frequency.max(SCAN_INTERVAL_MIN),
        });
        let lease_seconds = self.node_lease_duration_seconds.unwrap_or(lease_seconds);
        settings.node_lease_duration = Duration::from_secs(lease_seconds.into());
        if self.end_pods {
            settings.shutdown = ShutdownPolicy::TerminatePods {
                grace: END_PODS_GRACE,
            };
        }
        Ok(settings)
    }
}

impl PodFlags {
    /// Opens the image store. Sandboxes have another working directory, so its path is absolute.
    fn image_store(&self, directory: &Path) -> Result<NodeImageStore, CommandError> {
        let directory = std::path::absolute(directory).map_err(FileError::at(directory))?;
        let settings = StoreSettings {
            hosts_directory: self.image_registry_config.clone(),
            ..StoreSettings::default()
        };
        Ok(NodeImageStore {
            store: ImageStore::open(&directory, settings)?,
            directory,
        })
    }
}

fn read_image_table(path: &Path) -> Result<ImageTable, CommandError> {
    let text = std::fs::read_to_string(path)
        .map_err(FileError::at(path))
        .map_err(|error| format!("--image-table {error}"))?;
    let images = serde_saphyr::from_str(&text);
    images.map_err(|error| format!("--image-table {}: {}", path.display(), error.without_snippet()).into())
}
