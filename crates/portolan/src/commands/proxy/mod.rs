//! `portolan proxy`, in the place of kube-proxy: its flags, its configuration file.
//!
//! Flags and file say the same things, and are made into one [`Configuration`]; that is checked, and the node
//! process told what it needs of it.

mod configuration;
mod duration;
mod file;
mod flags;
mod gates;
mod status;
mod validation;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use dataplane::Dataplane;
use dataplane::iptables::{self, IptablesDataplane};
use dataplane::nftables::{self, NftablesDataplane};
use dataplane::userspace::{self, UserspaceDataplane};
use tokio::sync::watch;

use super::{ClientFlags, Failure, runtime};
use crate::flags::BadValue;
use configuration::Configuration;
use flags::ProxyFlags;

pub use flags::NodeFlags;
pub use gates::Gates;

/// How often the configuration file is looked at.
const FILE_PERIOD: Duration = Duration::from_secs(2);

/// Flags of `portolan proxy`; names and defaults are kube-proxy's (KPF).
#[derive(Debug, Args)]
pub struct Flags {
    #[command(flatten)]
    client: ClientFlags,
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    proxy: ProxyFlags,
    #[command(subcommand)]
    action: Option<Action>,
}

/// What else there is to do about a node's proxy.
#[derive(Debug, Subcommand)]
enum Action {
    /// Ask the proxy that runs on this machine how it is
    Status(status::Flags),
}

/// A way to put Services into the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// nftables, by netlink
    #[default]
    Nftables,
    /// iptables, by iptables-restore, in kube-proxy's chains
    Iptables,
    /// This process passes connections on itself: an endpoint that does not answer is replaced, but all of them see
    /// this node's address
    Userspace,
}

impl Mode {
    /// All names, for messages.
    pub const NAMES: &str = "nftables, iptables, userspace";

    /// Its name, as `/proxyMode` tells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Userspace => "userspace",
        }
    }

    /// The mode of that name.
    fn named(name: &str) -> Option<Self> {
        <Self as ValueEnum>::from_str(name, false).ok()
    }
}

impl NodeFlags {
    /// What the node process is told where there are no other flags.
    pub fn config(&self) -> Result<proxy::Config, Failure> {
        let mut configuration = Configuration::default();
        self.write(&mut configuration);
        configuration.complete_ports();
        let (_, config) = validation::check(&configuration)?;
        warn_of_gates(&self.feature_gates.without_effect_on_machines());
        Ok(proxy::Config {
            conntrack: proxy::ConntrackSettings::default(),
            oom_score_adj: None,
            takes_over: false,
            ..config
        })
    }
}

impl Flags {
    /// What flags and file say together.
    fn configuration(&self) -> Result<Configuration, Failure> {
        let mut configuration = Configuration::default();
        match &self.proxy.config {
            Some(path) => configuration = read(path)?,
            None => {
                self.node.write(&mut configuration);
                self.proxy.write(&mut configuration);
            }
        }
        if let Some(name) = &self.node.hostname_override {
            configuration.hostname_override.clone_from(name);
        }
        Ok(configuration)
    }

    /// How the API server is reached (KPF-06).
    fn connection(&self, configuration: &Configuration) -> Result<client::Config, client::ConfigError> {
        let named = ClientFlags {
            kubeconfig: self
                .client
                .kubeconfig
                .clone()
                .or_else(|| configuration.kubeconfig()),
        };
        let Some(master) = &self.proxy.master else {
            return named.config();
        };
        let credentials = match named.kubeconfig {
            Some(_) => named.config()?,
            None => client::Config::default(),
        };
        Ok(client::Config {
            server: master.clone(),
            further_servers: Vec::new(),
            ..credentials
        })
    }
}

fn warn_of_gates(gates: &[&str]) {
    if !gates.is_empty() {
        tracing::warn!(gates = gates.join(", "), "feature gates without effect here");
    }
}

