//! `portolan up`: all of it on this machine, in one process.

pub mod board;
mod cluster_dns;
mod identities;
mod supervise;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::{Client, Config};
use dataplane::nftables::{NftablesDataplane, Options};
use plan::PodDetection;
use proxy::PodSelection;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::access::AccessFlags;
use super::agent::{AGENT_PORT, PodFlags};
use super::apiserver::ServiceFlags;
use super::dns::{NODE_LOCAL_ADDRESS, ZoneFlags};
use super::kubeconfig::{CONTEXT, merge_administrator, person_file};
use super::proxy::NodeFlags;
use super::store::engine::EngineFlags;
use super::{Failure, runtime};
use crate::flags::cidr;
use board::Board;
use identities::Identities;
use supervise::supervise;

/// How long requests under way may take at the end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);
/// Ranges of the Pods' addresses if none are given.
const POD_CIDRS: [&str; 2] = ["10.244.0.0/24", "fd00:244::/64"];

/// Where DNS serves its metrics and explanations.
const DNS_METRICS_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9153);
/// Seconds after which the last good state of DNS is not served any more.
const DNS_STATE_AGE_SECONDS_MAX: u64 = 86_400;

/// Flags of `portolan up`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Where the API is served over HTTPS
    #[arg(long, default_value = "0.0.0.0:6443", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Directory of everything that is kept: store, certificates, kubeconfig, Pods
    #[arg(long, default_value = "/var/lib/portolan", value_name = "DIR")]
    data_dir: PathBuf,
    /// Where the administrator's kubeconfig is written, mode 0600; DIR/admin.conf if not given
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Put the administrator's kubeconfig into ~/.kube/config, too, as the context portolan, and make that the current
    /// one; portolan kubeconfig remove takes it out again
    #[arg(long)]
    merge_kubeconfig: bool,
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
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    services: ServiceFlags,
    #[command(flatten)]
    access: AccessFlags,
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    zone: ZoneFlags,
    #[command(flatten)]
    pods: PodFlags,
}

