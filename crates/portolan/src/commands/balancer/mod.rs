//! `portolan balancer`: assigner, announcer, BGP speaker and edge, each alone or together in one process.

mod bgp;
mod edge;
mod status;

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use announcer::{LinkSelection, Metrics};
use api::address_pool::LinkPattern;
use balancer::assigner::CONCURRENT_SERVICE_SYNCS;
use balancer::{Options, serving};
use clap::{ArgAction, Args, Subcommand};
use client::Client;
use client::election::Settings;
use speaker::SpeakerError;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::bgp::BgpFlags;
use self::edge::{EdgeAddresses, EdgeFlags};
use crate::balancer_endpoints::{self, Endpoints};
use crate::error::CommandError;
use crate::flags::client::ClientFlags;
use crate::flags::election::ElectionFlags;
use crate::flags::values::{OptionalAddress, hostname, optional_address};
use crate::leadership::{self, Shutdown};
use crate::{output, runtime, shutdown};

/// Time between two attempts to bind the BGP port while a predecessor process has it.
const BIND_RETRY_PERIOD: Duration = Duration::from_millis(100);

/// Flags of `portolan balancer`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(mut_arg("leader_elect_resource_name", |arg| arg.help("Name of the Lease [default: portolan-balancer]")))]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Option<BalancerCommand>,
    #[command(flatten)]
    client: ClientFlags,
    /// Name of this Node [default: the host name]
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Address of /metrics, /healthz and /status; empty disables the server
    #[arg(long, alias = "announce-metrics-bind-address", default_value = balancer_endpoints::ADDRESS,
          value_name = "ADDRESS:PORT", value_parser = optional_address)]
    metrics_bind_address: OptionalAddress,
    /// Namespace of MetalLB's IPAddressPools, L2Advertisements and objects of BGP; empty to ignore them
    #[arg(long, default_value = balancer::metallb::NAMESPACE, value_name = "NAMESPACE")]
    metallb_namespace: String,
    /// Use nodes with the label node.kubernetes.io/exclude-from-external-load-balancers, too
    #[arg(long)]
    ignore_exclude_lb: bool,
    #[command(flatten)]
    assigner: AssignerFlags,
    #[command(flatten)]
    announcer: AnnouncerFlags,
    #[command(flatten)]
    bgp: BgpFlags,
    #[command(flatten)]
    edge: EdgeFlags,
    #[command(flatten)]
    election: ElectionFlags,
}

/// Flags of the assigner of addresses.
#[derive(Debug, Args)]
#[command(next_help_heading = "Assigner")]
struct AssignerFlags {
    /// Assign addresses to Services of type LoadBalancer
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    assign: bool,
    /// Serve Services with these values of loadBalancerClass, and not those without one
    #[arg(long, value_delimiter = ',', value_name = "CLASSES")]
    lb_class: Vec<String>,
    /// Serve Services without a loadBalancerClass; set it to false if a cloud controller serves them [default: true
    /// without --lb-class]
    #[arg(long, action = ArgAction::Set, value_name = "BOOL")]
    serve_default_class: Option<bool>,
    /// Assign addresses to Services of class portolan.dev/edge, which the edges serve [default: as --edge]
    #[arg(long, action = ArgAction::Set, value_name = "BOOL")]
    serve_edge_class: Option<bool>,
    /// Services with concurrent syncs
    #[arg(long, default_value_t = CONCURRENT_SERVICE_SYNCS, value_name = "N")]
    concurrent_service_syncs: usize,
}

/// Flags of the announcer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Announcer")]
struct AnnouncerFlags {
    /// Announce addresses with ARP and NDP on the network of this node
    #[arg(long)]
    announce: bool,
    /// Address of this node for the probes of other nodes [default: first InternalIP of the Node]
    #[arg(long, value_name = "ADDRESS")]
    node_ip: Option<IpAddr>,
    /// UDP port of the probes between nodes, the same on all nodes
    #[arg(long, default_value_t = 7947, value_name = "PORT")]
    probe_port: u16,
    /// Interfaces for announcements, such as eth0 or en* [default: all but those of Pods]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    interfaces: Vec<LinkPattern>,
}

