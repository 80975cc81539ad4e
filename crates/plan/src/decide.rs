//! Decision about a single packet, with its reason.
//!
//! ```
//! use api::object::{EndpointSlice, Protocol, Service};
//! use plan::{Packet, Plan, Settings, Verdict};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service: Service = serde_json::from_str(
//!     r#"{"metadata": {"namespace": "default", "name": "web"},
//!         "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.5", "ports": [{"port": 80}]}}"#,
//! )?;
//! let slice: EndpointSlice = serde_json::from_str(
//!     r#"{"metadata": {"namespace": "default", "name": "web-1",
//!             "labels": {"kubernetes.io/service-name": "web"}},
//!         "addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
//!         "endpoints": [{"addresses": ["10.244.1.2"]}]}"#,
//! )?;
//! let mut plan = Plan::new(Settings::default());
//! plan.apply_service(&service);
//! plan.apply_slice(&slice);
//! plan.take_changes();
//!
//! let packet = Packet {
//!     source: "10.244.2.9".parse()?,
//!     destination: "10.96.0.5".parse()?,
//!     port: 80,
//!     protocol: Protocol::Tcp,
//!     interface: None,
//! };
//! let Verdict::Balanced { choices, .. } = plan.decide(&packet).verdict else {
//!     panic!("the Service has an endpoint");
//! };
//! assert_eq!(choices[0].address, "10.244.1.2:8080".parse()?);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use api::object::{ObjectKey, Protocol};

use crate::plan::Plan;
use crate::settings::{InterfaceName, Settings};
use crate::types::{EndpointSet, Family, Frontend, FrontendKind, Origin, ServicePortPlan, Target};

/// First packet of a connection or flow, as it reaches this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Destination port.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Input interface; `None` if the packet originates on this node, or if the interface is irrelevant.
    pub interface: Option<InterfaceName>,
}

/// Decision about a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<'a> {
    /// Frontend of the destination, with its Service port.
    pub frontend: Option<(&'a ServicePortPlan, &'a Frontend)>,
    /// Origin of the packet.
    pub origin: Origin,
    /// Verdict with reason.
    pub verdict: Verdict,
}

/// Decision about an echo request.
#[derive(Clone, Debug, PartialEq)]
pub struct PingDecision<'a> {
    /// Service of the destination.
    pub service: Option<&'a ObjectKey>,
    /// Frontend of the destination.
    pub frontend: Option<&'a Frontend>,
    /// Origin of the packet.
    pub origin: Origin,
    /// Verdict with reason.
    pub verdict: Verdict,
}

/// Verdict about a packet, with reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The destination is not a Service; the packet continues unchanged.
    NotAService,
    /// One of these endpoints receives the packet with equal probability, unless the client has affinity.
    Balanced {
        /// Endpoint set.
        set: EndpointSet,
        /// Endpoints, sorted.
        choices: Vec<Choice>,
        /// Session affinity in seconds.
        affinity_seconds: Option<u32>,
    },
    /// Answered by this node: an echo request to a Service with a usable endpoint.
    Answered,
    /// Rejected: the Service has no usable endpoint (EPT-09).
    NoEndpoints,
    /// Rejected: the cluster IP has no such port and protocol (NFT-12).
    UndefinedPort,
    /// Dropped: the policy is Local, and all usable endpoints are on other nodes (EPT-07, EPT-08).
    NoLocalEndpoints,
    /// Dropped: the source is not in the source ranges of the load balancer (EPT-19).
    OutOfSourceRanges,
    /// Dropped: no Service has this address of the Service CIDRs (NFT-12).
    Unallocated,
}

/// Endpoint that a packet may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Address and port.
    pub address: SocketAddr,
    /// True if the source becomes an address of the node, including hairpin traffic.
    pub masquerade: bool,
}

impl Plan {
    /// Decides about a packet.
    pub fn decide(&self, packet: &Packet) -> Decision<'_> {
        let settings = self.settings();
        let destination = SocketAddr::new(packet.destination, packet.port);
        let frontend = self.frontend_at(packet.protocol, destination);
        let origin = settings.origin(packet.source, packet.interface);
        let verdict = match frontend {
            Some((port, frontend)) => decide_at_frontend(settings, packet, origin, port, frontend),
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

    /// Decides about an echo request (ping).
    pub fn decide_ping(
        &self,
        source: IpAddr,
        destination: IpAddr,
        interface: Option<InterfaceName>,
    ) -> PingDecision<'_> {
        let origin = self.settings().origin(source, interface);
        let found = self.ping_frontend(destination);
        let verdict = match found.map(|(_, frontend)| (frontend, frontend.target(origin))) {
            Some((frontend, _)) if !frontend.admits(source) => Verdict::OutOfSourceRanges,
            Some((_, Target::Balance { .. })) => Verdict::Answered,
            Some((_, Target::Reject)) => Verdict::NoEndpoints,
            Some((_, Target::Drop)) => Verdict::NoLocalEndpoints,
            None if self.is_cluster_ip(destination) => Verdict::UndefinedPort,
            None if self.settings().is_in_service_cidr(destination) => Verdict::Unallocated,
            None => Verdict::NotAService,
        };
        PingDecision {
            service: found.map(|(plan, _)| &plan.service),
            frontend: found.map(|(_, frontend)| frontend),
            origin,
            verdict,
        }
    }

    /// Returns the frontend of a destination with its Service port. A port of `spec.ports` precedes a range, and
    /// addresses precede node ports.
    pub fn frontend_at(
        &self,
        protocol: Protocol,
        destination: SocketAddr,
    ) -> Option<(&ServicePortPlan, &Frontend)> {
        let family = Family::of(destination.ip());
        let at = |address| self.frontend(family, address, protocol, destination.port());
        let range = || self.range_frontend(destination.ip(), protocol, destination.port());
        at(Some(destination.ip())).or_else(range).or_else(|| {
            let is_open = self.settings().accepts_node_port(destination.ip());
            at(None).filter(|_| is_open)
        })
    }
}

fn decide_at_frontend(
    settings: &Settings,
    packet: &Packet,
    origin: Origin,
    port: &ServicePortPlan,
    frontend: &Frontend,
) -> Verdict {
    if !frontend.admits(packet.source) {
        return Verdict::OutOfSourceRanges;
    }
    match frontend.target(origin) {
        Target::Reject => Verdict::NoEndpoints,
        Target::Drop => Verdict::NoLocalEndpoints,
        Target::Balance { set, masquerade } => {
            let is_from_here = settings.is_own(packet.source);
            let choices = port.backends(set).iter().map(|backend| {
                let ip = backend.address.ip();
                let is_hairpin = backend.can_be_local && ip == packet.source;
                // A packet that arrives from outside and stays on this node does not pass the hook that masquerades.
                let passes_out = is_from_here || !settings.is_own(ip);
                Choice {
                    address: port.address_at(backend, packet.port),
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
            Self::Answered => f.write_str("answered by this node"),
            Self::NoEndpoints => f.write_str("rejected, the Service has no usable endpoint"),
            Self::UndefinedPort => f.write_str("rejected, the cluster IP does not have this port"),
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
