//! `portolan controllers`: the controllers of a cluster.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::Client;
use controllers::certificates::{Authority, ReservedNames};
use controllers::{Environment, Metrics, Options, Selection, node_ipam, serve_status};
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::error::{CommandError, InvalidValue, UsageError};
use crate::flags::client::ClientFlags;
use crate::flags::clusterset::ClusterSetFlags;
use crate::flags::election::ElectionFlags;
use crate::flags::values::{OptionalAddress, cidr, duration, optional_address};
use crate::leadership::{self, Shutdown};
use crate::{runtime, shutdown};

/// Names of the controllers, for `--help`.
const CONTROLLER_NAMES: &str = "\
Controllers:
  backend-health-controller                      certificatesigningrequest-approving-controller
  certificatesigningrequest-cleaner-controller   certificatesigningrequest-signing-controller
  daemonset-controller                           deployment-controller
  endpoints-controller                           endpointslice-controller
  endpointslice-mirroring-controller             garbage-collector-controller
  job-controller                                 multicluster-service-controller
  node-ipam-controller                           node-lifecycle-controller
  replicaset-controller                          replicationcontroller-controller
  scheduler (not with kube-scheduler)            service-cidr-controller
  statefulset-controller                         taint-eviction-controller
  token-cleaner-controller";

/// Flags of `portolan controllers`.
#[derive(Debug, Args)]
#[command(after_help = CONTROLLER_NAMES)]
#[command(mut_arg("leader_elect_resource_name", |arg| arg.help("Name of the Lease [default: portolan-controllers]")))]
pub(crate) struct Flags {
    #[command(flatten)]
    client: ClientFlags,
    /// Address of /metrics, /healthz, /livez and /readyz; empty disables the server
    #[arg(long, default_value = "127.0.0.1:10267", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    metrics_bind_address: OptionalAddress,
    /// Controllers to run: * for all, NAME to enable, -NAME to disable; the names are at the end of this help
    #[arg(
        long,
        default_value = "*",
        value_name = "NAMES",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    #[command(flatten)]
    election: ElectionFlags,
    /// Services with concurrent EndpointSlice syncs
    #[arg(long, help_heading = "Endpoint controllers", default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrent_service_endpoint_syncs: u16,
    /// Services with concurrent Endpoints syncs
    #[arg(long, help_heading = "Endpoint controllers", default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrent_endpoint_syncs: u16,
    /// Endpoints that are mirrored to EndpointSlices concurrently
    #[arg(long, help_heading = "Endpoint controllers", default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    mirroring_concurrent_service_endpoint_syncs: u16,
    /// Time to batch Pod changes before EndpointSlices are written, such as 500ms
    #[arg(long, help_heading = "Endpoint controllers", default_value = "0s", value_name = "DURATION", value_parser = duration)]
    endpointslice_updates_batch_period: Duration,
    /// Time to batch Pod changes before Endpoints are written
    #[arg(long, help_heading = "Endpoint controllers", default_value = "0s", value_name = "DURATION", value_parser = duration)]
    endpoint_updates_batch_period: Duration,
    /// Time to batch Endpoints changes before they are mirrored
    #[arg(long, help_heading = "Endpoint controllers", default_value = "0s", value_name = "DURATION", value_parser = duration)]
    mirroring_endpointslice_updates_batch_period: Duration,
    /// Maximum number of endpoints per EndpointSlice
    #[arg(long, help_heading = "Endpoint controllers", default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_endpoints_per_slice: u16,
    /// Maximum number of mirrored addresses per Endpoints subset
    #[arg(long, help_heading = "Endpoint controllers", default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    mirroring_max_endpoints_per_subset: u16,
    #[command(flatten)]
    node_lifecycle: NodeLifecycleFlags,
    #[command(flatten)]
    node_ipam: NodeIpamFlags,
    #[command(flatten)]
    signing: SigningFlags,
    #[command(flatten)]
    clusterset: ClusterSetFlags,
}

/// Flags of the controller that allocates Pod CIDRs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pod CIDRs")]
pub(crate) struct NodeIpamFlags {
    /// Allocate Pod CIDRs of Nodes from --cluster-cidr
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          action = clap::ArgAction::Set, value_name = "BOOL")]
    allocate_node_cidrs: bool,
    /// Pod CIDRs of the cluster, one per IP family
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    cluster_cidr: Vec<IpNet>,
    /// Prefix length of the IPv4 Pod CIDR of a Node
    #[arg(long, default_value_t = node_ipam::MASK_SIZE_IPV4, value_name = "BITS")]
    node_cidr_mask_size_ipv4: u8,
    /// Prefix length of the IPv6 Pod CIDR of a Node
    #[arg(long, default_value_t = node_ipam::MASK_SIZE_IPV6, value_name = "BITS")]
    node_cidr_mask_size_ipv6: u8,
}

