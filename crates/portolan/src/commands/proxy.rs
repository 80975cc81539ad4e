//! `portolan proxy`.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use ipnet::IpNet;

use dataplane::nftables::{NftablesDataplane, Options};
use plan::PodDetection;
use proxy::{NodePortSelection, PodSelection};

use super::{ClientFlags, Failure, runtime};
use crate::flags::{at_most_one_a_family, cidr};

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
    /// Addresses on which node ports answer: `primary`, the Node's own, or those in a list of CIDRs
    #[arg(long, default_value = "primary", value_name = "CIDRs")]
    pub nodeport_addresses: NodePortSelection,
    /// Masquerade everything that goes to a cluster IP
    #[arg(long)]
    pub masquerade_all: bool,
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

/// A way to put Services into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// nftables, by netlink
    Nftables,
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
        Ok(proxy::Config {
            node_name: self.node_name(),
            pods: PodSelection::Given(PodDetection::Ranges(self.cluster_cidr.clone())),
            node_port_addresses: self.nodeport_addresses.clone(),
            masquerade_all: self.masquerade_all,
            bind_address: self.bind_address,
            healthz_bind_address: self.healthz_bind_address.0,
            metrics_bind_address: self.metrics_bind_address.0,
            proxy_mode: "nftables".to_owned(),
            ..proxy::Config::default()
        })
    }
}

/// Keeps Services in force until a signal asks to end; they stay in force then.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    if flags.cleanup {
        let found = NftablesDataplane::open(Options::default())?.cleanup()?;
        tracing::info!(
            "{}",
            if found {
                "the rules are gone"
            } else {
                "there were no rules"
            }
        );
        return Ok(ExitCode::SUCCESS);
    }
    let config = flags.node.config()?;
    let Mode::Nftables = flags.node.proxy_mode;
    let dataplane = NftablesDataplane::open(Options::default())?;
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = flags.client.client()?;
        proxy::run(config, client, dataplane, crate::signal::asked_to_end()).await?;
        Ok(ExitCode::SUCCESS)
    })
}
