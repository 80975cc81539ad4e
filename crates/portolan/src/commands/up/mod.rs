//! `portolan up`: all of it on this machine, in one process.

mod cluster_dns;
mod identities;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use client::{Client, Config};
use dataplane::nftables::{NftablesDataplane, Options};
use plan::PodDetection;
use proxy::PodSelection;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::access::AccessFlags;
use super::agent::PodFlags;
use super::apiserver::ServiceFlags;
use super::dns::{NODE_LOCAL_ADDRESS, ZoneFlags};
use super::proxy::NodeFlags;
use super::store::engine::EngineFlags;
use super::{Failure, runtime};
use crate::flags::cidr;
use identities::Identities;

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
    /// Port on this machine's addresses at which DNS is answered; the Service kube-dns leads to it
    #[arg(long, default_value_t = 10053, value_name = "PORT")]
    dns_port: u16,
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
    let dataplane = NftablesDataplane::open(Options::default())
        .map_err(|e| format!("{e}; without root, try `portolan playground`"))?;
    let runtime = runtime(std::thread::available_parallelism()?.get())?;
    runtime.block_on(async {
        let parts = Parts::new(&flags)?;
        parts.run(dataplane).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The settings of all parts.
struct Parts {
    engine: EngineFlags,
    api: apiserver::Config,
    kubeconfig: PathBuf,
    node: proxy::Config,
    dns: dns::Config,
    agent: agent::Settings,
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
                service_cidrs: flags.services.service_cluster_ip_range.clone(),
                node_ports: flags.services.node_ports(),
                token_auth_file: None,
                kubeconfig: Some(kubeconfig.clone()),
                cluster_domain: flags.zone.cluster_domain.clone(),
                access: flags.access.access()?,
            },
            kubeconfig,
            node,
            dns,
            agent: pods.settings(
                node_name,
                flags.data_dir.join("agent"),
                &flags.zone.cluster_domain,
            )?,
            dns_endpoint,
            dns_cluster_ip,
        })
    }

    /// Starts all parts, waits for the end, and ends them in the reverse order. A part that fails ends all.
    async fn run(self, dataplane: NftablesDataplane) -> Result<(), Failure> {
        let store = self.engine.open(&self.api.data_dir).await?;
        let directory = self.api.data_dir.join("pki");
        let server = apiserver::Server::start(self.api, store.clone()).await?;
        let administrator = Client::new(Config::from_kubeconfig(&self.kubeconfig)?)?;
        cluster_dns::publish(&administrator, &self.dns_cluster_ip, self.dns_endpoint).await?;
        let identities = Identities {
            directory,
            server: apiserver::kubeconfig::server_url(server.address()),
        };
        let (end, ended) = watch::channel(false);
        let mut parts: JoinSet<Result<(), Failure>> = JoinSet::new();
        let (c, e) = (identities.controllers()?, ended.clone());
        parts.spawn(async move {
            let environment = controllers::Environment::new(c);
            controllers::run(environment, controllers::Options::default(), until(e)).await;
            Ok(())
        });
        let (c, e) = (identities.proxy()?, ended.clone());
        parts.spawn(async move { Ok(proxy::run(self.node, c, dataplane, until(e)).await?) });
        let (c, e) = (identities.dns()?, ended.clone());
        parts.spawn(async move { Ok(dns::run(self.dns, Some(c), until(e)).await?) });
        let c = identities.agent(&self.agent.node_name)?;
        parts.spawn(async move { Ok(agent::run(c, self.agent, until(ended)).await?) });
        crate::cli::say(&format!(
            "Portolan is up. In another terminal:\n\n  export KUBECONFIG={}\n  kubectl get services\n\n",
            self.kubeconfig.display()
        ));
        let outcome = tokio::select! {
            () = crate::signal::asked_to_end() => Ok(()),
            error = store.lost() => Err(error.into()),
            Some(first) = parts.join_next() => first.map_err(Failure::from).and_then(|outcome| outcome),
        };
        end.send_replace(true);
        while let Some(part) = parts.join_next().await {
            if let Err(error) = part.map_err(Failure::from).and_then(|outcome| outcome) {
                tracing::error!(%error, "a part did not end well");
            }
        }
        server.drain(DRAIN_PATIENCE).await;
        outcome
    }
}

/// Resolves when the end is told, or nobody is left to tell it.
async fn until(mut ended: watch::Receiver<bool>) {
    drop(ended.wait_for(|ended| *ended).await);
}
