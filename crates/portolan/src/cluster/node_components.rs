//! Components of each node of a cluster: proxy, DNS, agent, routes to the Pods of other nodes, and load balancing.
//! The host also runs an API server (`portolan up`) or does not (`portolan join`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use agent::server::reports::{ReportKind, Reports};
use agent::settings::ServerSettings;
use clap::Args;
use client::Client;
use plan::PodDetection;
use proxy::{PlanReader, PodSelection};
use tokio::runtime::Handle;

use super::cluster_info::ClusterSettings;
use super::flows_report;
use super::kubeconfig_merge::default_file;
use super::load_balancing::{LoadBalancing, LoadBalancingClients, LoadBalancingFlags};
use super::node_proxy::NodeProxy;
use super::observation_report::NodeObserver;
use super::supervisor::Supervisor;
use crate::error::CommandError;
use crate::flags::dns_clients::DnsClientFlags;
use crate::flags::dns_zone::DnsZoneFlags;
use crate::flags::node_proxy::NodeProxyFlags;
use crate::flags::pods::PodFlags;
use crate::flags::values::{AGENT_PORT, NODE_LOCAL_DNS_ADDRESS};
use crate::shutdown;

/// Address of the metrics and explanations of the DNS server.
const DNS_METRICS_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9153);
/// Age after which the stored state of the DNS server is not served.
const DNS_STATE_AGE_SECONDS_MAX: u64 = 86_400;

/// Flags of a node.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeFlags {
    /// Flags of the Node and its Pods.
    #[command(flatten)]
    pub pods: PodFlags,
    /// Port of the agent's endpoint for the API server
    #[arg(long, default_value_t = AGENT_PORT, value_name = "PORT", help_heading = "Node and Pods")]
    agent_port: u16,
    /// Flags of the proxy.
    #[command(flatten, next_help_heading = "Node proxy")]
    pub proxy: NodeProxyFlags,
    /// Flags of the DNS zone.
    #[command(flatten)]
    pub zone: DnsZoneFlags,
    /// Port of the DNS server on this node's addresses, for the Service kube-dns
    #[arg(
        long,
        default_value_t = 10053,
        value_name = "PORT",
        help_heading = "DNS server"
    )]
    dns_port: u16,
    /// Serve DNS to local Pods without connection tracking, at 169.254.20.10 and the addresses of --cluster-dns
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL", help_heading = "DNS server")]
    node_local: bool,
    /// Flags of the clients of DNS.
    #[command(flatten, next_help_heading = "DNS server")]
    dns_clients: DnsClientFlags,
    /// Flags of load balancing.
    #[command(flatten)]
    pub load_balancing: LoadBalancingFlags,
}

/// Settings of the components of a node.
#[derive(Clone)]
pub(crate) struct NodeComponents {
    /// The proxy.
    pub proxy: NodeProxy,
    dns: dns::Config,
    /// Settings of the agent. The endpoint for the API server is added when its certificate exists.
    pub agent: agent::Settings,
    routes: routes::Settings,
    load_balancing: LoadBalancing,
    /// Address of the DNS server for the Service kube-dns.
    pub dns_endpoint: SocketAddr,
    /// Address of the agent's endpoint for the API server.
    pub agent_endpoint: SocketAddr,
}

/// API clients of the components.
pub(crate) struct ComponentClients {
    /// Client of the agent.
    pub agent: Client,
    /// Client of the proxy and of the routes. Both read all Nodes, and an agent may read only its own.
    pub proxy: Client,
    /// Client of the DNS server.
    pub dns: Client,
    /// Client of the announcer.
    pub announcer: Client,
    /// Client of the configuration of the edge.
    pub edge: Client,
}

impl NodeFlags {
    /// Returns the settings of the components, with their files below a data directory.
    ///
    /// # Errors
    ///
    /// An error if a flag is invalid or this host has no address.
    pub(crate) fn components(
        &self,
        data_directory: &Path,
        cluster: &ClusterSettings,
    ) -> Result<NodeComponents, CommandError> {
        let node_name = self.proxy.valid_node_name()?;
        let node_ips = match self.pods.node_ip.as_slice() {
            [] => agent::network::node_addresses()?,
            given => given.to_vec(),
        };
        let primary = *node_ips
            .first()
            .ok_or("this host has no address besides loopback; name one with --node-ip")?;
        let (mode, mut config) = self.proxy.config()?;
        if config.pods == PodSelection::default() {
            config.pods = PodSelection::Given(PodDetection::Ranges(cluster.cluster_cidrs.clone()));
            let cidrs: Vec<String> = cluster.cluster_cidrs.iter().map(ToString::to_string).collect();
            config.configuration["clusterCIDR"] = cidrs.join(",").into();
        }
        let mut agent = self.pods.settings(
            node_name.clone(),
            data_directory.join("agent"),
            &data_directory.join("images"),
            &cluster.cluster_domain,
            cluster.node_lease_duration_seconds,
        )?;
        agent.node_ips.clone_from(&node_ips);
        // The data directory contains keys, the store and the volumes of other Pods. Of the user's kubeconfig
        // the directory is hidden: a hidden file would become visible when another file replaces it.
        agent.hidden.push(data_directory.to_owned());
        let user_directory = default_file().and_then(|file| Some(file.parent()?.to_owned()));
        agent.hidden.extend(user_directory);
        agent.cluster_dns.servers.clone_from(&cluster.cluster_dns);
        self.proxy.warn_of_unused_flags(mode);
        Ok(NodeComponents {
            proxy: NodeProxy {
                mode,
                config,
                ebpf: self.proxy.ebpf(),
                ipvs: self.proxy.ipvs(),
            },
            dns: self.dns(data_directory, cluster, &node_name, &node_ips)?,
            agent,
            load_balancing: self.load_balancing.settings(data_directory, &node_name, primary),
            routes: routes::Settings {
                node_name,
                node_ips,
                cluster_cidrs: cluster.cluster_cidrs.clone(),
                network: cluster.network,
            },
            dns_endpoint: SocketAddr::new(primary, self.dns_port),
            agent_endpoint: SocketAddr::new(primary, self.agent_port),
        })
    }

