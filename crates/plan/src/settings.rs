//! Inputs of decisions besides Services and slices.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::types::{Family, Origin, Scheduler};

/// Addresses of node ports on this node (EPT-20, KPF-28), except loopback addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// All addresses of the node.
    #[default]
    All,
    /// Primary addresses of the Node; none while they are unknown.
    Primary(Vec<IpAddr>),
    /// Addresses in these ranges.
    Within(Vec<IpNet>),
}

/// Name, or name prefix, of a network interface: 1 to 15 bytes (`IFNAMSIZ`), no `/` and no space.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterfaceName {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

/// Text that is not a valid interface name. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the name of a network interface, 1 to 15 characters without \"/\" or a space, found {0:?}")]
pub struct InterfaceNameError(pub String);

impl InterfaceName {
    /// Maximum length in bytes.
    pub const BYTES_MAX: usize = 15;

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        str::from_utf8(bytes).unwrap_or_default()
    }
}

impl FromStr for InterfaceName {
    type Err = InterfaceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_usable = (1..=Self::BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        let mut bytes = [0; Self::BYTES_MAX];
        match bytes.get_mut(..text.len()) {
            Some(slot) if is_usable => slot.copy_from_slice(text.as_bytes()),
            _ => return Err(InterfaceNameError(text.to_owned())),
        }
        Ok(Self {
            bytes,
            length: text.len() as u8,
        })
    }
}

impl std::fmt::Debug for InterfaceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Detection of connections from Pods (KPF-26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodDetection {
    /// By source address. In a family without ranges nothing is detected, and cluster IPs are not masqueraded
    /// (EPT-14).
    Ranges(Vec<IpNet>),
    /// By input interface, usually a bridge.
    Interface(InterfaceName),
    /// By name prefix of the input interface.
    InterfacePrefix(InterfaceName),
}

impl Default for PodDetection {
    fn default() -> Self {
        Self::Ranges(Vec::new())
    }
}

impl PodDetection {
    /// Returns true if Pods of a family can be detected.
    pub fn covers(&self, family: Family) -> bool {
        match self {
            Self::Ranges(ranges) => ranges.iter().any(|net| Family::of(net.addr()) == family),
            Self::Interface(_) | Self::InterfacePrefix(_) => true,
        }
    }

    /// Returns the Pod CIDRs; empty if the detection uses interfaces.
    pub fn ranges(&self) -> &[IpNet] {
        match self {
            Self::Ranges(ranges) => ranges,
            Self::Interface(_) | Self::InterfacePrefix(_) => &[],
        }
    }

    /// Returns true if a connection with this source and input interface is from a Pod. `None` stands for a
    /// connection that originates on this node.
    pub fn is_pod(&self, source: IpAddr, interface: Option<InterfaceName>) -> bool {
        match self {
            Self::Ranges(ranges) => ranges.iter().any(|net| net.contains(&source)),
            Self::Interface(name) => interface == Some(*name),
            Self::InterfacePrefix(prefix) => {
                interface.is_some_and(|name| name.as_str().starts_with(prefix.as_str()))
            }
        }
    }
}

/// Settings of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of this node; endpoints with it are local (KPR-16).
    pub node_name: String,
    /// Detection of Pods.
    pub pods: PodDetection,
    /// Service CIDRs; packets to unassigned addresses in them are dropped (NFT-12).
    pub service_cidrs: Vec<IpNet>,
    /// Addresses of node ports.
    pub node_port_addresses: NodePortAddresses,
    /// True if all traffic to cluster IPs is masqueraded (KPF-18).
    pub masquerade_all: bool,
    /// All addresses of this node, as the kernel reports them.
    pub node_addresses: Vec<IpAddr>,
    /// True if `spec.externalIPs` are ignored: feature gate `AllowServiceExternalIPs` is off (KPR-19, GATE-01). The
    /// plan does not read its Services again, so this does not change.
    pub ignores_external_ips: bool,
    /// Scheduler of Services without the annotation `service.portolan.dev/scheduler`. The plan does not read its
    /// Services again, so this does not change.
    pub default_scheduler: Scheduler,
    /// True if this node answers echo requests (ping) to addresses of Services with usable endpoints. The plan does not
    /// read its Services again, so this does not change.
    pub answers_ping: bool,
    /// True if this node forwards connections to the nodes of endpoints where a Service requests it (annotation
    /// `service.portolan.dev/two-tier-forwarding`). The plan does not read its Services again, so this does not change.
    pub supports_two_tier: bool,
}

/// Facts of this Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Zone (EPT-04).
    pub zone: Option<String>,
    /// IPs (KPR-03). If a source range contains one of them, it admits the load balancer IP (EPT-19).
    pub ips: Vec<IpAddr>,
    /// All internal and external IPs of the Node, and its bind address. Port ranges are not served at these addresses.
    pub addresses: Vec<IpAddr>,
}

impl NodeFacts {
    /// Returns true if an address is one of the Node.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.ips.contains(&address) || self.addresses.contains(&address)
    }
}

impl Settings {
    /// Returns the origin of a connection with this source and input interface. An address can belong to a Pod and to
    /// the node, for example the gateway of its Pods. It counts as the address of a Pod. The order of kube-proxy's
    /// rules has the same effect.
    pub fn origin(&self, source: IpAddr, interface: Option<InterfaceName>) -> Origin {
        if self.pods.is_pod(source, interface) {
            Origin::Pod
        } else if self.is_own(source) {
            Origin::Node
        } else {
            Origin::Outside
        }
    }

    /// Returns true if node ports answer on `address`.
    pub fn accepts_node_port(&self, address: IpAddr) -> bool {
        if address.is_loopback() || !self.is_own(address) {
            return false;
        }
        match &self.node_port_addresses {
            NodePortAddresses::All => true,
            NodePortAddresses::Primary(ips) => ips.contains(&address),
            NodePortAddresses::Within(nets) => nets.iter().any(|net| net.contains(&address)),
        }
    }

    /// Returns the addresses of node ports in a family; `None` for all addresses of the node except loopback ones.
    pub fn node_port_ips(&self, family: Family) -> Option<Vec<IpAddr>> {
        if self.node_port_addresses == NodePortAddresses::All {
            return None;
        }
        let mut ips: Vec<IpAddr> = self
            .node_addresses
            .iter()
            .copied()
            .filter(|ip| Family::of(*ip) == family && self.accepts_node_port(*ip))
            .collect();
        ips.sort_unstable();
        ips.dedup();
        Some(ips)
    }

    /// Returns the address of this node that answers echo requests to Services; `None` if no address of the Node is
    /// usable in the family. Any address serves: connection tracking gives the answer the address of the Service.
    /// Addresses that the Node object does not list are not used. They change with Pods and links, and each change
    /// would rewrite the rules of all Services.
    pub(crate) fn ping_address(&self, node: &NodeFacts, family: Family) -> Option<IpAddr> {
        let is_usable = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local() && !ip.is_unspecified(),
            IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local() && !ip.is_unspecified(),
        };
        let mut node_ips = node.ips.iter().chain(&node.addresses).copied();
        node_ips.find(|ip| {
            self.answers_ping
                && Family::of(*ip) == family
                && is_usable(ip)
                && self.node_addresses.contains(ip)
        })
    }

    /// Returns true if an address is in the Service CIDRs.
    pub fn is_in_service_cidr(&self, address: IpAddr) -> bool {
        self.service_cidrs.iter().any(|net| net.contains(&address))
    }

    /// Returns true if an address belongs to this node.
    pub fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.node_addresses.contains(&address)
    }
}
