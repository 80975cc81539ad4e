//! `portolan up`: all of it on this machine, in one process.

pub mod board;
mod cluster_dns;
mod identities;
pub mod supervise;
mod taint;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use api::certificates::NodePart;
use apiserver::AdmissionPlugin;
use clap::Args;
use client::election::{self, run_as_leader};
use client::{Client, Config, WallClock};
use controllers::certificates::{Authority, Reserved, SIGNING_DURATION};
use controllers::{Environment, node_ipam, node_lifecycle};
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::access::AccessFlags;
use super::apiserver::ServiceFlags;
use super::balancer::assign;
use super::cluster::{ClusterInfo, ClusterSettings, NetworkFlags, check_authority};
use super::kubeconfig::{CONTEXT, merge_administrator, person_file};
use super::load_balancer::{address_block, publish_pool};
use super::machine::{Clients, Machine, MachineFlags, check_rights, until};
use super::pod_ranges;
use super::store::engine::EngineFlags;
use super::{Failure, runtime};
use crate::flags::{at_most_one_a_family, cidr, duration, host_name};
use board::Board;
use identities::Identities;
use supervise::supervise;
use taint::server_taint;

/// How long requests under way may take at the end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);
/// Ranges of the cluster's Pods if none are given.
const CLUSTER_CIDRS: [&str; 2] = ["10.244.0.0/16", "fd00:244::/48"];
/// Checks of writes that are on besides the API server's own defaults: load balancers' addresses come from pools here, and
/// whoever may choose an external IP takes over traffic of others to it (CVE-2020-8554).
const ADMISSION_PLUGINS: [AdmissionPlugin; 1] = [AdmissionPlugin::DenyServiceExternalIps];
/// Seconds that the Lease of a Node lasts: it is renewed every two, so that a machine that dies is noticed within 10 s.
const NODE_LEASE_DURATION_SECONDS: u16 = 8;

/// Flags of `portolan up`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Where the API is served over HTTPS
    #[arg(long, default_value = "0.0.0.0:6443", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Address at which other machines and Pods reach the API; this machine's primary one if not given
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: Option<IpAddr>,
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
    #[command(flatten)]
    nodes: NodesFlags,
    #[command(flatten)]
    network: NetworkFlags,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    services: ServiceFlags,
    #[command(flatten)]
    access: AccessFlags,
    #[command(flatten)]
    machine: MachineFlags,
    /// Addresses for Services of type LoadBalancer, such as 192.0.2.200-192.0.2.220, out of this network and used by nobody
    /// else: the AddressPool `default` is made of them. Without it such Services wait for a pool of somebody
    #[arg(long, value_delimiter = ',', value_name = "RANGES", value_parser = address_block)]
    load_balancer_addresses: Vec<String>,
}

/// Flags that concern the machines of the cluster.
#[derive(Debug, Args)]
struct NodesFlags {
    /// Give each Node a range out of --cluster-cidr for its Pods
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    allocate_node_cidrs: bool,
    /// Bits of the IPv4 range that a Node gets
    #[arg(long, default_value_t = node_ipam::MASK_SIZE_IPV4, value_name = "BITS")]
    node_cidr_mask_size_ipv4: u8,
    /// Bits of the IPv6 range that a Node gets
    #[arg(long, default_value_t = node_ipam::MASK_SIZE_IPV6, value_name = "BITS")]
    node_cidr_mask_size_ipv6: u8,
    /// How long a Node may be silent before it counts as not ready, and its Pods leave traffic
    #[arg(long, default_value = "7s", value_name = "DURATION", value_parser = duration)]
    node_monitor_grace_period: Duration,
    /// Keep Pods off this machine, which has the cluster's keys: taint its Node with
    /// node-role.kubernetes.io/control-plane:NoSchedule. The taint stays until somebody removes it
    #[arg(long)]
    taint_server: bool,
    /// How long the certificates of machines are good; they are renewed in time
    #[arg(long, default_value = "8760h", value_name = "DURATION", value_parser = duration)]
    cluster_signing_duration: Duration,
}

/// Runs everything until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    flags.services.check()?;
    check_rights()?;
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
    cluster: ClusterSettings,
    controllers: controllers::Options,
    signing_duration: Duration,
    machine: Machine,
    load_balancer_addresses: Vec<String>,
}

impl Flags {
    /// The ranges of the cluster's Pods. Who gives this machine a range means that one alone, if no other is named.
    fn cluster_cidrs(&self) -> Result<Vec<IpNet>, Failure> {
        let (all, own) = (&self.machine.node.cluster_cidr, &self.machine.pods.pod_cidr);
        let given = if all.is_empty() { own } else { all };
        if given.is_empty() {
            return Ok(CLUSTER_CIDRS
                .iter()
                .map(|text| cidr(text))
                .collect::<Result<_, _>>()?);
        }
        at_most_one_a_family(
            given,
            if all.is_empty() {
                "--pod-cidr"
            } else {
                "--cluster-cidr"
            },
        )?;
        Ok(given.clone())
    }

