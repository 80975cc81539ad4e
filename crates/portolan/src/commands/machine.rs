//! What runs on every machine of a cluster, whether it has the API server (`portolan up`) or has joined one (`portolan
//! join`): proxy, DNS, agent, the routes to the other machines' Pods, and load balancing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use agent::settings::ServerSettings;
use clap::Args;
use client::Client;
use dataplane::nftables::{NftablesDataplane, Options};
use plan::PodDetection;
use proxy::PodSelection;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Failure;
use super::agent::{AGENT_PORT, PodFlags};
use super::cluster::ClusterSettings;
use super::dns::{ClientsFlags, NODE_LOCAL_ADDRESS, ZoneFlags};
use super::kubeconfig::person_file;
use super::load_balancer::{LoadBalancer, LoadBalancerFlags};
use super::proxy::NodeFlags;
use super::up::board::Board;
use super::up::supervise::supervise;

/// Where DNS serves its metrics and explanations.
const DNS_METRICS_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9153);
/// Seconds after which the last good state of DNS is not served any more.
const DNS_STATE_AGE_SECONDS_MAX: u64 = 86_400;

/// Flags of a machine that runs Pods.
#[derive(Clone, Debug, Args)]
pub struct MachineFlags {
    /// Port on this machine's addresses at which DNS is answered; the Service kube-dns leads to it
    #[arg(long, default_value_t = 10053, value_name = "PORT")]
    dns_port: u16,
    /// Port on this machine's address at which the agent serves logs to the API server
    #[arg(long, default_value_t = AGENT_PORT, value_name = "PORT")]
    agent_port: u16,
    /// Serve this node's Pods with DNS on a link of its own, past connection tracking, at 169.254.20.10 and at the
    /// addresses of --cluster-dns
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "true|false")]
    node_local: bool,
    /// Flags of the proxy.
    #[command(flatten)]
    pub node: NodeFlags,
    /// Flags of DNS.
    #[command(flatten)]
    pub zone: ZoneFlags,
    /// Flags of who is answered.
    #[command(flatten)]
    clients: ClientsFlags,
    /// Flags of the agent.
    #[command(flatten)]
    pub pods: PodFlags,
    /// Flags of load balancing.
    #[command(flatten)]
    pub load_balancer: LoadBalancerFlags,
}

/// The settings of a machine's parts.
#[derive(Clone)]
pub struct Machine {
    proxy: proxy::Config,
    dns: dns::Config,
    /// Those of the agent; where it serves is added when there is a certificate.
    pub agent: agent::Settings,
    routes: routes::Settings,
    load_balancer: LoadBalancer,
    /// Where DNS answers the Service kube-dns.
    pub dns_endpoint: SocketAddr,
    /// Where the agent serves the API server.
    pub agent_endpoint: SocketAddr,
}

/// Who the parts are to the API.
pub struct Clients {
    /// The agent.
    pub agent: Client,
    /// The proxy, and what keeps the routes: both read all Nodes, and an agent may read only its own.
    pub proxy: Client,
    /// The DNS server.
    pub dns: Client,
    /// What announces addresses.
    pub announcer: Client,
    /// What tells the edge what to serve.
    pub edge: Client,
}

/// An error at once if this process may not do what all of it rests on: most likely it lacks root.
pub fn check_rights() -> Result<(), Failure> {
    let opened = NftablesDataplane::open(Options::default());
    drop(opened.map_err(|e| format!("{e}; without root, try `portolan playground`"))?);
    Ok(())
}

