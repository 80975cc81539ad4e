//! The command line: subcommands and what they have in common.

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::commands;
use crate::logging::LogFlags;

/// Everything behind Kubernetes' `kind: Service`, in one binary.
#[derive(Debug, Parser)]
#[command(name = "portolan", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    /// What to log and how.
    #[command(flatten)]
    pub log: LogFlags,
    /// Subcommand to execute.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands, in the order in which `--help` lists them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run all of it on this machine: API, controllers, proxy, DNS and agent
    Up(Box<commands::up::Flags>),
    /// Run this machine as a node of a cluster that `portolan up` made on another: proxy, DNS and agent
    Join(Box<commands::join::Flags>),
    /// Take this machine out of its cluster: its Pods end first
    Leave(commands::leave::Flags),
    /// Make, list and revoke the tokens that machines join with
    #[command(subcommand)]
    Token(commands::token::Command),
    /// Say how each part of `portolan up` or `portolan join` is, and why if it is not well
    Status(commands::status::Flags),
    /// Run `portolan up` or `portolan join` as a systemd service
    #[command(subcommand)]
    Service(commands::service::Command),
    /// Run a cluster in a box: nodes, Pods and a client outside, all in network namespaces
    Playground(commands::playground::Flags),
    /// Serve the Kubernetes API from an embedded store
    Apiserver(commands::apiserver::Flags),
    /// Keep Endpoints and EndpointSlices, collect garbage, give Pods to Nodes
    Controllers(commands::controllers::Flags),
    /// Give Services of type LoadBalancer their addresses
    Balancer(commands::balancer::Flags),
    /// Put Services into force in this machine's kernel
    Proxy(Box<commands::proxy::Flags>),
    /// Compute what a node would do with the Services and EndpointSlices in a file
    Plan(commands::plan::Flags),
    /// Answer DNS for the cluster
    Dns(Box<commands::dns::Flags>),
    /// Run this Node's Pods as processes
    Agent(commands::agent::Flags),
    /// Put addresses that are no Pods behind a Service, and keep watch over their health
    #[command(subcommand)]
    Backend(commands::backend::Command),
    /// Print the environment of a Pod's containers, and which Service each variable is from
    Env(commands::env::Flags),
    /// Copy, snapshot, restore and verify the API server's data
    Store(commands::store::Flags),
    /// Print the kubeconfig of a component or a person, with a certificate of the cluster's authority
    Kubeconfig(commands::kubeconfig::Flags),
    /// Print completions for a shell
    Completions(commands::reference::CompletionFlags),
    /// Write the manual pages
    Man(commands::reference::ManualFlags),
    /// Print the version
    Version,
}

/// Parses the command line. A bad value gets one clear line and exit code 2; `--help` and `--version`
/// are printed and end well.
pub fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        if !error.use_stderr() {
            say(&error.to_string());
            return ExitCode::SUCCESS;
        }
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            eprint!("{error}");
        } else {
            eprintln!("portolan: {} (see portolan --help)", one_line(&error.to_string()));
        }
        ExitCode::from(crate::EXIT_USAGE)
    })
}

/// Prints to standard output. A reader that has gone, as in `portolan --help | head`, is no fault.
pub fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    if let Err(error) = output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        tracing::debug!(%error, "nobody reads the standard output");
    }
}

/// What is wrong, without the usage and tips that follow behind an empty line.
fn one_line(error: &str) -> String {
    let said = error.lines().take_while(|line| !line.is_empty());
    let line = said.map(str::trim).collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}
