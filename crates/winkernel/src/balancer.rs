//! A load balancer, before its endpoints have identifiers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::object::ObjectKey;
use plan::Family;

use crate::member_choice::Member;
use crate::schema::{HnsId, LoadBalancer, PortMapping, SchemaVersion};

/// Kind of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalancerKind {
    /// Cluster IP.
    ClusterIp,
    /// Node port.
    NodePort,
    /// Entry of `spec.externalIPs`.
    ExternalIp,
    /// Load balancer IP.
    LoadBalancerIp,
    /// Port of the health check at a load balancer IP.
    HealthCheck,
}

/// Address, protocol and port that clients use. Each load balancer has another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BalancerKey {
    /// IP family.
    pub family: Family,
    /// Address; `None` for node ports.
    pub vip: Option<IpAddr>,
    /// Number of the protocol.
    pub protocol: u32,
    /// Port.
    pub port: u16,
}

/// A load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// Service.
    pub service: ObjectKey,
    /// Kind.
    pub kind: BalancerKind,
    /// Address, protocol and port that clients use.
    pub key: BalancerKey,
    /// Port of the endpoints.
    pub internal_port: u16,
    /// Endpoints; never empty.
    pub members: BTreeSet<Member>,
    /// Source address of forwarded packets, in overlay networks.
    pub source_vip: Option<IpAddr>,
    /// Flags of the load balancer.
    pub flags: u32,
    /// Flags of its port.
    pub mapping_flags: u32,
    /// Distribution of connections.
    pub distribution: u32,
}

impl Balancer {
    /// Returns the request that creates the load balancer with these endpoints.
    pub fn request(&self, mut endpoints: Vec<HnsId>) -> LoadBalancer {
        endpoints.sort_unstable();
        endpoints.dedup();
        LoadBalancer {
            id: HnsId::default(),
            endpoints,
            source_vip: self.source_vip.map(|ip| ip.to_string()).unwrap_or_default(),
            frontend_vips: self.key.vip.iter().map(ToString::to_string).collect(),
            port_mappings: vec![PortMapping {
                protocol: self.key.protocol,
                internal_port: self.internal_port,
                external_port: self.key.port,
                distribution_type: self.distribution,
                flags: self.mapping_flags,
            }],
            schema_version: SchemaVersion::default(),
            flags: self.flags,
        }
    }
}
