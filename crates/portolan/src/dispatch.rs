//! The call of the selected subcommand.

use std::process::ExitCode;

use crate::cli::{self, Command};
use crate::commands::{
    agent, apiserver, backend, balancer, chart, completions, controllers, dns, doctor, down, env, explain,
    flows, image, join, kubeconfig, leave, man, manifests, plan, playground, proxy, service, status, store,
    token, top, trace, up, version,
};
use crate::error::CommandError;

/// Runs a subcommand until it ends.
///
/// # Errors
///
/// The error of the subcommand.
pub(crate) fn run(command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Up(flags) => up::run(*flags),
        Command::Join(flags) => join::run(*flags),
        Command::Leave(flags) => leave::run(&flags),
        Command::Down(flags) => down::run(&flags),
        Command::Token(command) => token::run(&command),
        Command::Status(flags) => status::run(&flags),
        Command::Service(command) => service::run(&command),
        Command::Playground(flags) => playground::run(flags),
        Command::Apiserver(flags) => apiserver::run(flags),
        Command::Controllers(flags) => controllers::run(flags),
        Command::Balancer(flags) => balancer::run(&flags),
        Command::Proxy(flags) => proxy::run(*flags, cli::command()),
        Command::Dns(flags) => dns::run(*flags),
        Command::Agent(flags) => agent::run(flags),
        Command::Backend(command) => backend::run(&command),
        Command::Image(command) => image::run(&command),
        Command::Store(flags) => store::run(flags),
        Command::Kubeconfig(flags) => kubeconfig::run(&flags),
        Command::Doctor(flags) => doctor::run(&flags),
        Command::Chart(flags) => chart::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::Trace(flags) => trace::run(&flags),
        Command::Top(command) => top::run(&command),
        Command::Flows(flags) => flows::run(&flags),
        Command::Plan(flags) => plan::run(&flags),
        Command::Env(flags) => env::run(&flags),
        Command::Completions(flags) => completions::run(&flags, cli::command()),
        Command::Man(flags) => man::run(&flags, cli::command()),
        Command::Manifests(flags) => manifests::run(&flags),
        Command::Version => Ok(version::run()),
    }
}
