//! Pod network between nodes.

use clap::{Args, ValueEnum};
use routes::Network;

/// Flags of the Pod network between nodes.
#[derive(Clone, Debug, Args)]
pub(crate) struct NetworkFlags {
    /// Routing of Pod traffic between nodes: host-gw (nodes on one network segment), vxlan, or none
    #[arg(
        long,
        default_value = "host-gw",
        value_name = "MODE",
        hide_possible_values = true
    )]
    network: NetworkMode,
    /// VXLAN network identifier, 1 to 16777215
    #[arg(long, default_value_t = 4096, value_name = "ID", value_parser = clap::value_parser!(u32).range(1..1 << 24))]
    vxlan_id: u32,
    /// UDP port of VXLAN
    #[arg(long, default_value_t = 4789, value_name = "PORT")]
    vxlan_port: u16,
}

/// Routing of Pod traffic between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NetworkMode {
    /// Routes to the other nodes, which are on one network segment
    HostGw,
    /// Encapsulation in UDP, through any network
    Vxlan,
    /// Routing by other means
    None,
}

impl NetworkFlags {
    /// Returns the network of the flags.
    pub(crate) fn network(&self) -> Network {
        match self.network {
            NetworkMode::HostGw => Network::HostGw,
            NetworkMode::Vxlan => Network::Vxlan {
                id: self.vxlan_id,
                port: self.vxlan_port,
            },
            NetworkMode::None => Network::None,
        }
    }
}
