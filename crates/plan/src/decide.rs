//! What happens to one packet, and why.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use api::object::Protocol;

use crate::plan::Plan;
use crate::settings::{InterfaceName, Settings};
use crate::types::{Family, Frontend, FrontendKind, Origin, ServicePortPlan, Set, Target};

/// The first packet of a connection or flow, as it comes to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Destination port.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// The interface that it comes in by; `None` if it starts on this node, or if that does not matter.
    pub interface: Option<InterfaceName>,
}

/// What happens to a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<'a> {
    /// The frontend that it is sent to, with the decisions that the frontend belongs to.
    pub frontend: Option<(&'a ServicePortPlan, &'a Frontend)>,
    /// Where it comes from.
    pub origin: Origin,
    /// What happens.
    pub verdict: Verdict,
}

/// What happens to a packet, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is for no Service and goes on as if there were no proxy.
    NotAService,
    /// It goes to one of these endpoints, each as likely as the others, unless an affinity to one of them
    /// is remembered.
    Balanced {
        /// Which set they are.
        set: Set,
        /// The endpoints, sorted.
        choices: Vec<Choice>,
        /// Seconds for which the source keeps its endpoint.
        affinity_seconds: Option<u32>,
    },
    /// Refused: the Service has no usable endpoint anywhere (EPT-09).
    NoEndpoints,
    /// Refused: a cluster IP does not have this port and protocol (NFT-12).
    UndefinedPort,
    /// Dropped: the policy is Local and the usable endpoints are on other nodes (EPT-07, EPT-08).
    NoLocalEndpoints,
    /// Dropped: the source is in none of the load balancer's source ranges (EPT-19).
    OutOfSourceRanges,
    /// Dropped: an address in the Service CIDRs that no Service has (NFT-12).
    Unallocated,
}

/// One endpoint that a packet may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its address and port.
    pub address: SocketAddr,
    /// Whether the source becomes the node's address, also because the endpoint is the source itself.
    pub masquerade: bool,
}

impl Plan {
    /// What happens to a packet.
    pub fn decide(&self, packet: &Packet) -> Decision<'_> {
        let settings = self.settings();
        let destination = SocketAddr::new(packet.destination, packet.port);
        let frontend = self.frontend_at(packet.protocol, destination);
        let origin = settings.origin(packet.source, packet.interface);
        let verdict = match frontend {
            Some((port, frontend)) => at_frontend(settings, packet, origin, port, frontend),
            None if self.is_cluster_ip(packet.destination) => Verdict::UndefinedPort,
            None if settings.is_in_service_cidr(packet.destination) => Verdict::Unallocated,
            None => Verdict::NotAService,
        };
        Decision {
            frontend,
            origin,
            verdict,
        }
    }

    /// The frontend that packets to a destination are for, with the decisions that it belongs to. Addresses come before
    /// node ports.
    pub fn frontend_at(
        &self,
        protocol: Protocol,
        destination: SocketAddr,
    ) -> Option<(&ServicePortPlan, &Frontend)> {
        let family = Family::of(destination.ip());
        let at = |address| self.frontend(family, address, protocol, destination.port());
        at(Some(destination.ip())).or_else(|| {
            let is_open = self.settings().accepts_node_port(destination.ip());
            at(None).filter(|_| is_open)
        })
    }
}

fn at_frontend(
    settings: &Settings,
    packet: &Packet,
    origin: Origin,
    port: &ServicePortPlan,
    frontend: &Frontend,
) -> Verdict {
    let ranges = &frontend.source_ranges;
    if !ranges.is_empty() && !ranges.iter().any(|range| range.contains(&packet.source)) {
        return Verdict::OutOfSourceRanges;
    }
    match frontend.target(origin) {
        Target::Reject => Verdict::NoEndpoints,
        Target::Drop => Verdict::NoLocalEndpoints,
        Target::Balance { set, masquerade } => {
            let is_from_here = settings.is_own(packet.source);
            let choices = port.backends(set).iter().map(|backend| {
                let ip = backend.address.ip();
                let is_hairpin = backend.local && ip == packet.source;
                // What comes in and stays on this node never passes where sources are rewritten.
                let passes_out = is_from_here || !settings.is_own(ip);
                Choice {
                    address: backend.address,
                    masquerade: (masquerade || is_hairpin) && passes_out,
                }
            });
            Verdict::Balanced {
                set,
                choices: choices.collect(),
                affinity_seconds: port.affinity_seconds,
            }
        }
    }
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((port, frontend)) = self.frontend {
            let kind = match frontend.kind {
                FrontendKind::ClusterIp => "cluster IP",
                FrontendKind::ExternalIp => "external IP",
                FrontendKind::LoadBalancerIp => "load balancer IP",
                FrontendKind::NodePort => "node port",
            };
            let origin = match self.origin {
                Origin::Outside => "outside",
                Origin::Pod => "a Pod",
                Origin::Node => "this node",
            };
            write!(f, "{} by {kind}, from {origin}: ", port.key)?;
        }
        write!(f, "{}", self.verdict)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAService => f.write_str("not a Service"),
            Self::NoEndpoints => f.write_str("refused, the Service has no usable endpoint"),
            Self::UndefinedPort => f.write_str("refused, the cluster IP does not have this port"),
            Self::NoLocalEndpoints => {
                f.write_str("dropped, the policy is Local and no usable endpoint is on this node")
            }
            Self::OutOfSourceRanges => f.write_str("dropped, the source is in no load balancer source range"),
            Self::Unallocated => f.write_str("dropped, no Service has this cluster IP"),
            Self::Balanced {
                choices,
                affinity_seconds,
                ..
            } => {
                f.write_str("one of")?;
                for choice in choices {
                    let masqueraded = if choice.masquerade { " (masqueraded)" } else { "" };
                    write!(f, " {}{masqueraded}", choice.address)?;
                }
                match affinity_seconds {
                    Some(seconds) => write!(f, ", kept for {seconds} s"),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
