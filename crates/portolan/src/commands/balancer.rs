//! `portolan balancer`.

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;

use balancer::Options;
use balancer::announce::{self, LinkSelection, Metrics};
use clap::{ArgAction, Args, Subcommand};
use client::election::Settings;
use client::{Client, WallClock, election};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::election::ElectionFlags;
use super::{ClientFlags, Failure, runtime};
use crate::flags::{OptionalAddress, host_name, optional_address};

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
    /// Whether addresses are assigned here; say false for a process that only announces
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    assign: bool,
    /// Announce addresses on this node's network by ARP and NDP, for as long as this node has them
    #[arg(long)]
    announce: bool,
    #[command(flatten)]
    announcing: AnnounceFlags,
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
    /// without those whose names say that they lead to Pods
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    interfaces: Vec<String>,
    /// Where /metrics and /healthz of announcing are served; empty for nowhere
    #[arg(long, default_value = "127.0.0.1:10268", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    announce_metrics_bind_address: OptionalAddress,
}

impl AnnounceFlags {
    fn settings(&self) -> announce::Settings {
        announce::Settings {
            node_name: self.node_name.clone().unwrap_or_else(host_name),
            node_ip: self.node_ip,
            port: self.probe_port,
            links: LinkSelection {
                names: self.interfaces.clone(),
            },
        }
    }
}

#[derive(Debug, Subcommand)]
enum BalancerCommand {
    /// Print the definition of AddressPools, for a cluster whose API server does not have the kind built in
    Crd,
}

/// Assigns and announces addresses until a signal asks to end.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    if let Some(BalancerCommand::Crd) = flags.command {
        crate::cli::say(balancer::crd::MANIFEST);
        return Ok(ExitCode::SUCCESS);
    }
    if !flags.assign && !flags.announce {
        return Err("there is nothing to do with --assign=false and without --announce".into());
    }
    let options = Options {
        serves_default_class: flags.serve_default_class,
    };
    let election = flags.election.settings("portolan-balancer")?;
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = flags.client.client()?.named("portolan-balancer");
        tracing::info!(server = client.server(), "balancer started");
        let (end, ended) = watch::channel(false);
        let mut parts: JoinSet<Result<(), Failure>> = JoinSet::new();
        if flags.assign {
            parts.spawn(assign(
                client.clone(),
                options,
                election,
                election::asked(ended.clone()),
            ));
        }
        if flags.announce {
            let (settings, metrics) = (flags.announcing.settings(), Arc::<Metrics>::default());
            if let Some(address) = flags.announcing.announce_metrics_bind_address.0 {
                tokio::spawn(announce::serve_status(address, Arc::clone(&metrics)));
            }
            let end = election::asked(ended);
            parts.spawn(async move { Ok(announce::run(client, settings, metrics, end).await?) });
        }
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

/// Assigns addresses, as the only one who does if there is an election.
async fn assign(
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
            let work = |client, end| balancer::run(client, options.clone(), election::asked(end));
            let is_leader = watch::Sender::new(false);
            election::lead(client, settings, WallClock::system(), is_leader, shutdown, work).await;
        }
    }
    Ok(())
}
