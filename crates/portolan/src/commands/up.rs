//! `portolan up`: a cluster on this host, in one process.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use apiserver::AdmissionPlugin;
use clap::Args;
use controllers::certificates::SIGNING_DURATION;
use controllers::{node_ipam, node_lifecycle};
use ipnet::IpNet;

use crate::cluster::address_pool;
use crate::cluster::chart::ChartFlags;
use crate::cluster::cluster_info::ClusterSettings;
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::network::NetworkFlags;
use crate::cluster::node_components::{NodeComponents, NodeFlags};
use crate::cluster::node_proxy::check_mode;
use crate::cluster::server_taint::server_taint;
use crate::cluster::status_file::StatusFile;
use crate::error::{CommandError, FileError, UsageError};
use crate::flags::access::AccessFlags;
use crate::flags::clusterset::ClusterSetFlags;
use crate::flags::services::ServiceFlags;
use crate::flags::storage::EngineFlags;
use crate::flags::values::{DATA_DIRECTORY, cidr, duration, listen_address, one_per_family};
use crate::runtime;

/// Default Pod CIDRs of the cluster.
const CLUSTER_CIDRS: [&str; 2] = ["10.244.0.0/16", "fd00:244::/48"];
/// Admission plugins that are enabled besides the defaults. Addresses of load balancers come from pools here,
/// and a user who may choose external IPs can intercept the traffic of others (CVE-2020-8554).
const ADMISSION_PLUGINS: [AdmissionPlugin; 1] = [AdmissionPlugin::DenyServiceExternalIps];
/// Default duration of the Lease of a Node. It is renewed every 2 s, so the failure of a node is detected within 10 s.
const NODE_LEASE_DURATION_SECONDS: u16 = 8;

/// Flags of `portolan up`.
#[derive(Debug, Args)]
#[command(mut_arg("cluster_cidr", |arg| arg.help("Pod CIDRs, one per IP family; traffic to cluster IPs from outside these ranges is masqueraded [default: those of --pod-cidr, or 10.244.0.0/16,fd00:244::/48]")))]
#[command(mut_arg("cluster_dns", |arg| arg.help("Addresses of cluster DNS in the resolv.conf of Pods [default: tenth of the cluster IPs]")))]
#[command(mut_arg("node_lease_duration_seconds", |arg| arg.help("Duration of the Node's Lease, 1 to 3600; it is renewed every quarter [default: 8]")))]
pub(crate) struct Flags {
    /// Listen address of the API server (HTTPS)
    #[arg(long, default_value = "0.0.0.0:6443", value_name = "ADDRESS:PORT", value_parser = listen_address)]
    listen: SocketAddr,
    /// Address of the API server for other hosts and for Pods [default: the primary address of this host]
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: Option<IpAddr>,
    /// Directory of all data: store, certificates, kubeconfig, Pods
    #[arg(long, default_value = DATA_DIRECTORY, value_name = "DIR")]
    data_dir: PathBuf,
    /// Path of the administrator's kubeconfig, mode 0600 [default: DIR/admin.conf]
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Merge the administrator's kubeconfig into ~/.kube/config as current context `portolan`
    #[arg(long)]
    merge_kubeconfig: bool,
    /// Addresses for Services of type LoadBalancer, such as 192.0.2.200-192.0.2.220, or `nodes` for those of the nodes;
    /// creates AddressPool `default`
    #[arg(long, value_delimiter = ',', value_name = "RANGES", value_parser = address_pool::parse_block)]
    load_balancer_addresses: Vec<String>,
    #[command(flatten)]
    nodes: NodesFlags,
    #[command(flatten, next_help_heading = "Cluster")]
    network: NetworkFlags,
    #[command(flatten)]
    clusterset: ClusterSetFlags,
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    services: ServiceFlags,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    access: AccessFlags,
    #[command(flatten)]
    chart: ChartFlags,
}

/// Flags of all nodes of the cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
struct NodesFlags {
    /// Allocate Pod CIDRs of Nodes from --cluster-cidr
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    allocate_node_cidrs: bool,
    /// Prefix length of the IPv4 Pod CIDR of a Node
    #[arg(long, default_value_t = node_ipam::MASK_SIZE_IPV4, value_name = "BITS")]
    node_cidr_mask_size_ipv4: u8,
    /// Prefix length of the IPv6 Pod CIDR of a Node
    #[arg(long, default_value_t = node_ipam::MASK_SIZE_IPV6, value_name = "BITS")]
    node_cidr_mask_size_ipv6: u8,
    /// Time without a heartbeat after which a Node is not ready and its Pods are removed from traffic
    #[arg(long, default_value = "7s", value_name = "DURATION", value_parser = duration)]
    node_monitor_grace_period: Duration,
    /// Keep Pods off this node by the taint node-role.kubernetes.io/control-plane:NoSchedule
    #[arg(long)]
    taint_server: bool,
    /// Lifetime of node certificates, which are renewed before they expire
    #[arg(long, default_value = "8760h", value_name = "DURATION", value_parser = duration)]
    cluster_signing_duration: Duration,
}

/// Runs the cluster until a signal requests shutdown.
///
/// # Errors
///
/// An error if a flag is invalid, a privilege is missing, or the API server fails.
pub(crate) fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    flags.services.check()?;
    check_mode(flags.node.proxy.mode())?;
    let runtime = runtime::of_component(std::thread::available_parallelism()?.get())?;
    runtime.block_on(async {
        let control_plane = flags.control_plane()?;
        let status = StatusFile::open(&flags.data_dir, &control_plane.admin_kubeconfig)?;
        control_plane.run(Arc::new(status)).await?;
        Ok(ExitCode::SUCCESS)
    })
}

