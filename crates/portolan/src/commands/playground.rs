//! `portolan playground`.

use std::process::{Command as Program, ExitCode};

use clap::{Args, Subcommand};

use super::Failure;
use crate::playground;

/// Flags of `portolan playground`.
#[derive(Debug, Args)]
pub struct Flags {
    #[command(subcommand)]
    action: Option<Action>,
    /// Nodes of the cluster
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    nodes: u8,
    /// End after the examples were checked: exit code 0 if all answered, 1 otherwise
    #[arg(long)]
    check: bool,
    /// Port of this machine's loopback address at which kubectl reaches the API; 0 takes a free one
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    api_port: u16,
}

/// What else can be done with a playground.
#[derive(Debug, Subcommand)]
enum Action {
    /// Run a program as a member of the running playground: control-plane, node-1 …, outside
    Exec {
        /// The member whose network the program gets
        member: String,
        /// The program and its arguments, behind `--`
        #[arg(last = true, required = true, value_name = "PROGRAM")]
        command: Vec<String>,
    },
}

/// Runs the playground, or a program in one that runs.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    match flags.action {
        Some(Action::Exec { member, command }) => exec(&member, &command),
        None => playground::run(&playground::Options {
            nodes: flags.nodes.into(),
            check_only: flags.check,
            api_port: flags.api_port,
        }),
    }
}

fn exec(member: &str, command: &[String]) -> Result<ExitCode, Failure> {
    let (name, arguments) = command.split_first().ok_or("exec needs a program behind --")?;
    let running = testbed::Running::latest()?;
    let status = testbed::enter(running, member, Program::new(name).args(arguments))?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}
