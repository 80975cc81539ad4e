//! What the decisions depend on besides Services and slices.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::types::{Family, Origin};

/// On which of the node's addresses node ports answer (EPT-20, KPF-28). Never on loopback addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// On all of them.
    #[default]
    All,
    /// On the node's primary ones, given here: on none while none is known.
    Primary(Vec<IpAddr>),
    /// On those in one of these ranges.
    Within(Vec<IpNet>),
}

/// The name of a network interface: 1 to 15 bytes (`IFNAMSIZ`), no `/` and no space; or how such names
/// begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterfaceName {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

/// A text is no interface's name; no retry helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a network interface: 1 to 15 characters, none of them \"/\" or a space")]
pub struct InterfaceNameError(pub String);

impl InterfaceName {
    /// The longest name.
    pub const BYTES_MAX: usize = 15;

    /// The name.
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

/// How connections of the cluster's Pods are told from others (KPF-26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodDetection {
    /// By source address. A family without a range has no detection: its cluster IPs are not masqueraded
    /// and nothing is a Pod's (EPT-14).
    Ranges(Vec<IpNet>),
    /// By the interface that they come in by, which is this one: a bridge.
    Interface(InterfaceName),
    /// By the interface that they come in by, whose name begins like this.
    InterfacePrefix(InterfaceName),
}

impl Default for PodDetection {
    fn default() -> Self {
        Self::Ranges(Vec::new())
    }
}

impl PodDetection {
    /// Whether Pods of a family can be told from others.
    pub fn covers(&self, family: Family) -> bool {
        match self {
            Self::Ranges(ranges) => ranges.iter().any(|net| Family::of(net.addr()) == family),
            Self::Interface(_) | Self::InterfacePrefix(_) => true,
        }
    }

    /// The ranges of Pods' addresses, none where they are told by interface.
    pub fn ranges(&self) -> &[IpNet] {
        match self {
            Self::Ranges(ranges) => ranges,
            Self::Interface(_) | Self::InterfacePrefix(_) => &[],
        }
    }

    /// Whether a connection is a Pod's that has this source and comes in by this interface; `None` if it
    /// starts on this node.
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
    /// This node's name: endpoints with it are local (KPR-16).
    pub node_name: String,
    /// How Pods are told from others.
    pub pods: PodDetection,
    /// Ranges of cluster IPs: what no Service has there is dropped (NFT-12).
    pub service_cidrs: Vec<IpNet>,
    /// Where node ports answer.
    pub node_port_addresses: NodePortAddresses,
    /// Whether everything that goes to a cluster IP is masqueraded (KPF-18).
    pub masquerade_all: bool,
    /// All addresses that are this node's own, as the kernel knows them.
    pub node_addresses: Vec<IpAddr>,
    /// Whether `spec.externalIPs` are passed over: feature gate `AllowServiceExternalIPs` is off (KPR-19, GATE-01).
    /// Services that are in a plan already are not read again, so this does not change during its life.
    pub ignores_external_ips: bool,
}

/// What the plan needs of this Node object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its zone (EPT-04).
    pub zone: Option<String>,
    /// Its IPs (KPR-03): a source range that holds one of them lets the load balancer address in (EPT-19).
    pub ips: Vec<IpAddr>,
}

impl Settings {
    /// Where a connection comes from that has this source and comes in by this interface, if by any. An address that is both a Pod's and the node's own,
    /// like the node's gateway to its Pods, counts as a Pod's, as in the order of kube-proxy's rules.
    pub fn origin(&self, source: IpAddr, interface: Option<InterfaceName>) -> Origin {
        if self.pods.is_pod(source, interface) {
            Origin::Pod
        } else if self.is_own(source) {
            Origin::Node
        } else {
            Origin::Outside
        }
    }

    /// Whether node ports answer on `address`.
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

    /// The addresses of a family on which node ports answer; `None` for all that are the node's own but
    /// loopback ones.
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

    /// Whether an address is in a range of cluster IPs.
    pub fn is_in_service_cidr(&self, address: IpAddr) -> bool {
        self.service_cidrs.iter().any(|net| net.contains(&address))
    }

    /// Whether an address is this node's own.
    pub fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.node_addresses.contains(&address)
    }
}
