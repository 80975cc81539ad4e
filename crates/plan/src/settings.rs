//! What the decisions depend on besides Services and slices.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::types::{Family, Origin};

/// On which of the node's addresses node ports answer (EPT-20, KPF-28). Never on loopback addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// On all of them.
    #[default]
    All,
    /// On the node's primary ones, given here.
    Primary(Vec<IpAddr>),
    /// On those in one of these ranges.
    Within(Vec<IpNet>),
}

/// Settings of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// This node's name: endpoints with it are local (KPR-16).
    pub node_name: String,
    /// Ranges of Pod addresses, which is how Pods are told from others. A family without a range has no
    /// local detection: its cluster IPs are not masqueraded and nothing is a Pod's (EPT-14).
    pub cluster_cidrs: Vec<IpNet>,
    /// Ranges of cluster IPs: what no Service has there is dropped (NFT-12).
    pub service_cidrs: Vec<IpNet>,
    /// Where node ports answer.
    pub node_port_addresses: NodePortAddresses,
    /// Whether everything that goes to a cluster IP is masqueraded (KPF-18).
    pub masquerade_all: bool,
    /// All addresses that are this node's own, as the kernel knows them.
    pub node_addresses: Vec<IpAddr>,
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
    /// Where a connection from `source` comes from. An address that is both a Pod's and the node's own,
    /// like the node's gateway to its Pods, counts as a Pod's, as in the order of kube-proxy's rules.
    pub fn origin(&self, source: IpAddr) -> Origin {
        if self.cluster_cidrs.iter().any(|net| net.contains(&source)) {
            Origin::Pod
        } else if self.is_own(source) {
            Origin::Node
        } else {
            Origin::Outside
        }
    }

    /// Whether Pods of a family can be told from others.
    pub fn detects_pods(&self, family: Family) -> bool {
        self.cluster_cidrs
            .iter()
            .any(|net| Family::of(net.addr()) == family)
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
