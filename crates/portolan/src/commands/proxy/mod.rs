//! `portolan proxy`, a replacement of kube-proxy: its flags, and the assembly of the node process.
//!
//! Flags and the configuration file fill the same [`KubeProxyConfiguration`]. The `proxy` crate validates it.

mod flags;
mod pages;
mod status;

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use dataplane::Dataplane;
use dataplane::iptables::{self, IptablesDataplane};
use dataplane::nftables::{self, NftablesDataplane};
use dataplane::userspace::{self, UserspaceDataplane};
use proxy::configuration::{KubeProxyConfiguration, Mode, load, render, validate, warnings, watch_file};
use tokio::sync::watch;

use super::{ClientFlags, Failure, runtime};
use crate::flags::{BadValue, host_name};
use flags::ProxyFlags;

pub use flags::NodeFlags;

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

/// Subcommands of `portolan proxy`.
#[derive(Debug, Subcommand)]
enum Action {
    /// Show the state of the proxy that runs on this machine
    Status(status::Flags),
}

impl NodeFlags {
    /// Returns the settings of a proxy that has no other flags.
    ///
    /// # Errors
    ///
    /// An error if a flag has an invalid value.
    pub fn config(&self) -> Result<proxy::Config, Failure> {
        let mut configuration = KubeProxyConfiguration::default();
        self.write(&mut configuration);
        configuration.set_default_ports();
        let (_, config) = checked(&configuration)?;
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
    /// Returns the configuration of the file, or else of the flags.
    fn configuration(&self) -> Result<KubeProxyConfiguration, Failure> {
        let mut configuration = KubeProxyConfiguration::default();
        if let Some(path) = &self.proxy.config {
            configuration = read(path)?;
        } else {
            self.node.write(&mut configuration);
            self.proxy.write(&mut configuration);
        }
        if let Some(name) = &self.node.hostname_override {
            configuration.hostname_override.clone_from(name);
        }
        Ok(configuration)
    }

    /// Returns address and credentials for the API server (KPF-06).
    fn connection(
        &self,
        configuration: &KubeProxyConfiguration,
    ) -> Result<client::Config, client::ConfigError> {
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
        tracing::warn!(gates = gates.join(", "), "feature gates without effect");
    }
}

fn checked(configuration: &KubeProxyConfiguration) -> Result<(Mode, proxy::Config), BadValue> {
    validate(configuration, &host_name()).map_err(|error| BadValue(error.to_string()))
}

/// Runs the proxy until a signal requests shutdown. The rules stay in the kernel afterwards.
///
/// # Errors
///
/// An error if a flag or the file is invalid, or if the proxy fails.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    if let Some(Action::Status(flags)) = flags.action {
        return status::run(&flags);
    }
    for flag in flags.proxy.without_effect() {
        tracing::warn!(flag, "flag without effect");
    }
    warn_of_gates(&flags.node.feature_gates.without_effect());
    if flags.proxy.cleanup {
        return cleanup();
    }
    let configuration = flags.configuration()?;
    if let Some(path) = &flags.proxy.write_config_to {
        checked(&configuration)?;
        std::fs::write(path, render(&configuration)?)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        tracing::info!(path = %path.display(), "configuration written");
        return Ok(ExitCode::SUCCESS);
    }
    let (mode, config) = checked(&configuration)?;
    let config = proxy::Config {
        pages: pages::pages(&configuration, std::env::args_os()),
        ..config
    };
    for warning in warnings(&configuration, mode) {
        tracing::error!("{warning}");
    }
    proxy::set_up_machine(&config);
    if flags.proxy.init_only {
        return Ok(ExitCode::SUCCESS);
    }
    match mode {
        Mode::Nftables => {
            let options = nftables::Options::default();
            serve(&flags, &configuration, config, NftablesDataplane::open(options)?)
        }
        Mode::Iptables => {
            let options = iptables::Options {
                masquerade_bit: u8::try_from(configuration.iptables.masquerade_bit)?,
                ..iptables::Options::default()
            };
            serve(&flags, &configuration, config, IptablesDataplane::open(options)?)
        }
        Mode::Userspace => {
            crate::rlimit::raise_open_files();
            let options = userspace::Options::default();
            serve(&flags, &configuration, config, UserspaceDataplane::open(options)?)
        }
    }
}

fn serve<D: Dataplane + Send + 'static>(
    flags: &Flags,
    configuration: &KubeProxyConfiguration,
    config: proxy::Config,
    dataplane: D,
) -> Result<ExitCode, Failure> {
    let connection = flags.connection(configuration)?;
    runtime(2)?.block_on(async {
        let client = client::Client::new(connection)?.named("portolan-proxy");
        let (sender, configs) = watch::channel(config);
        if let Some(path) = flags.proxy.config.clone() {
            let hostname_override = flags.node.hostname_override.clone();
            tokio::spawn(watch_file(path, hostname_override, host_name(), sender));
        }
        proxy::run_reloading(configs, client, dataplane, crate::signal::asked_to_end()).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Removes the rules of all modes, Portolan's and kube-proxy's.
fn cleanup() -> Result<ExitCode, Failure> {
    // Only opening the dataplane shows missing privileges.
    NftablesDataplane::open(nftables::Options::default())?;
    let removed = proxy::remove_leftovers(None);
    if removed.is_empty() {
        tracing::info!("no rules to remove");
    } else {
        tracing::info!(removed = removed.join(", "), "rules removed");
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<KubeProxyConfiguration, Failure> {
    let (configuration, warnings) = load(path).map_err(|error| BadValue(error.to_string()))?;
    for warning in warnings {
        tracing::warn!(path = %path.display(), "{warning}");
    }
    Ok(configuration)
}

#[cfg(test)]
mod tests;