impl NodeIpamFlags {
    fn settings(&self) -> Result<Option<node_ipam::Settings>, UsageError> {
        if !self.allocate_node_cidrs {
            return Ok(None);
        }
        let settings = node_ipam::Settings {
            cluster_cidrs: self.cluster_cidr.clone(),
            mask_size_ipv4: self.node_cidr_mask_size_ipv4,
            mask_size_ipv6: self.node_cidr_mask_size_ipv6,
        };
        node_ipam::Ranges::new(&settings).map_err(|error| UsageError(error.to_string()))?;
        Ok(Some(settings))
    }
}

/// Flags of the controller that signs certificates.
#[derive(Debug, Args)]
#[command(next_help_heading = "Certificate signing")]
pub(crate) struct SigningFlags {
    /// PEM file of the CA certificate that signs approved requests; without it nothing is signed
    #[arg(long, requires = "cluster_signing_key_file", value_name = "FILE")]
    cluster_signing_cert_file: Option<PathBuf>,
    /// PEM file of the key of that CA
    #[arg(long, requires = "cluster_signing_cert_file", value_name = "FILE")]
    cluster_signing_key_file: Option<PathBuf>,
    /// PEM file of the CA certificate for serving certificates of agents [default: --cluster-signing-cert-file]
    #[arg(
        long,
        requires = "cluster_signing_kubelet_serving_key_file",
        requires = "cluster_signing_cert_file",
        value_name = "FILE"
    )]
    cluster_signing_kubelet_serving_cert_file: Option<PathBuf>,
    /// PEM file of the key of that CA
    #[arg(
        long,
        requires = "cluster_signing_kubelet_serving_cert_file",
        value_name = "FILE"
    )]
    cluster_signing_kubelet_serving_key_file: Option<PathBuf>,
    /// More names and addresses of the API servers, which no node certificate may contain
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    api_server_names: Vec<String>,
    /// DNS zone of the cluster; no node certificate may contain a name in it
    #[arg(long, default_value = "cluster.local", value_name = "ZONE")]
    cluster_domain: String,
    /// Maximum lifetime of certificates
    #[arg(long, default_value = "8760h", value_name = "DURATION", value_parser = duration)]
    cluster_signing_duration: Duration,
}

impl SigningFlags {
    /// Returns the names and addresses that no node certificate may contain. `servers` are the URLs of the API servers.
    fn reserved<'s>(&self, servers: impl IntoIterator<Item = &'s str>) -> ReservedNames {
        let hosts = servers.into_iter().filter_map(|url| {
            let authority = url.parse::<http::Uri>().ok()?.into_parts().authority?;
            Some(authority.host().trim_matches(['[', ']']).to_owned())
        });
        let names: Vec<String> = hosts.chain(self.api_server_names.iter().cloned()).collect();
        ReservedNames::new(&names, &self.cluster_domain)
    }

    fn authority(&self) -> Result<Option<Arc<Authority>>, CommandError> {
        let (Some(certificate), Some(key)) =
            (&self.cluster_signing_cert_file, &self.cluster_signing_key_file)
        else {
            return Ok(None);
        };
        let mut authority = Authority::open(certificate, key, self.cluster_signing_duration)?;
        if let (Some(certificate), Some(key)) = (
            &self.cluster_signing_kubelet_serving_cert_file,
            &self.cluster_signing_kubelet_serving_key_file,
        ) {
            authority = authority.with_kubelet_serving(certificate, key)?;
        }
        Ok(Some(Arc::new(authority)))
    }
}

