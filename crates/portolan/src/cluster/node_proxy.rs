//! The proxy of a node in `portolan up` and `portolan join`, in the mode of `--proxy-mode`.

use client::Client;
use dataplane::ebpf::{self, EbpfDataplane};
use dataplane::iptables::{self, IptablesDataplane};
use dataplane::ipvs::{self, IpvsDataplane};
use dataplane::nftables::{self, NftablesDataplane};
use dataplane::userspace::{self, UserspaceDataplane};
use dataplane::{Dataplane, DataplaneError};
use proxy::PlanReader;
use proxy::configuration::Mode;

use super::supervisor::Supervisor;
use crate::error::CommandError;
use crate::{rlimit, shutdown};

/// The proxy of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeProxy {
    /// Interface that implements Services.
    pub mode: Mode,
    /// Settings, with the defaults of the mode.
    pub config: proxy::Config,
    /// Options of eBPF mode.
    pub ebpf: ebpf::Options,
    /// Options of IPVS mode.
    pub ipvs: ipvs::Options,
}

/// Checks that a mode works on this host: privileges, kernel and programs.
///
/// # Errors
///
/// An error that names the mode and the missing part.
pub(crate) fn check_mode(mode: Mode) -> Result<(), CommandError> {
    let opened = match mode {
        // Without eBPF or IPVS these modes run with the rules of nftables, and report it.
        Mode::Nftables | Mode::Ebpf | Mode::Ipvs => open_nftables().map(drop),
        Mode::Iptables => open_iptables().map(drop),
        Mode::Userspace => open_userspace().map(drop),
    };
    match opened {
        Ok(()) => Ok(()),
        Err(error @ DataplaneError::NotPermitted) => {
            Err(format!("{error}; without root, try `portolan playground`").into())
        }
        Err(error) => Err(format!("--proxy-mode={} does not work on this host: {error}", mode.name()).into()),
    }
}

impl NodeProxy {
    /// Starts the proxy. It publishes its plan to `plan`.
    pub(crate) fn start(self, supervisor: &mut Supervisor, client: Client, plan: PlanReader) {
        let shutdown = supervisor.shutdown();
        proxy::set_up_host(&self.config);
        // The agent, the health checks and the listeners of userspace mode share the limit. The usual one is 1,024.
        rlimit::raise_open_files();
        supervisor.spawn("proxy", move || {
            let (node, client, plan) = (self.clone(), client.clone(), plan.clone());
            let shutdown = shutdown::wait_for_request(shutdown.clone());
            async move {
                match node.mode {
                    Mode::Nftables => serve(node.config, client, open_nftables()?, &plan, shutdown).await,
                    Mode::Iptables => serve(node.config, client, open_iptables()?, &plan, shutdown).await,
                    Mode::Ebpf => {
                        let dataplane = EbpfDataplane::open(node.ebpf)?;
                        serve(node.config, client, dataplane, &plan, shutdown).await
                    }
                    Mode::Ipvs => {
                        let dataplane = IpvsDataplane::open(node.ipvs)?;
                        serve(node.config, client, dataplane, &plan, shutdown).await
                    }
                    Mode::Userspace => serve(node.config, client, open_userspace()?, &plan, shutdown).await,
                }
            }
        });
    }
}

fn open_nftables() -> Result<NftablesDataplane, DataplaneError> {
    NftablesDataplane::open(nftables::Options::default())
}

fn open_iptables() -> Result<IptablesDataplane, DataplaneError> {
    IptablesDataplane::open(iptables::Options::default())
}

fn open_userspace() -> Result<UserspaceDataplane, DataplaneError> {
    UserspaceDataplane::open(userspace::Options::default())
}

async fn serve<D: Dataplane + Send + 'static>(
    config: proxy::Config,
    client: Client,
    dataplane: D,
    plan: &PlanReader,
    shutdown: impl Future<Output = ()>,
) -> Result<(), CommandError> {
    Ok(proxy::run_readable(config, client, dataplane, plan, shutdown).await?)
}