impl MachineFlags {
    /// What the parts are told, with their files below a directory.
    pub fn machine(&self, data_dir: &Path, cluster: &ClusterSettings) -> Result<Machine, Failure> {
        let node_name = self.node.node_name();
        let node_ips = match self.pods.node_ip.as_slice() {
            [] => agent::network::node_addresses()?,
            given => given.to_vec(),
        };
        let primary = *node_ips
            .first()
            .ok_or("this machine has no address beyond the loopback link; name one with --node-ip")?;
        let mut proxy = self.node.config()?;
        if proxy.pods == PodSelection::default() {
            proxy.pods = PodSelection::Given(PodDetection::Ranges(cluster.cluster_cidrs.clone()));
        }
        let mut agent = self.pods.settings(
            node_name.clone(),
            data_dir.join("agent"),
            &cluster.cluster_domain,
            cluster.node_lease_duration_seconds,
        )?;
        agent.node_ips.clone_from(&node_ips);
        // Keys, the store, other Pods' volumes, and the directory of the administrator's kubeconfig: a file alone would
        // be seen again once another takes its place.
        agent.hidden.push(data_dir.to_owned());
        let person_directory = person_file(None)
            .ok()
            .and_then(|file| Some(file.parent()?.to_owned()));
        agent.hidden.extend(person_directory);
        agent.cluster_dns.servers.clone_from(&cluster.cluster_dns);
        Ok(Machine {
            proxy,
            dns: self.dns(data_dir, cluster, &node_name, &node_ips)?,
            agent,
            load_balancer: self.load_balancer.settings(data_dir, &node_name, primary),
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

    fn dns(
        &self,
        data_dir: &Path,
        cluster: &ClusterSettings,
        node_name: &str,
        node_ips: &[IpAddr],
    ) -> Result<dns::Config, Failure> {
        let listen = node_ips
            .iter()
            .map(|ip| SocketAddr::new(*ip, self.dns_port))
            .collect();
        let zone = ZoneFlags {
            cluster_domain: cluster.cluster_domain.clone(),
            ..self.zone.clone()
        };
        let mut dns = zone.config(listen)?;
        if self.node_local {
            dns.node_local = [NODE_LOCAL_ADDRESS]
                .into_iter()
                .chain(cluster.cluster_dns.iter().copied())
                .collect();
            // A kernel without dummy links still has its DNS through the Service.
            dns.node_local_is_optional = true;
        }
        let pods = cluster.cluster_cidrs.iter().chain(&self.pods.pod_cidr);
        self.clients.apply_in_cluster(&mut dns, pods.copied());
        dns.server_side_search |= self.node_local;
        dns.node_name = Some(node_name.to_owned());
        dns.metrics_address = Some(DNS_METRICS_ADDRESS);
        dns.snapshot = Some(dns::SnapshotSettings {
            path: data_dir.join("dns.state"),
            age_seconds_max: DNS_STATE_AGE_SECONDS_MAX,
        });
        Ok(dns)
    }
}

impl Machine {
    /// Starts the parts, each under its supervisor. What assigns load balancers' addresses, if that is in this process, is
    /// told of together with them.
    pub fn start(
        self,
        parts: &mut JoinSet<()>,
        board: &Arc<Board>,
        clients: Clients,
        serving: ServerSettings,
        assigner: Option<Arc<balancer::Metrics>>,
        ended: &watch::Receiver<bool>,
    ) {
        let (client, until_end, config) = (clients.proxy.clone(), ended.clone(), self.proxy);
        let proxy = move || {
            let (config, client, end) = (config.clone(), client.clone(), until(until_end.clone()));
            async move {
                let dataplane = NftablesDataplane::open(Options::default())?;
                Ok::<(), Failure>(proxy::run(config, client, dataplane, end).await?)
            }
        };
        parts.spawn(supervise(Arc::clone(board), "proxy", ended.clone(), proxy));
        let (client, until_end, config) = (clients.dns, ended.clone(), self.dns);
        let dns = move || {
            let (config, client, end) = (config.clone(), client.clone(), until(until_end.clone()));
            async move { Ok::<(), Failure>(dns::run(config, Some(client), end).await?) }
        };
        parts.spawn(supervise(Arc::clone(board), "dns", ended.clone(), dns));
        let (client, until_end, settings) = (clients.proxy, ended.clone(), self.routes);
        let routes = move || {
            let (settings, client, end) = (settings.clone(), client.clone(), until(until_end.clone()));
            async move { Ok::<(), Failure>(routes::run(client, settings, end).await?) }
        };
        parts.spawn(supervise(Arc::clone(board), "routes", ended.clone(), routes));
        let (client, until_end) = (clients.agent, ended.clone());
        let settings = agent::Settings {
            server: Some(serving),
            ..self.agent
        };
        let agent = move || {
            let (settings, client, end) = (settings.clone(), client.clone(), until(until_end.clone()));
            async move { Ok::<(), Failure>(agent::run(client, settings, end).await?) }
        };
        parts.spawn(supervise(Arc::clone(board), "agent", ended.clone(), agent));
        let of_load_balancer = (clients.announcer, clients.edge);
        self.load_balancer
            .start(parts, board, of_load_balancer, assigner, ended);
    }
}

/// Resolves when the end is told, or nobody is left to tell it.
pub async fn until(mut ended: watch::Receiver<bool>) {
    drop(ended.wait_for(|ended| *ended).await);
}