/// Flags of `portolan balancer crd`.
#[derive(Debug, Args)]
struct CrdFlags {
    /// Print the definitions of ServiceBGPStatus and ConfigurationState instead, for a MetalLB that lacks them
    #[arg(long)]
    metallb_status: bool,
}

/// Subcommands of `portolan balancer`.
#[derive(Debug, Subcommand)]
enum BalancerCommand {
    /// Print the CustomResourceDefinition of AddressPools, for other API servers
    Crd(CrdFlags),
    /// Show assigned addresses, announcing nodes, the edge of this node, and problems
    Status(status::Flags),
}

/// Runs the selected components until a signal requests shutdown or a successor process takes over.
///
/// # Errors
///
/// An error if flags contradict each other or a component fails.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    match &flags.command {
        Some(BalancerCommand::Crd(flags)) => {
            output::print(if flags.metallb_status {
                balancer::crd::METALLB_STATUS_MANIFEST
            } else {
                balancer::crd::MANIFEST
            });
            return Ok(ExitCode::SUCCESS);
        }
        Some(BalancerCommand::Status(flags)) => return status::run(flags),
        None => {}
    }
    flags.check()?;
    let election = flags.election.settings("portolan-balancer")?;
    runtime::of_component(2)?.block_on(async {
        let client = flags.client.client()?.named("portolan-balancer");
        tracing::info!(server = client.server(), "balancer started");
        let (request_shutdown, shutdown) = watch::channel(false);
        let mut components = flags.start(&client, election, &shutdown)?;
        let first = tokio::select! {
            () = shutdown::signal_received() => None,
            first = components.join_next() => first,
        };
        request_shutdown.send_replace(true);
        let mut outcome = first.unwrap_or(Ok(Ok(())))?;
        while let Some(component) = components.join_next().await {
            outcome = outcome.and(component?);
        }
        outcome.map(|()| ExitCode::SUCCESS)
    })
}

impl Flags {
    /// Checks that a component is selected, and that the edge has addresses.
    fn check(&self) -> Result<(), CommandError> {
        let (assigns, announces) = (self.assigner.assign, self.announcer.announce);
        if self.assigner.lb_class.iter().any(String::is_empty) {
            return Err("--lb-class needs names of classes, such as example.com/balancer".into());
        }
        if !assigns && !announces && !self.bgp.bgp && !self.edge.edge {
            return Err("--assign=false needs --announce, --bgp or --edge".into());
        }
        if self.edge.edge && !announces && self.edge.edge_addresses == EdgeAddresses::Announced {
            return Err(
                "--edge needs --announce, or --edge-addresses=all if the network routes all addresses to this node"
                    .into(),
            );
        }
        Ok(())
    }

    fn metallb_namespace(&self) -> Option<String> {
        Some(self.metallb_namespace.clone()).filter(|namespace| !namespace.is_empty())
    }

    fn assigner_options(&self) -> Options {
        Options {
            serves_default_class: self.assigner.serves_default_class(),
            classes: self.assigner.lb_class.iter().cloned().collect(),
            metallb_namespace: self.metallb_namespace(),
            ignores_exclude_label: self.ignore_exclude_lb,
            has_edges: self.assigner.serve_edge_class.unwrap_or(self.edge.edge),
            creates_node_pool: false,
            api_server_port: None,
            concurrent_service_syncs: self.assigner.concurrent_service_syncs,
            metrics: Arc::default(),
        }
    }

    /// Returns the settings of an announcer without an edge.
    fn announcer_settings(&self, node_name: String) -> announcer::Settings {
        announcer::Settings {
            node_name,
            node_ip: self.announcer.node_ip,
            port: self.announcer.probe_port,
            waits_for_port: self.edge.edge && self.edge.has_handover(),
            links: LinkSelection {
                names: self.announcer.interfaces.clone(),
            },
            metallb_namespace: self.metallb_namespace(),
            ignores_exclude_label: self.ignore_exclude_lb,
            served: None,
        }
    }

