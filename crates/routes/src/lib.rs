//! Routes between the Pods of different nodes. If the nodes share a segment, the routes have the addresses of the
//! nodes as gateways. If routers are between the nodes, they use a VXLAN link.
//!
//! [`Plan`] derives the desired state of this node's kernel from all Nodes. [`Changes`] is the difference to the
//! current state. Both are pure. [`run()`] watches Nodes and applies the changes by [`Kernel`]. The routing protocol
//! number [`PROTOCOL`] and the link name [`LINK`] identify Portolan's objects; foreign objects stay unchanged.
//!
//! ```
//! use routes::{ClusterNode, Network, Plan, Settings};
//!
//! let settings = Settings {
//!     node_name: "a".to_owned(),
//!     node_ips: vec!["192.0.2.1".parse()?],
//!     cluster_cidrs: vec!["10.244.0.0/16".parse()?],
//!     network: Network::HostGw,
//! };
//! let other = ClusterNode {
//!     name: "b".to_owned(),
//!     addresses: vec!["192.0.2.2".parse()?],
//!     pod_cidrs: vec!["10.244.1.0/24".parse()?],
//!     ..ClusterNode::default()
//! };
//! let plan = Plan::new(&settings, &[other]);
//! assert_eq!(plan.gateways[&"10.244.1.0/24".parse()?], "192.0.2.2".parse::<std::net::IpAddr>()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod filter;
mod kernel;
mod plan;
mod run;

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use kernel::{Kernel, KernelError, remove_all};
pub use plan::{Changes, ClusterNode, Creation, KernelState, Plan, RouteFault, ethernet_of};
pub use run::run;

/// Routing protocol number of Portolan's routes, as `ip route` shows it. No other program has it in `rtnetlink.h` or in
/// iproute2's `rt_protos`.
pub const PROTOCOL: u8 = 112;
/// Name of the VXLAN link.
pub const LINK: &str = "portolan.vxlan";

/// Transport of packets between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Routes to the addresses of the other nodes, which share a segment with this one.
    #[default]
    HostGw,
    /// Encapsulation in UDP, through any network.
    Vxlan {
        /// VXLAN network identifier, the same on all nodes.
        id: u32,
        /// UDP port, the same on all nodes.
        port: u16,
    },
    /// None; another program provides it.
    None,
}

/// Settings of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of this Node.
    pub node_name: String,
    /// Addresses of this node, the primary one first.
    pub node_ips: Vec<IpAddr>,
    /// Cluster CIDRs. Ranges of Nodes outside of them are ignored.
    pub cluster_cidrs: Vec<IpNet>,
    /// Transport of packets to other nodes.
    pub network: Network,
}
