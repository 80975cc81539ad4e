//! `portolan agent`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::images::Images;
use agent::settings::ServerSettings;
use agent::{PODS_MAX_DEFAULT, Settings, ShutdownPolicy, StaticPods};
use clap::Args;
use client::CertificateFiles;
use ipnet::IpNet;

use super::{ClientFlags, Failure, runtime};
use crate::flags::{at_most_one_a_family, cidr, duration, host_name};

/// Flags of `portolan agent`.
#[derive(Debug, Args)]
pub struct Flags {
    #[command(flatten)]
    client: ClientFlags,
    /// Name of this Node; the host's name if not given
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    #[command(flatten)]
    pods: PodFlags,
    /// Where the agent keeps what it must know after a restart, and the containers' logs
    #[arg(long, default_value = "/var/lib/portolan/agent", value_name = "DIR")]
    state_dir: PathBuf,
    #[command(flatten)]
    serving: ServingFlags,
}

/// Flags of the endpoint that the API server asks for logs.
#[derive(Clone, Debug, Args)]
struct ServingFlags {
    /// PEM certificate that the API server knows this Node by, signed by the cluster's authority; without it no logs
    /// are served
    #[arg(long, value_name = "FILE", requires_all = ["tls_private_key_file", "client_ca_file"])]
    tls_cert_file: Option<PathBuf>,
    /// PEM key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// PEM certificate of the authority that signed the API server's client certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    client_ca_file: Option<PathBuf>,
    /// Port of the endpoint
    #[arg(long, default_value_t = AGENT_PORT, value_name = "PORT")]
    port: u16,
}

/// How long a Node's Lease lasts by default (upstream's).
const NODE_LEASE_DURATION_SECONDS: u16 = 40;
/// Where agents serve the API server (upstream's).
pub const AGENT_PORT: u16 = 10250;

impl ServingFlags {
    /// What the agent is told; nothing without a certificate.
    fn serving(&self, node_ips: &[IpAddr]) -> Result<Option<ServerSettings>, Failure> {
        let files = (
            &self.tls_cert_file,
            &self.tls_private_key_file,
            &self.client_ca_file,
        );
        let (Some(certificate), Some(key), Some(authority)) = files else {
            return Ok(None);
        };
        // The API server asks at the primary address.
        let address = node_ips.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let read = |path: &PathBuf| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
        let files = CertificateFiles::new(certificate.clone(), key.clone());
        // What cannot be used now is most likely a mistake.
        files.load()?;
        Ok(Some(ServerSettings {
            listen: SocketAddr::new(address, self.port),
            certificate: Arc::new(files),
            client_authority: read(authority)?,
        }))
    }
}

/// Flags that concern this Node and its Pods.
#[derive(Clone, Debug, Args)]
pub struct PodFlags {
    /// Addresses of this Node, the primary one first; those of the default route's link if not given
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS[,ADDRESS]")]
    pub node_ip: Vec<IpAddr>,
    /// Labels of the Node
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE", value_parser = label)]
    pub node_labels: Vec<(String, String)>,
    /// Ranges of the Pods' addresses, one a family; those of the Node object if not given. Portolan's API server lets no
    /// node write them: `portolan up` does for its own Node, and on other machines the Node's ranges count
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    pub pod_cidr: Vec<IpNet>,
    /// YAML file that says which program stands for which image
    #[arg(long, value_name = "FILE")]
    pub image_table: Option<PathBuf>,
    /// Address of the cluster's DNS, for the Pods' resolv.conf
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10.96.0.10",
        value_name = "ADDRESS"
    )]
    pub cluster_dns: Vec<IpAddr>,
    /// Pods of this Node at most
    #[arg(long, default_value_t = PODS_MAX_DEFAULT, value_name = "N")]
    pub max_pods: usize,
    /// File, or directory of files, with the Pods that this Node runs by itself, with or without the API
    #[arg(long, value_name = "PATH")]
    pub pod_manifest_path: Option<PathBuf>,
    /// How often the manifests are looked at for changes
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = duration)]
    pub file_check_frequency: Duration,
    /// Seconds that the Node's Lease lasts, 1 to 3600; it is renewed four times as often. 40 if not given; in a cluster
    /// of `portolan up` 8, or what was given there
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub node_lease_duration_seconds: Option<u16>,
    /// End the Pods with the agent; otherwise they run on and the next agent takes them over
    #[arg(long)]
    pub end_pods: bool,
}

/// The shortest pause between two looks at manifests.
const SCAN_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// How long Pods that end with the agent may take.
const END_PODS_GRACE: Duration = Duration::from_secs(5);

impl PodFlags {
    /// What the agent is told; `lease_seconds` is how long its Lease lasts if no flag says so.
    pub fn settings(
        &self,
        node_name: String,
        state_dir: PathBuf,
        domain: &str,
        lease_seconds: u16,
    ) -> Result<Settings, Failure> {
        if !self.pod_cidr.is_empty() {
            at_most_one_a_family(&self.pod_cidr, "--pod-cidr")?;
        }
        let mut settings = Settings::new(node_name, state_dir);
        settings.node_ips.clone_from(&self.node_ip);
        settings.node_labels = BTreeMap::from_iter(self.node_labels.iter().cloned());
        settings.pod_cidrs.clone_from(&self.pod_cidr);
        settings.cluster_dns.servers.clone_from(&self.cluster_dns);
        settings.cluster_dns.domain = domain.to_owned();
        if let Some(path) = &self.image_table {
            let text = std::fs::read_to_string(path)
                .map_err(|e| format!("--image-table {}: {e}", path.display()))?;
            settings.images = serde_saphyr::from_str::<Images>(&text)
                .map_err(|e| format!("--image-table {}: {e}", path.display()))?;
        }
        settings.pods_max = self.max_pods;
        settings.static_pods = self.pod_manifest_path.clone().map(|path| StaticPods {
            path,
            // Looking without a pause would do nothing else.
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

/// Runs this Node's Pods until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    let node_name = flags.node_name.unwrap_or_else(host_name);
    let pods = &flags.pods;
    let mut settings = pods.settings(
        node_name,
        flags.state_dir,
        "cluster.local",
        NODE_LEASE_DURATION_SECONDS,
    )?;
    settings.server = flags.serving.serving(&settings.node_ips)?;
    settings.hidden.extend(flags.client.kubeconfig.clone());
    settings.hidden.extend(flags.serving.tls_private_key_file.clone());
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = flags.client.client()?.named("portolan-agent");
        agent::run(client, settings, crate::signal::asked_to_end()).await?;
        Ok(ExitCode::SUCCESS)
    })
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}