    fn controllers(&self, cluster: &ClusterSettings) -> Result<controllers::Options, Failure> {
        let settings = node_ipam::Settings {
            cluster_cidrs: cluster.cluster_cidrs.clone(),
            mask_size_ipv4: self.nodes.node_cidr_mask_size_ipv4,
            mask_size_ipv6: self.nodes.node_cidr_mask_size_ipv6,
        };
        let machine = &self.machine;
        let has_own_range = machine.node.cluster_cidr.is_empty() && !machine.pods.pod_cidr.is_empty();
        let allocates = self.nodes.allocate_node_cidrs && !has_own_range;
        if allocates {
            node_ipam::Ranges::new(&settings).map_err(|error| crate::flags::BadValue(error.to_string()))?;
        }
        Ok(controllers::Options {
            node_lifecycle: node_lifecycle::Settings {
                monitor_grace_period: self.nodes.node_monitor_grace_period,
                ..node_lifecycle::Settings::for_small_clusters()
            },
            node_ipam: allocates.then_some(settings),
            ..controllers::Options::default()
        })
    }
}

impl Parts {
    fn new(flags: &Flags) -> Result<Self, Failure> {
        let pods = &flags.machine.pods;
        let cluster = ClusterSettings {
            cluster_cidrs: flags.cluster_cidrs()?,
            cluster_dns: pods.cluster_dns.clone(),
            cluster_domain: flags.machine.zone.cluster_domain.clone(),
            network: flags.network.network(),
            node_lease_duration_seconds: pods
                .node_lease_duration_seconds
                .unwrap_or(NODE_LEASE_DURATION_SECONDS),
        };
        let mut machine = flags.machine.machine(&flags.data_dir, &cluster)?;
        let kubeconfig = flags
            .write_kubeconfig
            .clone()
            .unwrap_or_else(|| flags.data_dir.join("admin.conf"));
        let key_files = [
            flags.engine.etcd.etcd_keyfile.clone(),
            flags.engine.encryption.file(),
        ];
        machine.agent.hidden.push(kubeconfig.clone());
        machine.agent.hidden.extend(key_files.into_iter().flatten());
        if flags.nodes.taint_server {
            machine.agent.node_taints.push(server_taint());
        }
        Ok(Self {
            engine: flags.engine.clone(),
            api: apiserver::Config {
                listen: flags.listen,
                data_dir: flags.data_dir.clone(),
                node_name: machine.agent.node_name.clone(),
                advertise_address: flags.advertise_address.or(Some(machine.dns_endpoint.ip())),
                kubernetes_service: flags.services.kubernetes_service(),
                service_cidrs: flags.services.service_cluster_ip_range.clone(),
                node_ports: flags.services.node_ports(),
                token_auth_file: None,
                kubeconfig: Some(kubeconfig.clone()),
                cluster_domain: cluster.cluster_domain.clone(),
                access: flags.access.access_with(&ADMISSION_PLUGINS)?,
                encryption: flags.engine.encryption.at_rest()?,
            },
            kubeconfig,
            merges_kubeconfig: flags.merge_kubeconfig,
            controllers: flags.controllers(&cluster)?,
            signing_duration: flags.nodes.cluster_signing_duration.min(SIGNING_DURATION),
            cluster,
            machine,
            load_balancer_addresses: flags.load_balancer_addresses.clone(),
        })
    }