impl Flags {
    /// Returns the settings of the control plane from the flags.
    fn control_plane(&self) -> Result<ControlPlane, CommandError> {
        let cluster = self.cluster_settings()?;
        let admin_kubeconfig = self
            .write_kubeconfig
            .clone()
            .unwrap_or_else(|| self.data_dir.join("admin.conf"));
        // The printed command works in another directory, too.
        let admin_kubeconfig =
            std::path::absolute(&admin_kubeconfig).map_err(FileError::at(&admin_kubeconfig))?;
        let mut node = self.node.components(&self.data_dir, &cluster)?;
        self.services
            .check_overlaps(&cluster.cluster_cidrs, &node.agent.node_ips)?;
        let key_files = [
            self.engine.etcd.etcd_keyfile.clone(),
            self.engine.encryption.file(),
        ];
        node.agent.hidden.push(admin_kubeconfig.clone());
        node.agent.hidden.extend(key_files.into_iter().flatten());
        node.agent.hidden.extend(self.clusterset.files());
        if self.nodes.taint_server {
            node.agent.node_taints.push(server_taint());
        }
        let addresses = &self.load_balancer_addresses;
        if addresses.len() > 1 && addresses.iter().any(|text| text == address_pool::NODES) {
            return Err("--load-balancer-addresses=nodes accepts no further addresses".into());
        }
        let chart = self
            .chart
            .settings(&node.agent.node_name, &cluster.cluster_domain, &self.data_dir)
            .map_err(|error| UsageError(format!("--chart-bind-address: {error}")))?;
        Ok(ControlPlane {
            engine: self.engine.clone(),
            api: self.api_config(&cluster, &node, admin_kubeconfig.clone())?,
            admin_kubeconfig,
            has_merged_kubeconfig: self.merge_kubeconfig,
            controllers: self.controller_options(&cluster)?,
            signing_duration: self.nodes.cluster_signing_duration.min(SIGNING_DURATION),
            cluster,
            node,
            load_balancer_addresses: self.load_balancer_addresses.clone(),
            chart,
        })
    }

    fn cluster_settings(&self) -> Result<ClusterSettings, CommandError> {
        let pods = &self.node.pods;
        Ok(ClusterSettings {
            cluster_cidrs: self.cluster_cidrs()?,
            cluster_dns: self.services.cluster_dns(&pods.cluster_dns)?,
            cluster_domain: self.node.zone.cluster_domain.clone(),
            clusterset_domain: self
                .clusterset
                .domain(self.node.zone.clusterset_domain.as_deref()),
            network: self.network.network(),
            node_lease_duration_seconds: pods
                .node_lease_duration_seconds
                .unwrap_or(NODE_LEASE_DURATION_SECONDS),
        })
    }

    /// Returns the Pod CIDRs of the cluster. A lone `--pod-cidr` is the Pod CIDR of the cluster, too.
    fn cluster_cidrs(&self) -> Result<Vec<IpNet>, CommandError> {
        let (of_cluster, of_node) = (&self.node.proxy.cluster_cidr, &self.node.pods.pod_cidr);
        let (given, flag) = if of_cluster.is_empty() {
            (of_node, "--pod-cidr")
        } else {
            (of_cluster, "--cluster-cidr")
        };
        if given.is_empty() {
            let defaults = CLUSTER_CIDRS.iter().map(|text| cidr(text));
            return Ok(defaults.collect::<Result<_, _>>()?);
        }
        one_per_family(given, flag)?;
        Ok(given.clone())
    }

    fn controller_options(&self, cluster: &ClusterSettings) -> Result<controllers::Options, CommandError> {
        let settings = node_ipam::Settings {
            cluster_cidrs: cluster.cluster_cidrs.clone(),
            mask_size_ipv4: self.nodes.node_cidr_mask_size_ipv4,
            mask_size_ipv6: self.nodes.node_cidr_mask_size_ipv6,
        };
        let node = &self.node;
        let has_only_own_range = node.proxy.cluster_cidr.is_empty() && !node.pods.pod_cidr.is_empty();
        let allocates = self.nodes.allocate_node_cidrs && !has_only_own_range;
        if allocates {
            node_ipam::Ranges::new(&settings).map_err(|error| UsageError(error.to_string()))?;
        }
        Ok(controllers::Options {
            node_lifecycle: node_lifecycle::Settings {
                monitor_grace_period: self.nodes.node_monitor_grace_period,
                ..node_lifecycle::Settings::for_small_clusters()
            },
            node_ipam: allocates.then_some(settings),
            multicluster: self.clusterset.settings()?,
            ..controllers::Options::default()
        })
    }

    fn api_config(
        &self,
        cluster: &ClusterSettings,
        node: &NodeComponents,
        kubeconfig: PathBuf,
    ) -> Result<apiserver::Config, CommandError> {
        Ok(apiserver::Config {
            listen: self.listen,
            data_dir: self.data_dir.clone(),
            node_name: node.agent.node_name.clone(),
            advertise_address: self.advertise_address.or(Some(node.dns_endpoint.ip())),
            kubernetes_service: self.services.kubernetes_service(),
            service_cidrs: self.services.service_cluster_ip_range.clone(),
            node_ports: self.services.node_ports(),
            token_auth_file: None,
            kubeconfig: Some(kubeconfig),
            cluster_domain: cluster.cluster_domain.clone(),
            access: self.access.access_with(&ADMISSION_PLUGINS)?,
            encryption: self.engine.encryption.at_rest()?,
        })
    }
}