    /// Starts the components. The end of one ends the process.
    fn start(
        &self,
        client: &Client,
        election: Option<Settings>,
        shutdown: &watch::Receiver<bool>,
    ) -> Result<JoinSet<Result<(), CommandError>>, CommandError> {
        let mut components = JoinSet::new();
        let node_name = self.node_name.clone().unwrap_or_else(hostname);
        let mut endpoints = Endpoints {
            node_name: node_name.clone(),
            client: Some(client.clone()),
            ..Endpoints::default()
        };
        if self.assigner.assign {
            let options = self.assigner_options();
            endpoints.assigner = Some(Arc::clone(&options.metrics));
            let shutdown = Box::pin(shutdown::wait_for_request(shutdown.clone()));
            let is_leader = watch::Sender::new(false);
            endpoints.election = election
                .as_ref()
                .map(|settings| (settings.name.clone(), is_leader.subscribe()));
            components.spawn(assign(client.clone(), options, election, is_leader, shutdown));
        }
        let announcer = Arc::<Metrics>::default();
        let (served, served_addresses) = watch::channel(Arc::default());
        if self.announcer.announce {
            let mut settings = self.announcer_settings(node_name.clone());
            settings.served = self.edge.edge.then_some(served_addresses);
            endpoints.announcer = Some(Arc::clone(&announcer));
            let (client, metrics) = (client.clone(), Arc::clone(&announcer));
            let shutdown = shutdown::wait_for_request(shutdown.clone());
            components.spawn(async move { Ok(announcer::run(client, settings, metrics, shutdown).await?) });
        }
        if self.bgp.bgp {
            let settings = self.bgp.settings(
                node_name.clone(),
                self.metallb_namespace(),
                self.ignore_exclude_lb,
                self.edge.edge.then(|| served.subscribe()),
            );
            let metrics = Arc::<speaker::Metrics>::default();
            endpoints.speaker = Some(Arc::clone(&metrics));
            components.spawn(run_speaker(
                client.clone(),
                settings,
                metrics,
                self.edge.edge && self.edge.has_handover(),
                shutdown.clone(),
            ));
        }
        if self.edge.edge {
            let settings = self.edge.settings(node_name, &announcer, served)?;
            endpoints.edge = Some(Arc::clone(&settings.metrics));
            let (client, shutdown) = (client.clone(), shutdown::wait_for_request(shutdown.clone()));
            components.spawn(async move { Ok(serving::run(client, settings, shutdown).await?) });
        }
        if let Some(address) = self.metrics_bind_address.0 {
            tokio::spawn(endpoints.serve(address));
        }
        Ok(components)
    }
}

impl AssignerFlags {
    /// Returns true if Services without a class are served. As MetalLB's, the flag `--lb-class` selects only the
    /// Services of its classes.
    fn serves_default_class(&self) -> bool {
        self.serve_default_class.unwrap_or(self.lb_class.is_empty())
    }
}

/// Assigns addresses, as the leader if there is an election.
async fn assign(
    client: Client,
    options: Options,
    election: Option<Settings>,
    is_leader: watch::Sender<bool>,
    shutdown: Shutdown,
) -> Result<(), CommandError> {
    let work = |client, shutdown: Shutdown| balancer::run(client, options.clone(), shutdown);
    leadership::run(client, election, is_leader, shutdown, work).await;
    Ok(())
}

/// Announces addresses by BGP. With `waits_for_port`, a predecessor process may still have the sessions.
async fn run_speaker(
    client: Client,
    settings: speaker::Settings,
    metrics: Arc<speaker::Metrics>,
    waits_for_port: bool,
    shutdown: watch::Receiver<bool>,
) -> Result<(), CommandError> {
    let mut is_logged = false;
    loop {
        let until_shutdown = shutdown::wait_for_request(shutdown.clone());
        let speaking = speaker::run(
            client.clone(),
            settings.clone(),
            Arc::clone(&metrics),
            until_shutdown,
        );
        match speaking.await {
            Err(error @ SpeakerError::Listen { .. }) if waits_for_port && !*shutdown.borrow() => {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::info!(%error, "BGP port in use; retrying");
                }
                tokio::time::sleep(BIND_RETRY_PERIOD).await;
            }
            outcome => return Ok(outcome?),
        }
    }
}
