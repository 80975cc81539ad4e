//! The topology of a cluster as data: members, addresses and routes.
//!
//! The default addresses are those of the recorded data plane cases.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Limit of nodes: the addresses between the first node and the outside client.
pub const NODES_MAX: usize = 64;

const FIRST_NODE: u8 = 11;
const OUTSIDE: u8 = 100;

/// An address of each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualAddress {
    /// IPv4.
    pub ipv4: Ipv4Addr,
    /// IPv6.
    pub ipv6: Ipv6Addr,
}

impl DualAddress {
    /// Returns both addresses.
    pub fn both(self) -> [IpAddr; 2] {
        [self.ipv4.into(), self.ipv6.into()]
    }

    /// Returns the address with the family of `other`.
    pub fn of_family(self, other: IpAddr) -> IpAddr {
        match other {
            IpAddr::V4(_) => self.ipv4.into(),
            IpAddr::V6(_) => self.ipv6.into(),
        }
    }
}

/// A network of each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualNet {
    /// IPv4.
    pub ipv4: Ipv4Net,
    /// IPv6.
    pub ipv6: Ipv6Net,
}

impl DualNet {
    /// Returns both networks.
    pub fn both(self) -> [IpNet; 2] {
        [self.ipv4.into(), self.ipv6.into()]
    }
}

/// A member of the underlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPlan {
    /// Name, for `spawn`, `exec` and log lines.
    pub name: String,
    /// Addresses on the underlay.
    pub address: DualAddress,
}

/// A node: a member with Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// Name and address.
    pub member: MemberPlan,
    /// Networks of its Pods (`podCIDRs`).
    pub pods: DualNet,
    /// Zone, for the label `topology.kubernetes.io/zone`.
    pub zone: String,
}

/// Invalid topology.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The number of nodes is out of range.
    #[error("expected 1 to {NODES_MAX} nodes, found {nodes}")]
    Nodes {
        /// Requested number of nodes.
        nodes: usize,
    },
}

/// The topology of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Network of all members.
    pub underlay: DualNet,
    /// Default gateway of all members. It forwards nothing: packets that no proxy handles end there without a
    /// response.
    pub router: DualAddress,
    /// Member of the API server.
    pub control_plane: MemberPlan,
    /// Nodes of the cluster, at most [`NODES_MAX`].
    pub nodes: Vec<NodePlan>,
    /// A client outside of the cluster.
    pub outside: MemberPlan,
    /// Networks of all Pods: `--cluster-cidr`.
    pub cluster_cidrs: DualNet,
    /// Networks of cluster IPs: `--service-cluster-ip-range`.
    pub service_cidrs: DualNet,
    /// Networks that the outside client routes to the first node: addresses of Services of all kinds.
    pub routed: Vec<IpNet>,
}

impl Topology {
    /// Returns the default topology with nodes `node-1` and so on, in two zones alternately.
    ///
    /// # Errors
    ///
    /// Returns [`TopologyError`] if the number of nodes is out of range.
    pub fn with_nodes(nodes: usize) -> Result<Self, TopologyError> {
        if !(1..=NODES_MAX).contains(&nodes) {
            return Err(TopologyError::Nodes { nodes });
        }
        let cluster_cidrs = DualNet {
            ipv4: ipv4_net([10, 244, 0, 0], 16),
            ipv6: ipv6_net([0xfd00, 0x244, 0, 0, 0, 0, 0, 0], 32),
        };
        let service_cidrs = DualNet {
            ipv4: ipv4_net([10, 96, 0, 0], 16),
            ipv6: ipv6_net([0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0], 112),
        };
        let mut routed = Vec::new();
        routed.extend(service_cidrs.both());
        routed.extend(cluster_cidrs.both());
        routed.extend(external_networks());
        Ok(Self {
            underlay: DualNet {
                ipv4: ipv4_net([172, 30, 0, 0], 24),
                ipv6: ipv6_net([0xfd00, 0x30, 0, 0, 0, 0, 0, 0], 64),
            },
            router: underlay_address(1),
            control_plane: MemberPlan {
                name: "control-plane".to_owned(),
                address: underlay_address(2),
            },
            nodes: (1..=nodes as u8).map(node).collect(),
            outside: MemberPlan {
                name: "outside".to_owned(),
                address: underlay_address(OUTSIDE),
            },
            cluster_cidrs,
            service_cidrs,
            routed,
        })
    }

    /// Returns all members: control plane, nodes, outside client.
    pub fn members(&self) -> impl Iterator<Item = &MemberPlan> {
        std::iter::once(&self.control_plane)
            .chain(self.nodes.iter().map(|node| &node.member))
            .chain(std::iter::once(&self.outside))
    }

    /// Returns the routes of a member alongside its default route: destination and next hop. Members inside have
    /// routes to the Pods of all nodes; the outside client sends `routed` networks to the first node.
    pub fn routes_of(&self, name: &str) -> Vec<(IpNet, IpAddr)> {
        if name == self.outside.name {
            let first = self.nodes.first().map(|node| node.member.address);
            return self
                .routed
                .iter()
                .filter_map(|net| Some((*net, first?.of_family(net.addr()))))
                .collect();
        }
        self.nodes
            .iter()
            .filter(|node| node.member.name != name)
            .flat_map(|node| {
                node.pods
                    .both()
                    .map(|net| (net, node.member.address.of_family(net.addr())))
            })
            .collect()
    }
}

/// Returns the documentation networks (RFC 5737, RFC 3849) that stand for external and load balancer IPs.
fn external_networks() -> [IpNet; 4] {
    [
        ipv4_net([203, 0, 113, 0], 24).into(),
        ipv4_net([198, 51, 100, 0], 24).into(),
        ipv6_net([0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 0], 64).into(),
        ipv6_net([0x2001, 0xdb8, 0x51, 0, 0, 0, 0, 0], 64).into(),
    ]
}

fn node(number: u8) -> NodePlan {
    NodePlan {
        member: MemberPlan {
            name: format!("node-{number}"),
            address: underlay_address(FIRST_NODE + number - 1),
        },
        pods: DualNet {
            ipv4: ipv4_net([10, 244, number, 0], 24),
            ipv6: ipv6_net([0xfd00, 0x244, number.into(), 0, 0, 0, 0, 0], 64),
        },
        zone: if number % 2 == 1 { "zone-a" } else { "zone-b" }.to_owned(),
    }
}

/// Returns 172.30.0.N and fd00:30::N; the decimal digits of the one are the hexadecimal digits of the other.
fn underlay_address(number: u8) -> DualAddress {
    let number16 = u16::from(number);
    let digits = number16 / 100 * 0x100 + number16 % 100 / 10 * 0x10 + number16 % 10;
    DualAddress {
        ipv4: Ipv4Addr::new(172, 30, 0, number),
        ipv6: Ipv6Addr::new(0xfd00, 0x30, 0, 0, 0, 0, 0, digits),
    }
}

fn ipv4_net(octets: [u8; 4], prefix_length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::from(octets), prefix_length)
}

fn ipv6_net(segments: [u16; 8], prefix_length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::from(segments), prefix_length)
}

#[cfg(test)]
mod tests;