/// Runs everything until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    flags.services.check()?;
    // The most likely thing to be missing is said before anything is started.
    drop(
        NftablesDataplane::open(Options::default())
            .map_err(|e| format!("{e}; without root, try `portolan playground`"))?,
    );
    let runtime = runtime(std::thread::available_parallelism()?.get())?;
    runtime.block_on(async {
        let parts = Parts::new(&flags)?;
        let board = Board::open(&flags.data_dir, &parts.kubeconfig)?;
        parts.run(Arc::new(board)).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The settings of all parts.
struct Parts {
    engine: EngineFlags,
    api: apiserver::Config,
    kubeconfig: PathBuf,
    merges_kubeconfig: bool,
    node: proxy::Config,
    dns: dns::Config,
    agent: agent::Settings,
    agent_port: u16,
    dns_endpoint: SocketAddr,
    dns_cluster_ip: String,
}

impl Parts {
    fn new(flags: &Flags) -> Result<Self, Failure> {
        let node_name = flags.node.node_name();
        let mut pods = flags.pods.clone();
        if pods.pod_cidr.is_empty() {
            pods.pod_cidr = POD_CIDRS
                .iter()
                .map(|text| cidr(text))
                .collect::<Result<_, _>>()?;
        }
        let mut node = flags.node.config()?;
        if node.pods == PodSelection::default() {
            node.pods = PodSelection::Given(PodDetection::Ranges(pods.pod_cidr.clone()));
        }
        let node_ips = match pods.node_ip.as_slice() {
            [] => agent::network::node_addresses()?,
            given => given.to_vec(),
        };
        let primary = *node_ips
            .first()
            .ok_or("this machine has no address beyond the loopback link; name one with --node-ip")?;
        let dns_endpoint = SocketAddr::new(primary, flags.dns_port);
        let listen = node_ips
            .iter()
            .map(|ip| SocketAddr::new(*ip, flags.dns_port))
            .collect();
        let kubeconfig = flags
            .write_kubeconfig
            .clone()
            .unwrap_or_else(|| flags.data_dir.join("admin.conf"));
        let dns_cluster_ip = pods
            .cluster_dns
            .first()
            .ok_or("--cluster-dns needs an address")?
            .to_string();
        let mut dns = flags.zone.config(listen)?;
        if flags.node_local {
            dns.node_local = [NODE_LOCAL_ADDRESS]
                .into_iter()
                .chain(pods.cluster_dns.iter().copied())
                .collect();
            // A kernel without dummy links still has its DNS through the Service.
            dns.node_local_is_optional = true;
        }
        dns.server_side_search |= flags.node_local;
        dns.node_name = Some(node_name.clone());
        dns.metrics_address = Some(DNS_METRICS_ADDRESS);
        dns.snapshot = Some(dns::SnapshotSettings {
            path: flags.data_dir.join("dns.state"),
            age_seconds_max: DNS_STATE_AGE_SECONDS_MAX,
        });
        Ok(Self {
            engine: flags.engine.clone(),
            api: apiserver::Config {
                listen: flags.listen,
                data_dir: flags.data_dir.clone(),
                node_name: node_name.clone(),
                advertise_address: Some(primary),
                kubernetes_service: flags.services.kubernetes_service(),
                service_cidrs: flags.services.service_cluster_ip_range.clone(),
                node_ports: flags.services.node_ports(),
                token_auth_file: None,
                kubeconfig: Some(kubeconfig.clone()),
                cluster_domain: flags.zone.cluster_domain.clone(),
                access: flags.access.access()?,
            },
            kubeconfig,
            merges_kubeconfig: flags.merge_kubeconfig,
            node,
            dns,
            agent: pods.settings(
                node_name,
                flags.data_dir.join("agent"),
                &flags.zone.cluster_domain,
            )?,
            agent_port: flags.agent_port,
            dns_endpoint,
            dns_cluster_ip,
        })
    }

    /// Starts all parts, waits for the end, and ends them in the reverse order. A part that fails is started anew; a
    /// store that is lost ends all.
    async fn run(self, board: Arc<Board>) -> Result<(), Failure> {
        let store = self.engine.open(&self.api.data_dir).await?;
        let directory = self.api.data_dir.join("pki");
        let server = apiserver::Server::start(self.api.clone(), store.clone()).await?;
        let administrator = Client::new(Config::from_kubeconfig(&self.kubeconfig)?)?;
        cluster_dns::publish(&administrator, &self.dns_cluster_ip, self.dns_endpoint).await?;
        let identities = Identities {
            directory,
            server: apiserver::kubeconfig::server_url(server.address()),
        };
        let kubeconfig = self.kubeconfig.clone();
        let is_merged = self.merges_kubeconfig && merge_kubeconfig(&kubeconfig);
        let (end, ended) = watch::channel(false);
        let mut parts = self.start(&board, &identities, &ended)?;
        let export = match is_merged {
            true => String::new(),
            false => format!("  export KUBECONFIG={}\n", kubeconfig.display()),
        };
        crate::cli::say(&format!(
            "Portolan is up. In another terminal:\n\n{export}  kubectl get services\n\n"
        ));
        let outcome = tokio::select! {
            () = crate::signal::asked_to_end() => Ok(()),
            error = store.lost() => Err(error.into()),
        };
        end.send_replace(true);
        while parts.join_next().await.is_some() {}
        server.drain(DRAIN_PATIENCE).await;
        outcome
    }

    /// Starts what is a client of the API, each part under its supervisor.
    fn start(
        self,
        board: &Arc<Board>,
        identities: &Identities,
        ended: &watch::Receiver<bool>,
    ) -> Result<JoinSet<()>, Failure> {
        let mut parts = JoinSet::new();
        let (client, until_end) = (identities.controllers()?, ended.clone());
        let controllers = move || {
            let environment = controllers::Environment::new(client.clone());
            let end = until(until_end.clone());
            async move {
                controllers::run(environment, controllers::Options::default(), end).await;
                Ok::<(), Failure>(())
            }
        };
        parts.spawn(supervise(
            Arc::clone(board),
            "controllers",
            ended.clone(),
            controllers,
        ));
        let (client, until_end, node) = (identities.proxy()?, ended.clone(), self.node);
        let proxy = move || {
            let (node, client, end) = (node.clone(), client.clone(), until(until_end.clone()));
            async move {
                let dataplane = NftablesDataplane::open(Options::default())?;
                Ok::<(), Failure>(proxy::run(node, client, dataplane, end).await?)
            }
        };
        parts.spawn(supervise(Arc::clone(board), "proxy", ended.clone(), proxy));
        let (client, until_end, dns) = (identities.dns()?, ended.clone(), self.dns);
        let dns = move || {
            let (dns, client, end) = (dns.clone(), client.clone(), until(until_end.clone()));
            async move { Ok::<(), Failure>(dns::run(dns, Some(client), end).await?) }
        };
        parts.spawn(supervise(Arc::clone(board), "dns", ended.clone(), dns));
        let mut agent = self.agent;
        let client = identities.agent(&agent.node_name)?;
        let listen = SocketAddr::new(self.dns_endpoint.ip(), self.agent_port);
        agent.serving = Some(identities.agent_serving(&agent.node_name, listen)?);
        let until_end = ended.clone();
        let agent = move || {
            let (agent, client, end) = (agent.clone(), client.clone(), until(until_end.clone()));
            async move { Ok::<(), Failure>(agent::run(client, agent, end).await?) }
        };
        parts.spawn(supervise(Arc::clone(board), "agent", ended.clone(), agent));
        Ok(parts)
    }
}

/// Puts the administrator's kubeconfig into the person's; whether that was done. Everything runs without it.
fn merge_kubeconfig(administrator: &Path) -> bool {
    let merged = person_file(None).and_then(|into| merge_administrator(administrator, &into, CONTEXT, false));
    if let Err(error) = &merged {
        tracing::error!(%error, "the kubeconfig is not merged");
    }
    merged.is_ok()
}

/// Resolves when the end is told, or nobody is left to tell it.
async fn until(mut ended: watch::Receiver<bool>) {
    drop(ended.wait_for(|ended| *ended).await);
}
