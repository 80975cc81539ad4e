//! `portolan controllers`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::{Client, WallClock, election};
use controllers::certificates::{Authority, Reserved};
use controllers::{Environment, Metrics, Options, Selection, node_ipam, serve_status};
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::election::ElectionFlags;
use super::{ClientFlags, Failure, runtime};
use crate::flags::{BadValue, OptionalAddress, cidr, duration, optional_address};

/// Flags of `portolan controllers`.
#[derive(Debug, Args)]
pub struct Flags {
    #[command(flatten)]
    client: ClientFlags,
    #[command(flatten)]
    election: ElectionFlags,
    /// Where /metrics, /healthz, /livez and /readyz are served; empty for nowhere
    #[arg(long, default_value = "127.0.0.1:10267", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    metrics_bind_address: OptionalAddress,
    /// Services whose EndpointSlices are synced at the same time
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrent_service_endpoint_syncs: u16,
    /// Services whose Endpoints are synced at the same time
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrent_endpoint_syncs: u16,
    /// Endpoints that are mirrored to EndpointSlices at the same time
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    mirroring_concurrent_service_endpoint_syncs: u16,
    /// How long changes of Pods are gathered before EndpointSlices are written, such as 500ms
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    endpointslice_updates_batch_period: Duration,
    /// How long changes of Pods are gathered before Endpoints are written
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    endpoint_updates_batch_period: Duration,
    /// How long changes of Endpoints are gathered before they are mirrored
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    mirroring_endpointslice_updates_batch_period: Duration,
    /// Most endpoints in one EndpointSlice
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_endpoints_per_slice: u16,
    /// Most addresses of one Endpoints subset that are mirrored to EndpointSlices
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    mirroring_max_endpoints_per_subset: u16,
    /// Controllers that run: `NAME`, `-NAME` for one that does not, `*` for all that are not named. There
    /// are endpointslice-controller, endpoints-controller, endpointslice-mirroring-controller,
    /// deployment-controller, replicaset-controller, scheduler (disable it where kube-scheduler runs),
    /// garbage-collector-controller, service-cidr-controller, node-lifecycle-controller, backend-health-controller,
    /// node-ipam-controller,
    /// certificatesigningrequest-approving-controller, certificatesigningrequest-signing-controller,
    /// certificatesigningrequest-cleaner-controller and token-cleaner-controller
    #[arg(
        long,
        default_value = "*",
        value_name = "NAMES",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    #[command(flatten)]
    node_lifecycle: NodeLifecycleFlags,
    #[command(flatten)]
    node_ipam: NodeIpamFlags,
    #[command(flatten)]
    signing: SigningFlags,
}

/// Flags of the controller that gives Nodes the ranges of their Pods.
#[derive(Debug, Args)]
pub struct NodeIpamFlags {
    /// Give each Node a range out of --cluster-cidr for its Pods
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          action = clap::ArgAction::Set, value_name = "BOOL")]
    allocate_node_cidrs: bool,
    /// Ranges of the cluster's Pods, one a family
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    cluster_cidr: Vec<IpNet>,
    /// Bits of the IPv4 range that a Node gets
    #[arg(long, default_value_t = node_ipam::MASK_SIZE_IPV4, value_name = "BITS")]
    node_cidr_mask_size_ipv4: u8,
    /// Bits of the IPv6 range that a Node gets
    #[arg(long, default_value_t = node_ipam::MASK_SIZE_IPV6, value_name = "BITS")]
    node_cidr_mask_size_ipv6: u8,
}

impl NodeIpamFlags {
    fn settings(&self) -> Result<Option<node_ipam::Settings>, BadValue> {
        if !self.allocate_node_cidrs {
            return Ok(None);
        }
        let settings = node_ipam::Settings {
            cluster_cidrs: self.cluster_cidr.clone(),
            mask_size_ipv4: self.node_cidr_mask_size_ipv4,
            mask_size_ipv6: self.node_cidr_mask_size_ipv6,
        };
        node_ipam::Ranges::new(&settings).map_err(|error| BadValue(error.to_string()))?;
        Ok(Some(settings))
    }
}

