//! `portolan proxy`, a replacement of kube-proxy: its flags, and the assembly of the node process.
//!
//! Flags and the configuration file fill the same [`KubeProxyConfiguration`]. The `proxy` crate validates it.

mod debug_pages;
mod flags;
mod status;

use std::path::Path;
use std::process::ExitCode;

use agent::network::host_ports::{self, HostPortError};
use clap::{Args, Subcommand};
use dataplane::ebpf::EbpfDataplane;
use dataplane::iptables::{self, IptablesDataplane};
use dataplane::ipvs::IpvsDataplane;
use dataplane::nftables::{self, NftablesDataplane};
use dataplane::userspace::{self, UserspaceDataplane};
use dataplane::{Dataplane, DataplaneError};
use proxy::configuration::{KubeProxyConfiguration, Mode, load, render, warnings, watch_file};
use proxy::{InstanceGuard, LeftoverScope};
use tokio::sync::watch;

use crate::error::{CommandError, FileError, UsageError};
use crate::flags::client::ClientFlags;
use crate::flags::ipvs;
use crate::flags::node_proxy::{NodeProxyFlags, mode_and_config, warn_of_gates};
use crate::flags::values::hostname;
use crate::{rlimit, runtime, shutdown};
use flags::ProxyFlags;

/// Flags of `portolan proxy`; names and defaults are kube-proxy's (KPF).
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    client: ClientFlags,
    #[command(flatten)]
    node: NodeProxyFlags,
    #[command(flatten)]
    proxy: ProxyFlags,
    #[command(subcommand)]
    action: Option<Action>,
}

/// Subcommands of `portolan proxy`.
#[derive(Debug, Subcommand)]
enum Action {
    /// Show the state of the proxy on this node
    Status(status::Flags),
}

impl Flags {
    /// Returns the configuration of the file, or else of the flags.
    fn configuration(&self) -> Result<KubeProxyConfiguration, CommandError> {
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

/// Runs the proxy until a signal requests shutdown. The rules stay in the kernel afterwards. `command` is the
/// definition of the command line, for `/flagz`.
///
/// # Errors
///
/// An error if a flag or the file is invalid, or if the proxy fails.
pub(crate) fn run(flags: Flags, command: clap::Command) -> Result<ExitCode, CommandError> {
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
        mode_and_config(&configuration)?;
        std::fs::write(path, render(&configuration)?).map_err(FileError::at(path))?;
        tracing::info!(path = %path.display(), "configuration written");
        return Ok(ExitCode::SUCCESS);
    }
    let (mode, config) = mode_and_config(&configuration)?;
    let config = proxy::Config {
        answers_ping: flags.node.answer_ping,
        xdp_interface: flags.node.xdp_interface.clone(),
        pages: debug_pages::pages(&configuration, command, std::env::args_os()),
        ..config
    };
    for warning in warnings(&configuration, mode) {
        // kube-proxy logs its message "Kube-proxy configuration may be incomplete or incorrect" at this level, too.
        tracing::error!("{warning}");
    }
    proxy::set_up_host(&config);
    if flags.proxy.init_only {
        return Ok(ExitCode::SUCCESS);
    }
    flags.node.warn_of_unused_flags(mode);
    // Health checks of all modes need files. kube-proxy raises its limit, too, because the Go runtime does.
    rlimit::raise_open_files();
    serve_mode(mode, &flags, &configuration, config)
}

/// Opens the data plane of a mode, and runs the proxy.
fn serve_mode(
    mode: Mode,
    flags: &Flags,
    configuration: &KubeProxyConfiguration,
    config: proxy::Config,
) -> Result<ExitCode, CommandError> {
    match mode {
        Mode::Nftables => {
            let options = nftables::Options::default();
            serve(flags, configuration, config, NftablesDataplane::open(options)?)
        }
        Mode::Iptables => {
            let options = iptables::Options {
                masquerade_bit: u8::try_from(configuration.iptables.masquerade_bit)?,
                ..iptables::Options::default()
            };
            serve(flags, configuration, config, IptablesDataplane::open(options)?)
        }
        Mode::Ebpf => {
            let options = flags.node.ebpf();
            serve(flags, configuration, config, EbpfDataplane::open(options)?)
        }
        Mode::Ipvs => {
            let options = ipvs::options(&configuration.ipvs);
            serve(flags, configuration, config, IpvsDataplane::open(options)?)
        }
        Mode::Userspace => {
            let options = userspace::Options::default();
            serve(flags, configuration, config, UserspaceDataplane::open(options)?)
        }
    }
}

fn serve<D: Dataplane + Send + 'static>(
    flags: &Flags,
    configuration: &KubeProxyConfiguration,
    config: proxy::Config,
    dataplane: D,
) -> Result<ExitCode, CommandError> {
    let connection = flags.connection(configuration)?;
    runtime::of_component(2)?.block_on(async {
        let client = client::Client::new(connection)?.named("portolan-proxy");
        let (sender, configs) = watch::channel(config);
        if let Some(path) = flags.proxy.config.clone() {
            let hostname_override = flags.node.hostname_override.clone();
            tokio::spawn(watch_file(path, hostname_override, hostname(), sender));
        }
        proxy::run_reloading(configs, client, dataplane, shutdown::signal_received()).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Removes the rules of all modes, Portolan's and kube-proxy's, and those of host ports.
fn cleanup() -> Result<ExitCode, CommandError> {
    require_privileges()?;
    let runtime = runtime::multi_thread(1)?;
    let _guard = runtime.block_on(InstanceGuard::acquire())?;
    let mut removal = proxy::remove_leftovers(None, LeftoverScope::KubeProxyToo);
    match host_ports::remove_table() {
        Ok(false) => {}
        Ok(true) => removal
            .removed
            .push(format!("nftables table inet {}", host_ports::TABLE)),
        // A kernel without nftables has no such table.
        Err(HostPortError::Open(error)) => tracing::debug!(%error, "nftables not usable"),
        Err(error) => removal.failures.push(error.to_string()),
    }
    if !removal.removed.is_empty() {
        tracing::info!(removed = removal.removed.join(", "), "rules removed");
    } else if removal.failures.is_empty() {
        tracing::info!("no rules to remove");
    }
    if has_virtual_servers() {
        tracing::warn!("virtual servers of other programs not removed; use `ipvsadm --clear`");
    }
    if !removal.failures.is_empty() {
        return Err(format!("not removed: {}", removal.failures.join("; ")).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails without CAP_NET_ADMIN. Only opening a data plane shows that; a kernel without nf_tables has no rules there.
fn require_privileges() -> Result<(), DataplaneError> {
    match NftablesDataplane::open(nftables::Options::default()) {
        Err(DataplaneError::NotPermitted) => Err(DataplaneError::NotPermitted),
        Err(error) => {
            tracing::debug!(%error, "nftables not usable");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Returns true if the kernel has virtual servers of ipvs.
fn has_virtual_servers() -> bool {
    // The first three lines are headers. Without ip_vs there is no such file.
    const HEADER_LINES: usize = 3;
    let table = std::fs::read_to_string("/proc/net/ip_vs").unwrap_or_default();
    table.lines().count() > HEADER_LINES
}

fn read(path: &Path) -> Result<KubeProxyConfiguration, CommandError> {
    let (configuration, warnings) = load(path).map_err(|error| UsageError(error.to_string()))?;
    for warning in warnings {
        tracing::warn!(path = %path.display(), "{warning}");
    }
    Ok(configuration)
}

#[cfg(test)]
mod tests;