    /// Starts all parts, waits for the end, and ends them in the reverse order. A part that fails is started anew; a
    /// store that is lost ends all.
    async fn run(self, board: Arc<Board>) -> Result<(), Failure> {
        let store = self
            .engine
            .open(&self.api.data_dir, self.api.encryption.as_ref())
            .await?;
        let directory = self.api.data_dir.join("pki");
        if self.engine.is_shared() {
            check_authority(&*store, &directory.join("ca.crt"))?;
        }
        let server = apiserver::Server::start(self.api.clone(), store.clone()).await?;
        let config = Config::from_kubeconfig(&self.kubeconfig)?;
        let administrator = Client::new(config.clone())?;
        self.publish(&administrator, &config, server.address()).await?;
        let agent = &self.machine.agent;
        pod_ranges::reserve(&administrator, &agent.node_name, &agent.pod_cidrs).await?;
        if !self.machine.agent.node_taints.is_empty() {
            taint::put_on(&administrator, &self.machine.agent).await?;
        }
        let identities = Identities {
            directory,
            server: apiserver::kubeconfig::server_url(server.address()),
        };
        let kubeconfig = self.kubeconfig.clone();
        let is_merged = self.merges_kubeconfig && merge_kubeconfig(&kubeconfig);
        let (end, ended) = watch::channel(false);
        let reserved = Reserved::new(server.serving_names(), &self.cluster.cluster_domain);
        board.is_node(&self.machine.agent.node_name);
        let mut parts = self.start(&board, &identities, reserved, &ended)?;
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

    /// Writes down where DNS is, and for machines that join what they must know.
    async fn publish(&self, client: &Client, config: &Config, listening: SocketAddr) -> Result<(), Failure> {
        let address = self.api.advertise_address.unwrap_or(listening.ip());
        let info = ClusterInfo {
            server: apiserver::kubeconfig::server_url(SocketAddr::new(address, listening.port())),
            authority: String::from_utf8_lossy(&config.certificate_authority).into_owned(),
            settings: Some(self.cluster.clone()),
        };
        info.publish(client).await?;
        let dns = self
            .cluster
            .cluster_dns
            .first()
            .ok_or("--cluster-dns needs an address")?;
        let node_name = &self.machine.agent.node_name;
        cluster_dns::publish(client, &dns.to_string(), node_name, self.machine.dns_endpoint).await?;
        if !self.load_balancer_addresses.is_empty() {
            publish_pool(client, &self.load_balancer_addresses).await?;
        }
        Ok(())
    }

    /// Starts what is a client of the API, each part under its supervisor.
    fn start(
        self,
        board: &Arc<Board>,
        identities: &Identities,
        reserved: Reserved,
        ended: &watch::Receiver<bool>,
    ) -> Result<JoinSet<()>, Failure> {
        let mut parts = JoinSet::new();
        let file = |name: &str| identities.directory.join(name);
        let authority = Authority::open(&file("ca.crt"), &file("ca.key"), self.signing_duration)?
            .with_kubelet_serving(&file("kubelet-serving-ca.crt"), &file("kubelet-serving-ca.key"))?;
        let options = controllers::Options {
            authority: Some(Arc::new(authority)),
            reserved,
            ..self.controllers
        };
        let (client, until_end, is_shared) =
            (identities.controllers()?, ended.clone(), self.engine.is_shared());
        let controllers = move || {
            let work = control(client.clone(), options.clone(), is_shared, until_end.clone());
            async move {
                work.await;
                Ok::<(), Failure>(())
            }
        };
        parts.spawn(supervise(
            Arc::clone(board),
            "controllers",
            ended.clone(),
            controllers,
        ));
        let options = balancer::Options {
            has_edges: true,
            ..balancer::Options::default()
        };
        let assigner = Arc::clone(&options.metrics);
        parts.spawn(supervise(
            Arc::clone(board),
            "balancer",
            ended.clone(),
            assigning(identities.balancer()?, options, is_shared, ended.clone()),
        ));
        let node_name = &self.machine.agent.node_name;
        let clients = Clients {
            announcer: identities.part(NodePart::Announcer, node_name)?,
            edge: identities.part(NodePart::Edge, node_name)?,
            agent: identities.agent(node_name)?,
            proxy: identities.part(NodePart::Proxy, node_name)?,
            dns: identities.part(NodePart::Dns, node_name)?,
        };
        let serving = identities.agent_serving(node_name, self.machine.agent_endpoint)?;
        self.machine
            .start(&mut parts, board, clients, serving, Some(assigner), ended);
        Ok(parts)
    }
}

/// Starts what assigns addresses to Services of type LoadBalancer; where other servers share the data, only one of them
/// does.
fn assigning(
    client: Client,
    options: balancer::Options,
    is_shared: bool,
    ended: watch::Receiver<bool>,
) -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>> {
    move || {
        let election = is_shared.then(|| lease("portolan-balancer"));
        Box::pin(assign(
            client.clone(),
            options.clone(),
            election,
            until(ended.clone()),
        ))
    }
}

/// How an election is held for a Lease of that name.
fn lease(name: &str) -> election::Settings {
    election::Settings {
        // A process that starts again is another candidate: it knows nothing of what it did before.
        identity: format!("{}_{}", host_name(), uuid::Uuid::new_v4()),
        namespace: "kube-system".to_owned(),
        name: name.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

/// Runs the controllers; where other servers share the data, only as long as this one leads.
async fn control(
    client: Client,
    options: controllers::Options,
    is_shared: bool,
    ended: watch::Receiver<bool>,
) {
    if !is_shared {
        controllers::run(Environment::new(client), options, until(ended)).await;
        return;
    }
    let settings = lease("portolan-controllers");
    let is_leader = watch::Sender::new(false);
    let work = |client, end| {
        controllers::run(
            Environment::new(client),
            options.clone(),
            election::shutdown_requested(end),
        )
    };
    run_as_leader(
        client,
        settings,
        WallClock::system(),
        is_leader,
        until(ended),
        work,
    )
    .await;
}

/// Puts the administrator's kubeconfig into the person's; whether that was done. Everything runs without it.
fn merge_kubeconfig(administrator: &Path) -> bool {
    let merged = person_file(None).and_then(|into| merge_administrator(administrator, &into, CONTEXT, false));
    if let Err(error) = &merged {
        tracing::error!(%error, "the kubeconfig is not merged");
    }
    merged.is_ok()
}
