//! `portolan agent`: the Pods of a node as processes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use agent::server::reports::{ReportKind, Reports};
use agent::settings::ServerSettings;
use clap::Args;
use client::CertificateFiles;
use tokio::runtime::Handle;

use crate::cluster::observation_report::NodeObserver;
use crate::error::{CommandError, FileError};
use crate::flags::client::ClientFlags;
use crate::flags::pods::PodFlags;
use crate::flags::values::{AGENT_PORT, hostname, node_name};
use crate::{runtime, shutdown};

/// Default duration of a Node's Lease (upstream's).
const NODE_LEASE_DURATION_SECONDS: u16 = 40;

/// Flags of `portolan agent`.
#[derive(Debug, Args)]
#[command(mut_arg("cluster_dns", |arg| arg.help("Addresses of cluster DNS in the resolv.conf of Pods [default: 10.96.0.10]")))]
#[command(mut_arg("node_lease_duration_seconds", |arg| arg.help("Duration of the Node's Lease, 1 to 3600; it is renewed every quarter [default: 40]")))]
pub(crate) struct Flags {
    #[command(flatten)]
    client: ClientFlags,
    /// Name of this Node [default: the host name]
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    node_name: Option<String>,
    /// Directory of the state of Pods and of the logs of containers
    #[arg(long, default_value = "/var/lib/portolan/agent", value_name = "DIR")]
    state_dir: PathBuf,
    /// Directory of the image store [default: the directory images beside that of the state]
    #[arg(long, value_name = "DIR")]
    image_dir: Option<PathBuf>,
    #[command(flatten)]
    pods: PodFlags,
    #[command(flatten)]
    serving: ServingFlags,
}

/// Flags of the agent's endpoint, from which the API server reads logs and observations of the node.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Endpoint for the API server")]
struct ServingFlags {
    /// PEM file of the serving certificate, signed by the cluster CA; without it, this endpoint is not served
    #[arg(long, value_name = "FILE", requires_all = ["tls_private_key_file", "client_ca_file"])]
    tls_cert_file: Option<PathBuf>,
    /// PEM file of the key of the serving certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// PEM file of the CA certificate of the API server's client certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    client_ca_file: Option<PathBuf>,
    /// Port of the endpoint
    #[arg(long, default_value_t = AGENT_PORT, value_name = "PORT")]
    port: u16,
}

impl ServingFlags {
    /// Returns the endpoint at the primary address of the node, or `None` without a certificate.
    fn serving(&self, node_ips: &[IpAddr]) -> Result<Option<ServerSettings>, CommandError> {
        let files = (
            &self.tls_cert_file,
            &self.tls_private_key_file,
            &self.client_ca_file,
        );
        let (Some(certificate), Some(key), Some(authority)) = files else {
            return Ok(None);
        };
        let address = node_ips.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let files = CertificateFiles::new(certificate.clone(), key.clone());
        // The files may be replaced later, but unusable files at the start are an error of the administrator.
        files.load()?;
        Ok(Some(ServerSettings {
            listen: SocketAddr::new(address, self.port),
            certificate: Arc::new(files),
            client_authority: std::fs::read(authority).map_err(FileError::at(authority))?,
        }))
    }
}

/// Runs the Pods of this node until a signal requests shutdown.
///
/// # Errors
///
/// An error if a flag is invalid or the agent fails.
pub(crate) fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    // Reported before the first file of root.
    agent::check_capabilities()?;
    let node_name = flags.node_name.unwrap_or_else(hostname);
    let image_directory = flags
        .image_dir
        .unwrap_or_else(|| flags.state_dir.with_file_name("images"));
    let mut settings = flags.pods.settings(
        node_name,
        flags.state_dir,
        &image_directory,
        "cluster.local",
        NODE_LEASE_DURATION_SECONDS,
    )?;
    settings.server = flags.serving.serving(&settings.node_ips)?;
    settings.hidden.extend(flags.client.kubeconfig.clone());
    settings.hidden.extend(flags.serving.tls_private_key_file.clone());
    runtime::of_component(2)?.block_on(async {
        let client = flags.client.client()?.named("portolan-agent");
        let observer = NodeObserver {
            node_name: settings.node_name.clone(),
            agent: client.clone(),
            proxy: client.clone(),
            runtime: Handle::current(),
        };
        settings.reports = Reports::default().with(ReportKind::Observation, observer.provider());
        agent::run(client, settings, shutdown::signal_received()).await?;
        Ok(ExitCode::SUCCESS)
    })
}
