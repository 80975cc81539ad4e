//! `portolan balancer`.

use std::process::ExitCode;

use balancer::Options;
use clap::{ArgAction, Args, Subcommand};
use client::{WallClock, election};
use tokio::sync::watch;

use super::election::ElectionFlags;
use super::{ClientFlags, Failure, runtime};

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
}

#[derive(Debug, Subcommand)]
enum BalancerCommand {
    /// Print the definition of AddressPools, for a cluster whose API server does not have the kind built in
    Crd,
}

/// Assigns addresses until a signal asks to end.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    if let Some(BalancerCommand::Crd) = flags.command {
        crate::cli::say(balancer::crd::MANIFEST);
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options {
        serves_default_class: flags.serve_default_class,
    };
    let election = flags.election.settings("portolan-balancer")?;
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = flags.client.client()?.named("portolan-balancer");
        tracing::info!(server = client.server(), "balancer started");
        let shutdown = crate::signal::asked_to_end();
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
        Ok(ExitCode::SUCCESS)
    })
}
