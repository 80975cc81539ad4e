//! The command line: subcommands, their groups in `--help`, and global flags.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands;
use crate::logging::LogFlags;
use crate::output;

/// Heading of the flags that each subcommand has.
const GLOBAL_FLAGS: &str = "Global flags";
/// Groups of subcommands in `portolan --help`, in their order.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Run a cluster",
        &["up", "join", "leave", "down", "token", "service", "playground"],
    ),
    (
        "Run one component",
        &["apiserver", "controllers", "balancer", "proxy", "dns", "agent"],
    ),
    (
        "Administer",
        &["manifests", "backend", "image", "store", "kubeconfig"],
    ),
    (
        "Inspect",
        &[
            "doctor", "chart", "explain", "trace", "top", "flows", "status", "plan", "env",
        ],
    ),
    ("Other commands", &["completions", "man", "version"]),
];

/// Implement and diagnose Kubernetes Services in one binary.
#[derive(Debug, Parser)]
#[command(
    name = "portolan",
    version,
    propagate_version = true,
    max_term_width = 110,
    disable_help_flag = true,
    disable_version_flag = true
)]
pub(crate) struct Cli {
    /// Subcommand to run.
    #[command(subcommand)]
    pub command: Command,
    /// Flags of all subcommands.
    #[command(flatten)]
    pub global: GlobalFlags,
}

/// Flags that each subcommand has.
#[derive(Debug, Args)]
#[command(next_help_heading = GLOBAL_FLAGS)]
pub(crate) struct GlobalFlags {
    /// Flags of the log.
    #[command(flatten)]
    pub log: LogFlags,
    /// Print help
    #[arg(long, short, global = true, action = ArgAction::HelpShort)]
    help: Option<bool>,
    /// Print the version
    #[arg(long, short = 'V', global = true, action = ArgAction::Version)]
    version: Option<bool>,
}

/// Subcommands, in the order of [`GROUPS`].
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a cluster on this host: API server, controllers, proxy, DNS, load balancing and agent
    Up(Box<commands::up::Flags>),
    /// Add this host as a node to a cluster that `portolan up` runs
    Join(Box<commands::join::Flags>),
    /// Drain this node and remove it from its cluster
    Leave(commands::leave::Flags),
    /// Remove everything that `portolan up` or `portolan join` left on this host: Pods, rules, links and routes
    Down(commands::down::Flags),
    /// Create, list and revoke the tokens with which nodes join
    #[command(subcommand)]
    Token(commands::token::Command),
    /// Run `portolan up` or `portolan join` as a systemd service
    #[command(subcommand)]
    Service(commands::service::Command),
    /// Run a cluster in network namespaces of this host and check the examples
    Playground(commands::playground::Flags),
    /// Serve the Kubernetes API
    Apiserver(commands::apiserver::Flags),
    /// Run the controllers: EndpointSlices, Endpoints, Deployments, scheduler, Nodes and others
    Controllers(commands::controllers::Flags),
    /// Assign, announce and serve the addresses of Services of type LoadBalancer
    Balancer(commands::balancer::Flags),
    /// Implement Services in the kernel of this node (replaces kube-proxy)
    Proxy(Box<commands::proxy::Flags>),
    /// Serve cluster DNS (replaces CoreDNS)
    Dns(Box<commands::dns::Flags>),
    /// Run the Pods of this node as processes
    Agent(commands::agent::Flags),
    /// Print the manifests that install components in a Kubernetes cluster
    Manifests(Box<commands::manifests::Flags>),
    /// Add, list and remove non-Pod backends of a Service, with health checks
    #[command(subcommand)]
    Backend(commands::backend::Command),
    /// Pull, load, list and remove the container images of this host
    #[command(subcommand)]
    Image(commands::image::Command),
    /// Copy, snapshot, restore, verify and re-encrypt the data of the API server
    Store(commands::store::Flags),
    /// Print the kubeconfig of a component or user, or edit the kubeconfig of kubectl
    Kubeconfig(commands::kubeconfig::Flags),
    /// Diagnose Services that do not respond, in a cluster or in files
    Doctor(commands::doctor::Flags),
    /// Serve a map of the Services, endpoints and nodes of a cluster as a web page, or draw it
    Chart(Box<commands::chart::Flags>),
    /// Print the documentation of a finding of `portolan doctor`
    Explain(commands::explain::Flags),
    /// Show the path of a connection from its client to the endpoints, in a cluster or in files
    Trace(Box<commands::trace::Flags>),
    /// Show connections, rates, bytes and failures of Services, endpoints and clients, once or with --watch
    #[command(subcommand)]
    Top(Box<commands::top::Command>),
    /// List the connections and UDP flows of Services
    Flows(Box<commands::flows::Flags>),
    /// Show the health of each component of `portolan up` or `portolan join`
    Status(commands::status::Flags),
    /// Compute the proxy decisions of a node from a file, without a cluster
    Plan(commands::plan::Flags),
    /// Print the environment variables of the containers of a Pod, with their sources
    Env(commands::env::Flags),
    /// Print shell completions
    Completions(commands::completions::Flags),
    /// Write the manual pages
    Man(commands::man::Flags),
    /// Print the version
    Version,
}

/// Returns the definition of the command line, with the subcommands in groups.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let heading = command.get_styles().get_header();
    let groups = GROUPS.map(|(title, names)| {
        let lines = names.iter().filter_map(|name| {
            let about = command.find_subcommand(name)?.get_about()?;
            Some(format!("  {name:<13}{about}\n"))
        });
        format!("{heading}{title}:{heading:#}\n{}\n", lines.collect::<String>())
    });
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{heading}{GLOBAL_FLAGS}:{heading:#}\n{{options}}\n\n\
         Use `portolan COMMAND --help` for the flags of a command.",
        groups.concat()
    );
    command.help_template(template)
}

/// Parses the command line of this process. Prints help and version to standard output, and errors as one line.
///
/// # Errors
///
/// The exit code of the process if no subcommand is to run.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    let matches = command().try_get_matches();
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    cli.map_err(|error| {
        if !error.use_stderr() {
            output::print(&error.to_string());
            return ExitCode::SUCCESS;
        }
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            eprint!("{error}");
        } else {
            eprintln!("portolan: {} ({})", one_line(&error.to_string()), help_hint());
        }
        ExitCode::from(crate::EXIT_USAGE)
    })
}

/// Returns the hint at the help of the subcommand that this process was started with.
pub(crate) fn help_hint() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("see {} --help", subcommand_path(&command(), &arguments))
}

/// Returns the names of the program and of the subcommands at the start of its arguments.
fn subcommand_path(command: &clap::Command, arguments: &[String]) -> String {
    let mut path = command.get_name().to_owned();
    let mut at = command;
    for argument in arguments.iter().filter(|argument| !argument.starts_with('-')) {
        let Some(subcommand) = at.find_subcommand(argument) else {
            break;
        };
        path.push_str(&format!(" {}", subcommand.get_name()));
        at = subcommand;
    }
    path
}

/// Returns the message of an error and its tips as one line, without the usage after the first empty line.
pub(crate) fn one_line(error: &str) -> String {
    let message = error.lines().take_while(|line| !line.is_empty());
    let line = message.map(str::trim).collect::<Vec<_>>().join(" ");
    let message = line.strip_prefix("error: ").unwrap_or(&line);
    let tips = error.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
    // The tip to quote a value with `--` rarely helps.
    let tips = tips.filter(|tip| tip.contains("similar"));
    std::iter::once(message)
        .chain(tips)
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests;
