//! Inputs of rules besides Services: settings of one IP family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use plan::{Family, PodDetection, Settings};

use super::Options;
use super::rule::Rule;

/// Settings in the form that the rules of a family need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Context {
    /// IP family.
    pub family: Family,
    /// Detection of Pods: a packet from a Pod has one of these properties.
    pub pods: Vec<PodMatch>,
    /// Service CIDRs.
    pub service_cidrs: Vec<IpNet>,
    /// Addresses of node ports.
    pub node_ports: Vec<NodePortMatch>,
    /// Packet mark that requests masquerading.
    pub masquerade_mark: u32,
    /// Handling of forwarded packets in conntrack state INVALID.
    pub invalid: InvalidPackets,
}

/// Handling of forwarded packets in conntrack state INVALID (IPT-08).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidPackets {
    /// Accept them: connection tracking tolerates out-of-window TCP segments.
    Accepted,
    /// Drop them.
    Dropped,
    /// Drop them, and count them in [`super::INVALID_DROPPED_COUNTER`].
    Counted,
}

/// Property of packets from Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodMatch {
    /// The source address is in this range.
    Range(IpNet),
    /// The input interface has this name; a final `+` stands for any suffix.
    Interface(String),
}

/// Destination of packets to node ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodePortMatch {
    /// All addresses of this node except loopback ones.
    NotOnLoopback,
    /// Addresses in this range.
    At(IpNet),
}

impl Context {
    /// Derives the context of a family from settings and options.
    pub(super) fn new(
        family: Family,
        settings: &Settings,
        options: &Options,
        invalid: InvalidPackets,
    ) -> Self {
        let nets_of_family = |nets: &[IpNet]| -> Vec<IpNet> {
            let own = nets.iter().filter(|net| Family::of(net.addr()) == family);
            own.map(IpNet::trunc).collect()
        };
        let node_ports = match settings.node_port_ips(family) {
            None => vec![NodePortMatch::NotOnLoopback],
            Some(ips) => ips.into_iter().map(IpNet::from).map(NodePortMatch::At).collect(),
        };
        Self {
            family,
            pods: match &settings.pods {
                PodDetection::Ranges(nets) => {
                    let nets = IpNet::aggregate(&nets_of_family(nets)).into_iter();
                    nets.map(PodMatch::Range).collect()
                }
                PodDetection::Interface(name) => vec![PodMatch::Interface(name.as_str().to_owned())],
                PodDetection::InterfacePrefix(prefix) => {
                    vec![PodMatch::Interface(format!("{}+", prefix.as_str()))]
                }
            },
            service_cidrs: IpNet::aggregate(&nets_of_family(&settings.service_cidrs)),
            node_ports,
            masquerade_mark: options.masquerade_mark(),
            invalid,
        }
    }
}

impl NodePortMatch {
    /// Returns the first part of a rule for this destination. [`NodePortMatch::check`] has to follow after the
    /// comment.
    pub(super) fn rule(self, family: Family) -> Rule {
        match self {
            Self::NotOnLoopback => Rule::new().not_destination(loopback(family)),
            Self::At(net) => Rule::new().destination(net),
        }
    }

    /// Appends the second part of the rule.
    pub(super) fn check(self, rule: Rule) -> Rule {
        match self {
            Self::NotOnLoopback => rule.to_node(),
            Self::At(_) => rule,
        }
    }
}

/// Returns the loopback range.
pub(super) fn loopback(family: Family) -> IpNet {
    let (address, prefix) = match family {
        Family::V4 => (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
        Family::V6 => (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    };
    IpNet::new(address, prefix).unwrap_or_else(|_| address.into())
}
