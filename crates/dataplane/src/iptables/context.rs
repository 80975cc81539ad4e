//! What rules depend on besides Services: settings, in one family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use plan::{Family, PodDetection, Settings};

use super::Options;
use super::rule::Rule;

/// Settings as the rules of a family need them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The family.
    pub family: Family,
    /// How Pods are told from others: they match one of these.
    pub pods: Vec<PodMatch>,
    /// Ranges of cluster IPs.
    pub service_cidrs: Vec<IpNet>,
    /// Where node ports answer.
    pub node_ports: Vec<NodePortPlace>,
    /// The mark of what is to be masqueraded.
    pub masquerade_mark: u32,
    /// What becomes of forwarded packets that connection tracking knows nothing of.
    pub invalid: InvalidPackets,
}

/// What becomes of packets that connection tracking knows nothing of (IPT-08).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPackets {
    /// They go on: connection tracking takes TCP packets that are out of their window.
    Accepted,
    /// They are dropped.
    Dropped,
    /// They are dropped and counted in [`super::INVALID_DROPPED_COUNTER`].
    Counted,
}

/// What connections of Pods match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodMatch {
    /// Their source address is in a range.
    Range(IpNet),
    /// The interface that they come in by has this name; one with `+` at its end stands for all that begin like it.
    Interface(String),
}

/// Where node ports answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePortPlace {
    /// On all of this node's addresses but loopback ones.
    NotOnLoopback,
    /// On these.
    At(IpNet),
}

impl Context {
    /// The settings of a family.
    pub fn new(family: Family, settings: &Settings, options: &Options, invalid: InvalidPackets) -> Self {
        let of_family = |nets: &[IpNet]| -> Vec<IpNet> {
            let own = nets.iter().filter(|net| Family::of(net.addr()) == family);
            own.map(IpNet::trunc).collect()
        };
        let node_ports = match settings.node_port_ips(family) {
            None => vec![NodePortPlace::NotOnLoopback],
            Some(ips) => ips.into_iter().map(IpNet::from).map(NodePortPlace::At).collect(),
        };
        Self {
            family,
            pods: match &settings.pods {
                PodDetection::Ranges(nets) => {
                    let nets = IpNet::aggregate(&of_family(nets)).into_iter();
                    nets.map(PodMatch::Range).collect()
                }
                PodDetection::Interface(name) => vec![PodMatch::Interface(name.as_str().to_owned())],
                PodDetection::InterfacePrefix(prefix) => {
                    vec![PodMatch::Interface(format!("{}+", prefix.as_str()))]
                }
            },
            service_cidrs: IpNet::aggregate(&of_family(&settings.service_cidrs)),
            node_ports,
            masquerade_mark: options.masquerade_mark(),
            invalid,
        }
    }
}

impl NodePortPlace {
    /// A rule for what goes there. [`NodePortPlace::check`] has to follow.
    pub fn rule(self, family: Family) -> Rule {
        match self {
            Self::NotOnLoopback => Rule::new().not_destination(loopback(family)),
            Self::At(net) => Rule::new().destination(net),
        }
    }

    /// The rest of the rule, behind the comment.
    pub fn check(self, rule: Rule) -> Rule {
        match self {
            Self::NotOnLoopback => rule.at_node(),
            Self::At(_) => rule,
        }
    }
}

/// The loopback addresses.
pub fn loopback(family: Family) -> IpNet {
    let (address, prefix) = match family {
        Family::V4 => (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
        Family::V6 => (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    };
    IpNet::new(address, prefix).unwrap_or_else(|_| address.into())
}