    /// Returns the settings of the DNS server.
    fn dns(
        &self,
        data_directory: &Path,
        cluster: &ClusterSettings,
        node_name: &str,
        node_ips: &[IpAddr],
    ) -> Result<dns::Config, CommandError> {
        let listen = node_ips
            .iter()
            .map(|ip| SocketAddr::new(*ip, self.dns_port))
            .collect();
        let set = &self.zone.clusterset_domain;
        if set.is_some() && *set != cluster.clusterset_domain {
            tracing::warn!(
                flag = "--clusterset-domain",
                zone = cluster.clusterset_domain,
                "flag without effect; the zone is that of the cluster"
            );
        }
        let zone = DnsZoneFlags {
            cluster_domain: cluster.cluster_domain.clone(),
            clusterset_domain: cluster.clusterset_domain.clone(),
            ..self.zone.clone()
        };
        let mut dns = zone.config(listen)?;
        if self.node_local {
            dns.node_local = [NODE_LOCAL_DNS_ADDRESS]
                .into_iter()
                .chain(cluster.cluster_dns.iter().copied())
                .collect();
            // Without dummy links in the kernel, Pods still reach DNS through the Service.
            dns.node_local_is_optional = true;
        }
        let pods = cluster.cluster_cidrs.iter().chain(&self.pods.pod_cidr);
        self.dns_clients.apply_in_cluster(&mut dns, pods.copied());
        dns.server_side_search |= self.node_local;
        dns.node_name = Some(node_name.to_owned());
        dns.metrics_address = Some(DNS_METRICS_ADDRESS);
        dns.snapshot = Some(dns::SnapshotSettings {
            path: data_directory.join("dns.state"),
            age_seconds_max: DNS_STATE_AGE_SECONDS_MAX,
        });
        Ok(dns)
    }
}

impl NodeComponents {
    /// Starts the components in this runtime. `serving` is the agent's endpoint; `assigner` are the metrics of an assigner
    /// of this process.
    pub(crate) fn start(
        self,
        supervisor: &mut Supervisor,
        clients: ComponentClients,
        serving: ServerSettings,
        assigner: Option<Arc<balancer::Metrics>>,
    ) {
        let observer = NodeObserver {
            node_name: self.agent.node_name.clone(),
            agent: clients.agent.clone(),
            proxy: clients.proxy.clone(),
            runtime: Handle::current(),
        };
        let plan = PlanReader::default();
        let flows = flows_report::provider(
            self.agent.node_name.clone(),
            self.proxy.config.proxy_mode.clone(),
            plan.clone(),
        );
        let agent = agent::Settings {
            server: Some(serving),
            reports: Reports::default()
                .with(ReportKind::Observation, observer.provider())
                .with(ReportKind::Flows, flows),
            ..self.agent
        };
        // First: the Node is ready when the agent has registered it.
        start_agent(supervisor, clients.agent, agent);
        self.proxy.start(supervisor, clients.proxy.clone(), plan);
        start_dns(supervisor, clients.dns, self.dns);
        start_routes(supervisor, clients.proxy, self.routes);
        let clients = LoadBalancingClients {
            announcer: clients.announcer,
            edge: clients.edge,
        };
        self.load_balancing.start(supervisor, clients, assigner);
    }
}

fn start_dns(supervisor: &mut Supervisor, client: Client, config: dns::Config) {
    let shutdown = supervisor.shutdown();
    supervisor.spawn("dns", move || {
        let (config, client) = (config.clone(), client.clone());
        let shutdown = shutdown::wait_for_request(shutdown.clone());
        async move { Ok(dns::run(config, Some(client), shutdown).await?) }
    });
}

fn start_routes(supervisor: &mut Supervisor, client: Client, settings: routes::Settings) {
    let shutdown = supervisor.shutdown();
    supervisor.spawn("routes", move || {
        let (settings, client) = (settings.clone(), client.clone());
        let shutdown = shutdown::wait_for_request(shutdown.clone());
        async move { Ok(routes::run(client, settings, shutdown).await?) }
    });
}

fn start_agent(supervisor: &mut Supervisor, client: Client, settings: agent::Settings) {
    let shutdown = supervisor.shutdown();
    supervisor.spawn("agent", move || {
        let (settings, client) = (settings.clone(), client.clone());
        let shutdown = shutdown::wait_for_request(shutdown.clone());
        async move { Ok(agent::run(client, settings, shutdown).await?) }
    });
}
