//! `portolan playground`: a cluster in network namespaces.

use std::process::{Command as Program, ExitCode};

use clap::{Args, Subcommand};

use crate::error::CommandError;
use crate::playground;

/// Flags of `portolan playground`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    action: Option<Action>,
    /// Number of nodes
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    nodes: u8,
    /// Exit after the check of the examples: code 0 if all respond, 1 otherwise
    #[arg(long)]
    check: bool,
    /// Port of the API on 127.0.0.1 of this host; 0 for any free port
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    api_port: u16,
}

/// Subcommands of `portolan playground`.
#[derive(Debug, Subcommand)]
enum Action {
    /// Run a program in the network of a member: control-plane, node-1 …, outside
    Exec {
        /// Member of the running playground
        member: String,
        /// Program and its arguments, after `--`
        #[arg(last = true, required = true, value_name = "PROGRAM")]
        command: Vec<String>,
    },
}

/// Runs a playground, or a program in a running one.
///
/// # Errors
///
/// An error if a component does not start, or no playground runs.
pub(crate) fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    match flags.action {
        Some(Action::Exec { member, command }) => exec(&member, &command),
        None => playground::run(&playground::Options {
            nodes: flags.nodes.into(),
            check_only: flags.check,
            api_port: flags.api_port,
        }),
    }
}

fn exec(member: &str, command: &[String]) -> Result<ExitCode, CommandError> {
    let (name, arguments) = command.split_first().ok_or("exec needs a program after --")?;
    let running = testbed::RunningEnclosure::latest()?;
    let status = testbed::enter_enclosure(running, member, Program::new(name).args(arguments))?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}