/// Flags of the node lifecycle controller.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node lifecycle")]
pub(crate) struct NodeLifecycleFlags {
    /// Time between two checks of the Nodes
    #[arg(long, default_value = "5s", value_name = "DURATION", value_parser = duration)]
    node_monitor_period: Duration,
    /// Time without a heartbeat after which a Node is not ready; several times the renewal period of its Lease
    #[arg(long, default_value = "50s", value_name = "DURATION", value_parser = duration)]
    node_monitor_grace_period: Duration,
    /// The same for a Node that has just started or does not renew a Lease
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = duration)]
    node_startup_grace_period: Duration,
    /// Nodes per second and zone that are removed from traffic after they became not ready
    #[arg(long, default_value_t = 0.1, value_name = "NODES", value_parser = rate)]
    node_eviction_rate: f64,
    /// The same in an unhealthy large zone
    #[arg(long, default_value_t = 0.01, value_name = "NODES", value_parser = rate)]
    secondary_node_eviction_rate: f64,
    /// Share of Nodes that are not ready, at least three, from which a zone is unhealthy
    #[arg(long, default_value_t = 0.55, value_name = "SHARE", value_parser = rate)]
    unhealthy_zone_threshold: f64,
    /// Maximum number of Nodes of a small zone; an unhealthy small zone keeps its Nodes in traffic
    #[arg(long, default_value_t = 50, value_name = "NODES")]
    large_cluster_size_threshold: usize,
}

impl NodeLifecycleFlags {
    fn settings(&self) -> controllers::node_lifecycle::Settings {
        controllers::node_lifecycle::Settings {
            // A period of zero would be a busy loop.
            monitor_period: self.node_monitor_period.max(Duration::from_millis(100)),
            monitor_grace_period: self.node_monitor_grace_period,
            startup_grace_period: self.node_startup_grace_period,
            eviction_rate_per_second: self.node_eviction_rate,
            secondary_eviction_rate_per_second: self.secondary_node_eviction_rate,
            unhealthy_zone_threshold: self.unhealthy_zone_threshold,
            large_cluster_size_threshold: self.large_cluster_size_threshold,
        }
    }
}

/// Parses a number that is not negative.
fn rate(text: &str) -> Result<f64, InvalidValue> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| InvalidValue::new(text, "a number from 0, for example 0.1"))
}

impl Flags {
    fn options(&self) -> Result<Options, CommandError> {
        Ok(Options {
            controllers: Selection::parse(&self.controllers)?,
            concurrent_service_endpoint_syncs: self.concurrent_service_endpoint_syncs.into(),
            concurrent_endpoint_syncs: self.concurrent_endpoint_syncs.into(),
            mirroring_concurrent_service_endpoint_syncs: self
                .mirroring_concurrent_service_endpoint_syncs
                .into(),
            endpointslice_updates_batch_period: self.endpointslice_updates_batch_period,
            endpoint_updates_batch_period: self.endpoint_updates_batch_period,
            mirroring_endpointslice_updates_batch_period: self.mirroring_endpointslice_updates_batch_period,
            max_endpoints_per_slice: self.max_endpoints_per_slice.into(),
            mirroring_max_endpoints_per_subset: self.mirroring_max_endpoints_per_subset.into(),
            node_lifecycle: self.node_lifecycle.settings(),
            node_ipam: self.node_ipam.settings()?,
            authority: self.signing.authority()?,
            multicluster: self.clusterset.settings()?,
            ..Options::default()
        })
    }
}

/// Runs the controllers until a signal requests shutdown.
///
/// # Errors
///
/// An error if a flag or the kubeconfig is invalid.
pub(crate) fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    let config = flags.client.config()?;
    let servers = std::iter::once(&config.server).chain(&config.further_servers);
    let options = Options {
        reserved: flags.signing.reserved(servers.map(String::as_str)),
        ..flags.options()?
    };
    let election = flags.election.settings("portolan-controllers")?;
    runtime::of_component(2)?.block_on(async {
        let client = Client::new(config)?.named("portolan-controllers");
        tracing::info!(server = client.server(), "controllers started");
        let metrics = Arc::<Metrics>::default();
        metrics.set_client(client.clone());
        let mut status = JoinSet::new();
        if let Some(address) = flags.metrics_bind_address.0 {
            status.spawn(serve_status(address, Arc::clone(&metrics)));
        }
        let is_leader = watch::Sender::new(false);
        if let Some(settings) = &election {
            metrics.elect(&settings.name, is_leader.subscribe());
        }
        let work = |client, shutdown: Shutdown| {
            let environment = Environment {
                metrics: Arc::clone(&metrics),
                ..Environment::new(client)
            };
            controllers::run(environment, options.clone(), shutdown)
        };
        let shutdown = Box::pin(shutdown::signal_received());
        leadership::run(client, election, is_leader, shutdown, work).await;
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests;
