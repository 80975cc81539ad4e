//! One module a subcommand: its flags, and how it is put together from the crates.

pub mod access;
pub mod administrator;
pub mod agent;
pub mod apiserver;
mod audit;
pub mod backend;
pub mod balancer;
pub mod cluster;
pub mod controllers;
pub mod dns;
mod election;
pub mod env;
pub mod join;
pub mod kubeconfig;
pub mod leave;
pub mod load_balancer;
pub mod machine;
pub mod page;
pub mod plan;
pub mod playground;
pub mod pod_ranges;
pub mod proxy;
pub mod reference;
pub mod service;
pub mod status;
pub mod store;
pub mod token;
pub mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::cli::Command;

/// What a subcommand ends with if it does not end well: a chain of causes for people.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a subcommand to its end.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Up(flags) => up::run(*flags),
        Command::Join(flags) => join::run(*flags),
        Command::Leave(flags) => leave::run(&flags),
        Command::Token(command) => token::run(&command),
        Command::Playground(flags) => playground::run(flags),
        Command::Apiserver(flags) => apiserver::run(flags),
        Command::Controllers(flags) => controllers::run(flags),
        Command::Balancer(flags) => balancer::run(&flags),
        Command::Proxy(flags) => proxy::run(*flags),
        Command::Plan(flags) => plan::run(&flags),
        Command::Dns(flags) => dns::run(*flags),
        Command::Agent(flags) => agent::run(flags),
        Command::Status(flags) => status::run(&flags),
        Command::Service(command) => service::run(&command),
        Command::Completions(flags) => reference::completions(&flags),
        Command::Man(flags) => reference::manual(&flags),
        Command::Backend(command) => backend::run(&command),
        Command::Env(flags) => env::run(&flags),
        Command::Store(flags) => store::run(flags),
        Command::Kubeconfig(flags) => kubeconfig::run(&flags),
        Command::Version => {
            crate::cli::say(concat!("portolan ", env!("CARGO_PKG_VERSION"), "\n"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Where the API server is; shared by everything that is a client of it.
#[derive(Clone, Debug, Args)]
pub struct ClientFlags {
    /// kubeconfig file with the API server's address and our credentials; without it, the credentials
    /// that Kubernetes gives a Pod are used
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

impl ClientFlags {
    /// A client for that API server.
    pub fn client(&self) -> Result<client::Client, client::ConfigError> {
        client::Client::new(self.config()?)
    }

    /// How it is reached, and as whom.
    pub fn config(&self) -> Result<client::Config, client::ConfigError> {
        match &self.kubeconfig {
            Some(path) => client::Config::from_kubeconfig(path),
            None => client::Config::in_cluster(),
        }
    }
}

/// The threads that a component works on: two are enough for everything but the API server.
pub fn runtime(worker_threads: usize) -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_threads)
        .enable_all()
        .build()
}
