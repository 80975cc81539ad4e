//! `portolan proxy`.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::IpNet;

use dataplane::Dataplane;
use dataplane::iptables::{self, IptablesDataplane};
use dataplane::nftables::{self, NftablesDataplane};
use plan::PodDetection;
use proxy::{NodePortSelection, PodSelection};

use super::{ClientFlags, Failure, runtime};
use crate::flags::{BadValue, at_most_one_a_family, cidr, duration};

/// Flags of `portolan proxy`; names and defaults are kube-proxy's (KPF).
#[derive(Debug, Args)]
pub struct Flags {
    #[command(flatten)]
    client: ClientFlags,
    #[command(flatten)]
    node: NodeFlags,
    /// Take all of Portolan's rules out of the kernel and end
    #[arg(long)]
    cleanup: bool,
}

/// Flags that concern this node's dataplane.
#[derive(Clone, Debug, Args)]
pub struct NodeFlags {
    /// Name of this Node; the host's name if not given
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
    /// How Services are put into the kernel
    #[arg(long, default_value = "nftables", value_name = "MODE")]
    pub proxy_mode: Mode,
    /// Ranges of Pod addresses, one a family: who is not in them is masqueraded towards cluster IPs
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    pub cluster_cidr: Vec<IpNet>,
    /// Addresses on which node ports answer: `primary`, the Node's own, or those in a list of CIDRs; if not given,
    /// `primary` in mode nftables and all in mode iptables
    #[arg(long, value_name = "CIDRs")]
    pub nodeport_addresses: Option<NodePortSelection>,
    /// Masquerade everything that goes to a cluster IP
    #[arg(long)]
    pub masquerade_all: bool,
    #[command(flatten)]
    pub iptables: IptablesFlags,
    /// Address that overrides the Node's primary one; nothing listens on it
    #[arg(long, default_value = "0.0.0.0", value_name = "ADDRESS")]
    pub bind_address: IpAddr,
    /// Where /healthz and /livez are served; empty for nowhere
    #[arg(long, default_value = "0.0.0.0:10256", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    pub healthz_bind_address: OptionalAddress,
    /// Where /metrics is served; empty for nowhere
    #[arg(long, default_value = "127.0.0.1:10249", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    pub metrics_bind_address: OptionalAddress,
}

/// Flags that only mode iptables looks at.
#[derive(Clone, Debug, Args)]
pub struct IptablesFlags {
    /// Bit of the packet mark that says that a packet is to be masqueraded
    #[arg(long, default_value_t = 14, value_name = "BIT", value_parser = clap::value_parser!(u8).range(0..=31))]
    pub iptables_masquerade_bit: u8,
    /// How often it is checked that the rules are there
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = duration)]
    pub iptables_sync_period: Duration,
    /// Shortest pause between two changes of the rules
    #[arg(long, default_value = "1s", value_name = "DURATION", value_parser = duration)]
    pub iptables_min_sync_period: Duration,
    /// Whether node ports answer on IPv4 loopback addresses too
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          action = clap::ArgAction::Set, value_name = "BOOL")]
    pub iptables_localhost_nodeports: bool,
}

impl IptablesFlags {
    fn options(&self) -> iptables::Options {
        iptables::Options {
            masquerade_bit: self.iptables_masquerade_bit,
            localhost_node_ports: self.iptables_localhost_nodeports,
            ..iptables::Options::default()
        }
    }

    fn check(&self) -> Result<(), BadValue> {
        if self.iptables_sync_period.is_zero() || self.iptables_min_sync_period > self.iptables_sync_period {
            return Err(BadValue(
                "--iptables-sync-period must be above 0, and not below --iptables-min-sync-period".to_owned(),
            ));
        }
        Ok(())
    }
}

/// A way to put Services into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// nftables, by netlink
    Nftables,
    /// iptables, by iptables-restore, in kube-proxy's chains
    Iptables,
}

impl Mode {
    /// Its name, as flags and `/proxyMode` have it.
    fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        }
    }
}

/// An address to listen on, or none.
#[derive(Clone, Copy, Debug)]
pub struct OptionalAddress(pub Option<SocketAddr>);

fn optional_address(text: &str) -> Result<OptionalAddress, String> {
    if text.is_empty() {
        return Ok(OptionalAddress(None));
    }
    let address = text
        .parse()
        .map_err(|_| format!("{text:?} is not ADDRESS:PORT; an example is 0.0.0.0:10256"))?;
    Ok(OptionalAddress(Some(address)))
}

impl NodeFlags {
    /// This Node's name.
    pub fn node_name(&self) -> String {
        let given = self
            .hostname_override
            .as_ref()
            .map(|name| name.trim().to_ascii_lowercase());
        given
            .filter(|name| !name.is_empty())
            .unwrap_or_else(crate::flags::host_name)
    }

    /// What the node process is told.
    pub fn config(&self) -> Result<proxy::Config, Failure> {
        if !self.cluster_cidr.is_empty() {
            at_most_one_a_family(&self.cluster_cidr, "--cluster-cidr")?;
        }
        let defaults = proxy::Config::default();
        let (repair_period, min_sync_period) = match self.proxy_mode {
            Mode::Nftables => (defaults.repair_period, defaults.min_sync_period),
            Mode::Iptables => {
                self.iptables.check()?;
                (
                    self.iptables.iptables_sync_period,
                    self.iptables.iptables_min_sync_period,
                )
            }
        };
        let node_ports = self.nodeport_addresses.clone();
        Ok(proxy::Config {
            node_name: self.node_name(),
            pods: PodSelection::Given(PodDetection::Ranges(self.cluster_cidr.clone())),
            node_port_addresses: node_ports.unwrap_or(match self.proxy_mode {
                Mode::Nftables => NodePortSelection::Primary,
                Mode::Iptables => NodePortSelection::All,
            }),
            masquerade_all: self.masquerade_all,
            bind_address: self.bind_address,
            healthz_bind_address: self.healthz_bind_address.0,
            metrics_bind_address: self.metrics_bind_address.0,
            proxy_mode: self.proxy_mode.name().to_owned(),
            repair_period,
            min_sync_period,
            ..defaults
        })
    }
}

/// Keeps Services in force until a signal asks to end; they stay in force then.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    if flags.cleanup {
        return clean_up();
    }
    let config = flags.node.config()?;
    match flags.node.proxy_mode {
        Mode::Nftables => {
            let options = nftables::Options::default();
            keep(&flags, config, NftablesDataplane::open(options)?)
        }
        Mode::Iptables => {
            let options = flags.node.iptables.options();
            keep(&flags, config, IptablesDataplane::open(options)?)
        }
    }
}

fn keep<D: Dataplane + Send + 'static>(
    flags: &Flags,
    config: proxy::Config,
    dataplane: D,
) -> Result<ExitCode, Failure> {
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = flags.client.client()?;
        proxy::run(config, client, dataplane, crate::signal::asked_to_end()).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Takes the rules of all modes out of the kernel.
fn clean_up() -> Result<ExitCode, Failure> {
    let in_nftables = NftablesDataplane::open(nftables::Options::default())?.cleanup()?;
    let in_iptables = IptablesDataplane::cleanup()?;
    tracing::info!(
        "{}",
        match in_nftables || in_iptables {
            true => "the rules are gone",
            false => "there were no rules",
        }
    );
    Ok(ExitCode::SUCCESS)
}