/// Keeps Services in force until a signal asks to end; they stay in force then.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    if let Some(Action::Status(flags)) = flags.action {
        return status::run(&flags);
    }
    for flag in flags.proxy.without_effect() {
        tracing::warn!("{flag} has no effect here");
    }
    warn_of_gates(&flags.node.feature_gates.without_effect());
    if flags.proxy.cleanup {
        return cleanup();
    }
    let configuration = flags.configuration()?;
    if let Some(path) = &flags.proxy.write_config_to {
        validation::check(&configuration)?;
        std::fs::write(path, file::render(&configuration)?)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        tracing::info!(path = %path.display(), "the configuration is written");
        return Ok(ExitCode::SUCCESS);
    }
    let (mode, config) = validation::check(&configuration)?;
    let config = proxy::Config {
        pages: gates::pages(&configuration, std::env::args_os()),
        ..config
    };
    for doubt in validation::doubts(&configuration, mode) {
        tracing::error!("{doubt}");
    }
    proxy::set_up_machine(&config);
    if flags.proxy.init_only {
        return Ok(ExitCode::SUCCESS);
    }
    match mode {
        Mode::Nftables => {
            let options = nftables::Options::default();
            keep(&flags, &configuration, config, NftablesDataplane::open(options)?)
        }
        Mode::Iptables => {
            let options = iptables::Options {
                masquerade_bit: u8::try_from(configuration.iptables.masquerade_bit)?,
                ..iptables::Options::default()
            };
            keep(&flags, &configuration, config, IptablesDataplane::open(options)?)
        }
        Mode::Userspace => {
            let options = userspace::Options::default();
            keep(&flags, &configuration, config, UserspaceDataplane::open(options)?)
        }
    }
}

fn keep<D: Dataplane + Send + 'static>(
    flags: &Flags,
    configuration: &Configuration,
    config: proxy::Config,
    dataplane: D,
) -> Result<ExitCode, Failure> {
    let connection = flags.connection(configuration)?;
    runtime(2)?.block_on(async {
        let client = client::Client::new(connection)?.named("portolan-proxy");
        let (changes, configs) = watch::channel(config);
        if let Some(path) = flags.proxy.config.clone() {
            let name = flags.node.hostname_override.clone();
            tokio::spawn(follow(path, name, changes));
        }
        proxy::run_reloading(configs, client, dataplane, crate::signal::asked_to_end()).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Takes the rules of all modes away, ours and kube-proxy's.
fn cleanup() -> Result<ExitCode, Failure> {
    // Only opening tells whether this is permitted.
    NftablesDataplane::open(nftables::Options::default())?;
    let found = proxy::remove_leftovers(None);
    match found.is_empty() {
        true => tracing::info!("there were no rules"),
        false => tracing::info!("removed: {}", found.join(", ")),
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Configuration, Failure> {
    let (configuration, warnings) = file::load(path).map_err(|error| BadValue(error.to_string()))?;
    for warning in warnings {
        tracing::warn!(path = %path.display(), "{warning}");
    }
    Ok(configuration)
}

/// Reads the file again and again, and tells when it says something else. A file that cannot be used is said in
/// the log, once, and what was in force stays.
async fn follow(path: PathBuf, hostname_override: Option<String>, changes: watch::Sender<proxy::Config>) {
    let mut known = std::fs::read(&path).ok();
    loop {
        tokio::time::sleep(FILE_PERIOD).await;
        let now = std::fs::read(&path).ok();
        if now == known {
            continue;
        }
        known = now;
        let checked = read(&path).and_then(|mut configuration| {
            if let Some(name) = &hostname_override {
                configuration.hostname_override.clone_from(name);
            }
            Ok(validation::check(&configuration)?)
        });
        match checked {
            Ok((_, config)) => {
                changes.send_if_modified(|before| {
                    // Taking over is done at the start, and so are pages opened.
                    let config = proxy::Config {
                        takes_over: before.takes_over,
                        pages: before.pages.clone(),
                        ..config
                    };
                    let is_other = *before != config;
                    *before = config;
                    is_other
                });
            }
            Err(error) => {
                tracing::error!(%error, "the changed configuration cannot be used, what was in force stays")
            }
        }
    }
}

#[cfg(test)]
mod tests;