/// Flags of the controller that signs certificates.
#[derive(Debug, Args)]
pub struct SigningFlags {
    /// PEM certificate of the authority that signs what is approved; nothing is signed without
    #[arg(long, requires = "cluster_signing_key_file", value_name = "FILE")]
    cluster_signing_cert_file: Option<PathBuf>,
    /// PEM key of that authority
    #[arg(long, requires = "cluster_signing_cert_file", value_name = "FILE")]
    cluster_signing_key_file: Option<PathBuf>,
    /// PEM certificate of the authority that signs nodes' agents as servers; that of --cluster-signing-cert-file if not
    /// given, by which clients of the API may take an agent for the API server
    #[arg(
        long,
        requires = "cluster_signing_kubelet_serving_key_file",
        requires = "cluster_signing_cert_file",
        value_name = "FILE"
    )]
    cluster_signing_kubelet_serving_cert_file: Option<PathBuf>,
    /// PEM key of that authority
    #[arg(
        long,
        requires = "cluster_signing_kubelet_serving_cert_file",
        value_name = "FILE"
    )]
    cluster_signing_kubelet_serving_key_file: Option<PathBuf>,
    /// Names and addresses by which clients know the API servers beside that of the kubeconfig, such as a load balancer's: no
    /// machine joins under one of them, and no agent serves at one
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    api_server_names: Vec<String>,
    /// The zone of the cluster, in which no machine has its name
    #[arg(long, default_value = "cluster.local", value_name = "ZONE")]
    cluster_domain: String,
    /// How long certificates are good at most
    #[arg(long, default_value = "8760h", value_name = "DURATION", value_parser = duration)]
    cluster_signing_duration: Duration,
}

impl SigningFlags {
    /// Names and addresses that no machine gets. `servers` are the URLs of the API servers.
    fn reserved<'s>(&self, servers: impl IntoIterator<Item = &'s str>) -> Reserved {
        let hosts = servers.into_iter().filter_map(|url| {
            let authority = url.parse::<http::Uri>().ok()?.into_parts().authority?;
            Some(authority.host().trim_matches(['[', ']']).to_owned())
        });
        let names: Vec<String> = hosts.chain(self.api_server_names.iter().cloned()).collect();
        Reserved::new(&names, &self.cluster_domain)
    }

    fn authority(&self) -> Result<Option<Arc<Authority>>, Failure> {
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
pub struct NodeLifecycleFlags {
    /// How often Nodes are looked at
    #[arg(long, default_value = "5s", value_name = "DURATION", value_parser = duration)]
    node_monitor_period: Duration,
    /// How long a Node may be silent before it counts as not ready; several times as long as Nodes take to
    /// renew their Leases
    #[arg(long, default_value = "50s", value_name = "DURATION", value_parser = duration)]
    node_monitor_grace_period: Duration,
    /// How long a Node may be silent that has only started, or that renews no Lease
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = duration)]
    node_startup_grace_period: Duration,
    /// Silent Nodes of a zone that are taken out of traffic a second
    #[arg(long, default_value_t = 0.1, value_name = "NODES", value_parser = rate)]
    node_eviction_rate: f64,
    /// The same in a large zone that is unhealthy
    #[arg(long, default_value_t = 0.01, value_name = "NODES", value_parser = rate)]
    secondary_node_eviction_rate: f64,
    /// Share of silent Nodes, at least three, from which a zone is unhealthy
    #[arg(long, default_value_t = 0.55, value_name = "SHARE", value_parser = rate)]
    unhealthy_zone_threshold: f64,
    /// Nodes that a zone may have to be small; no Node of a small zone that is unhealthy leaves traffic
    #[arg(long, default_value_t = 50, value_name = "NODES")]
    large_cluster_size_threshold: usize,
}

impl NodeLifecycleFlags {
    fn settings(&self) -> controllers::node_lifecycle::Settings {
        controllers::node_lifecycle::Settings {
            // Looking without a pause would do nothing else.
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

/// A number that is not negative.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| format!("{text:?} is not a number from 0 up, such as 0.1"))
}

impl Flags {
    fn options(&self) -> Result<Options, Failure> {
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
            ..Options::default()
        })
    }
}

/// Runs the controllers until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    let config = flags.client.config()?;
    let servers = std::iter::once(&config.server).chain(&config.further_servers);
    let options = Options {
        reserved: flags.signing.reserved(servers.map(String::as_str)),
        ..flags.options()?
    };
    let election = flags.election.settings("portolan-controllers")?;
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = Client::new(config)?.named("portolan-controllers");
        tracing::info!(server = client.server(), "controllers started");
        let shutdown = crate::signal::asked_to_end();
        let metrics = Arc::<Metrics>::default();
        let mut status = JoinSet::new();
        if let Some(address) = flags.metrics_bind_address.0 {
            status.spawn(serve_status(address, Arc::clone(&metrics)));
        }
        let environment = |client| Environment {
            metrics: Arc::clone(&metrics),
            ..Environment::new(client)
        };
        match election {
            None => {
                controllers::run(environment(client), options, shutdown).await;
            }
            Some(settings) => {
                let is_leader = watch::Sender::new(false);
                metrics.elect(&settings.name, is_leader.subscribe());
                let work = |client, end| {
                    controllers::run(
                        environment(client),
                        options.clone(),
                        election::shutdown_requested(end),
                    )
                };
                let clock = WallClock::system();
                election::run_as_leader(client, settings, clock, is_leader, shutdown, work).await;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests;
