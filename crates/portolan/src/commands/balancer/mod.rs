//! `portolan balancer`: assigning addresses, announcing them, and the edge, each of them or all in one process.

pub mod edge;
pub mod pages;
mod status;

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use announcer::{AnnounceError, LinkSelection, Metrics};
use api::address_pool::LinkPattern;
use balancer::assigner::CONCURRENT_SERVICE_SYNCS;
use balancer::{Options, serving};
use clap::{ArgAction, Args, Subcommand};
use client::election::Settings;
use client::{Client, WallClock, election};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::edge::{EdgeAddresses, EdgeFlags};
use self::pages::Pages;
use super::election::ElectionFlags;
use super::{ClientFlags, Failure, runtime};
use crate::flags::{OptionalAddress, host_name, optional_address};

/// Pause between two tries to announce while a predecessor still does. On a machine that is alone nobody answers for its addresses
/// meanwhile.
const BIND_RETRY_PERIOD: Duration = Duration::from_millis(100);

/// Flags of `portolan balancer`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Flags {
    #[command(subcommand)]
    command: Option<BalancerCommand>,
    #[command(flatten)]
    client: ClientFlags,
    #[command(flatten)]
    election: ElectionFlags,
    /// Whether Services without a loadBalancerClass are served; say false where a cloud's controller serves them.
    /// Those of class portolan.dev/balancer always are
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    serve_default_class: bool,
    /// Services that are worked on at once
    #[arg(long, default_value_t = CONCURRENT_SERVICE_SYNCS, value_name = "N")]
    concurrent_service_syncs: usize,
    /// Whether addresses are assigned here; say false for a process that only announces, or only runs the edge
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    assign: bool,
    /// Whether nodes run the edge, so that Services which ask for more than packets are left to it; as --edge if not given
    #[arg(long, action = ArgAction::Set, value_name = "true|false")]
    serve_edge_class: Option<bool>,
    /// Announce addresses on this node's network by ARP and NDP, for as long as this node has them
    #[arg(long)]
    announce: bool,
    /// Run the edge on this node: TLS, HTTP, PROXY protocol, health checks, draining and access logs for Services of class
    /// portolan.dev/edge, and those whose annotations ask for it
    #[arg(long)]
    edge: bool,
    #[command(flatten)]
    announcing: AnnounceFlags,
    #[command(flatten)]
    serving: EdgeFlags,
    /// Where /metrics, /healthz and /status are served; empty for nowhere
    #[arg(long, alias = "announce-metrics-bind-address", default_value = pages::ADDRESS,
          value_name = "ADDRESS:PORT", value_parser = optional_address)]
    metrics_bind_address: OptionalAddress,
}

/// Flags of announcing.
#[derive(Debug, Args)]
pub struct AnnounceFlags {
    /// Name of this machine's Node; the host name if not given
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Address of this machine at which other nodes' probes arrive; the Node's first InternalIP if not given
    #[arg(long, value_name = "ADDRESS")]
    node_ip: Option<IpAddr>,
    /// UDP port of the probes between nodes, the same on all of them
    #[arg(long, default_value_t = 7947, value_name = "PORT")]
    probe_port: u16,
    /// Links that addresses are announced on, such as eth0 or en*; if not given, all with an address of the network,
    /// without those whose names say that they lead to Pods. AddressPools may name others for their addresses
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    interfaces: Vec<LinkPattern>,
}

#[derive(Debug, Subcommand)]
enum BalancerCommand {
    /// Print the definition of AddressPools, for a cluster whose API server does not have the kind built in
    Crd,
    /// Say which addresses are assigned, which node announces each, how the edge of this machine is, and why a Service
    /// waits
    Status(status::Flags),
}

