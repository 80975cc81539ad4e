//! The ways between the Pods of different nodes: routes to the other nodes' ranges, by their addresses where all are on
//! one segment, or through a VXLAN link that wraps packets where there are routers in between.
//!
//! [`Plan`] says what this machine's kernel should have, going by the Nodes; [`Changes`] what it takes to get there
//! from what it has. Both are pure. [`run`] watches Nodes and carries that out by [`Kernel`]. What is ours is known by
//! the number of the routes' protocol, [`PROTOCOL`], and the name of the link, [`LINK`]; nothing else is touched.

mod filter;
mod kernel;
mod plan;
mod run;

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use kernel::{Kernel, KernelError, remove_all};
pub use plan::{Changes, Creation, Doubt, Machine, Plan, Present, ethernet_of};
pub use run::run;

/// Who made our routes, as `ip route` shows it: a number that is nobody else's in `rtnetlink.h` and in iproute2's
/// `rt_protos`.
pub const PROTOCOL: u8 = 112;
/// The name of the link that wraps packets.
pub const LINK: &str = "portolan.vxlan";

/// How packets get from one node to the Pods of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// By routes to the other nodes' addresses, which are on one segment with ours.
    #[default]
    HostGw,
    /// Wrapped in UDP, through any network.
    Vxlan {
        /// The network identifier, the same on all nodes.
        id: u32,
        /// The UDP port, the same on all nodes.
        port: u16,
    },
    /// Others see to it.
    None,
}

/// What a machine needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name of this machine's Node.
    pub node_name: String,
    /// This machine's addresses, the primary one first.
    pub node_ips: Vec<IpAddr>,
    /// The cluster's ranges: what is not in them is no range of Pods, whatever a Node says.
    pub cluster_cidrs: Vec<IpNet>,
    /// How packets get to others.
    pub network: Network,
}