/// Does the parts that it is asked for until a signal asks to end, or a successor has taken over.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    match &flags.command {
        Some(BalancerCommand::Crd) => {
            crate::cli::say(balancer::crd::MANIFEST);
            return Ok(ExitCode::SUCCESS);
        }
        Some(BalancerCommand::Status(flags)) => return status::run(flags),
        None => {}
    }
    if !flags.assign && !flags.announce && !flags.edge {
        return Err("there is nothing to do with --assign=false and without --announce and --edge".into());
    }
    if flags.edge && !flags.announce && flags.serving.addresses() == EdgeAddresses::Announced {
        return Err(
            "--edge serves the addresses that --announce has; without that, say --edge-addresses=all if the network \
                    leads all of them to this node"
                .into(),
        );
    }
    let election = flags.election.settings("portolan-balancer")?;
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = flags.client.client()?.named("portolan-balancer");
        tracing::info!(server = client.server(), "balancer started");
        let (end, ended) = watch::channel(false);
        let mut parts = flags.start(&client, election, &ended)?;
        let first = tokio::select! {
            () = crate::signal::asked_to_end() => None,
            first = parts.join_next() => first,
        };
        end.send_replace(true);
        let mut outcome = first.unwrap_or(Ok(Ok(())))?;
        while let Some(part) = parts.join_next().await {
            outcome = outcome.and(part?);
        }
        outcome.map(|()| ExitCode::SUCCESS)
    })
}

impl Flags {
    /// Starts the parts. The first one to end ends all.
    fn start(
        &self,
        client: &Client,
        election: Option<Settings>,
        ended: &watch::Receiver<bool>,
    ) -> Result<JoinSet<Result<(), Failure>>, Failure> {
        let mut parts: JoinSet<Result<(), Failure>> = JoinSet::new();
        let node_name = self.announcing.node_name.clone().unwrap_or_else(host_name);
        let mut pages = Pages {
            node_name: node_name.clone(),
            ..Pages::default()
        };
        if self.assign {
            let options = Options {
                serves_default_class: self.serve_default_class,
                has_edges: self.serve_edge_class.unwrap_or(self.edge),
                concurrent_service_syncs: self.concurrent_service_syncs,
                metrics: Arc::default(),
            };
            pages.assigner = Some(Arc::clone(&options.metrics));
            let end = election::shutdown_requested(ended.clone());
            parts.spawn(assign(client.clone(), options, election, end));
        }
        let announcer = Arc::<Metrics>::default();
        let (served, follow_served) = watch::channel(Arc::default());
        if self.announce {
            let settings = announcer::Settings {
                node_name: node_name.clone(),
                node_ip: self.announcing.node_ip,
                port: self.announcing.probe_port,
                links: LinkSelection {
                    names: self.announcing.interfaces.clone(),
                },
                served: self.edge.then_some(follow_served),
            };
            pages.announcer = Some(Arc::clone(&announcer));
            let is_patient = self.edge && self.serving.hands_over();
            let announcing = announce(
                client.clone(),
                settings,
                Arc::clone(&announcer),
                is_patient,
                ended.clone(),
            );
            parts.spawn(announcing);
        }
        if self.edge {
            let settings = self.serving.settings(node_name, &announcer, served)?;
            pages.edge = Some(Arc::clone(&settings.metrics));
            let (client, end) = (client.clone(), election::shutdown_requested(ended.clone()));
            parts.spawn(async move { Ok(serving::run(client, settings, end).await?) });
        }
        if let Some(address) = self.metrics_bind_address.0 {
            tokio::spawn(pages.serve(address));
        }
        Ok(parts)
    }
}

/// Assigns addresses, as the only one who does if there is an election.
pub async fn assign(
    client: Client,
    options: Options,
    election: Option<Settings>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Failure> {
    match election {
        None => {
            balancer::run(client, options, shutdown).await;
        }
        Some(settings) => {
            let work =
                |client, end| balancer::run(client, options.clone(), election::shutdown_requested(end));
            let is_leader = watch::Sender::new(false);
            election::run_as_leader(client, settings, WallClock::system(), is_leader, shutdown, work).await;
        }
    }
    Ok(())
}

/// Announces; a patient one waits for its predecessor to end.
async fn announce(
    client: Client,
    settings: announcer::Settings,
    metrics: Arc<Metrics>,
    is_patient: bool,
    ended: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let mut is_told = false;
    loop {
        let end = election::shutdown_requested(ended.clone());
        let announcing = announcer::run(client.clone(), settings.clone(), Arc::clone(&metrics), end);
        match announcing.await {
            Err(error @ AnnounceError::Listen { .. }) if is_patient && !*ended.borrow() => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::info!(%error, "trying again until the port is free");
                }
                tokio::time::sleep(BIND_RETRY_PERIOD).await;
            }
            outcome => return Ok(outcome?),
        }
    }
}
