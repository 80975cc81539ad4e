//! What was chosen for each Service port, told in full: for people, and to compare with what others choose.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::choice::{candidates, choose};
use crate::plan::Plan;
use crate::ports::uses;
use crate::types::{Backend, PortKey};

/// One Service port in one family, with what it would use whoever has its frontends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Which.
    pub key: PortKey,
    /// Usable endpoints under the Cluster policy (EPT-02); `None` if nothing uses that policy.
    pub cluster: Option<Vec<SocketAddr>>,
    /// Usable endpoints on this node (EPT-03); `None` if nothing uses the Local policy.
    pub local: Option<Vec<SocketAddr>>,
    /// All endpoints that something uses, each once, sorted.
    pub reachable: Vec<SocketAddr>,
    /// Whether there is a usable endpoint anywhere (EPT-06).
    pub has_any_endpoints: bool,
    /// The cluster IP.
    pub cluster_ip: IpAddr,
    /// The Service's port.
    pub port: u16,
    /// The node port, or 0.
    pub node_port: u16,
    /// `spec.externalIPs` of the family, in their order.
    pub external_ips: Vec<IpAddr>,
    /// Load balancer addresses of the family in VIP mode, in their order.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Source ranges of the family, in their order; empty for all.
    pub source_ranges: Vec<IpNet>,
    /// Whether external traffic stays on the node.
    pub is_external_local: bool,
    /// Whether internal traffic stays on the node.
    pub is_internal_local: bool,
    /// Seconds for which a client keeps its endpoint.
    pub affinity_seconds: Option<u32>,
    /// The health check node port, or 0.
    pub health_check_node_port: u16,
}

impl Plan {
    /// All Service ports in the order of Services, then of families, then as the Service lists them.
    pub fn outlines(&self) -> Vec<Outline> {
        let mut outlines = Vec::new();
        for (service, record, slices) in self.records() {
            for family in &record.families {
                for port in &record.ports {
                    let uses = uses(record, family, port);
                    let found = candidates(slices.iter().copied(), &port.name, port.protocol, family.family);
                    let chosen = choose(&found, uses, self.node().zone.as_deref());
                    let addresses =
                        |backends: &[Backend]| backends.iter().map(|backend| backend.address).collect();
                    let mut reachable: Vec<SocketAddr> = addresses(&chosen.cluster);
                    reachable.extend(chosen.local.iter().map(|backend| backend.address));
                    reachable.sort_unstable();
                    reachable.dedup();
                    outlines.push(Outline {
                        key: PortKey {
                            service: service.clone(),
                            port: port.name.clone(),
                            protocol: port.protocol,
                            family: family.family,
                        },
                        cluster: uses.cluster.then(|| addresses(&chosen.cluster)),
                        local: uses.local.then(|| addresses(&chosen.local)),
                        reachable,
                        has_any_endpoints: chosen.any,
                        cluster_ip: family.cluster_ip,
                        port: port.port,
                        node_port: port.node_port,
                        external_ips: family.external_ips.to_vec(),
                        load_balancer_ips: family.ingress_ips.to_vec(),
                        source_ranges: family.source_ranges.to_vec(),
                        is_external_local: record.is_external_local,
                        is_internal_local: record.is_internal_local,
                        affinity_seconds: record.affinity_seconds,
                        health_check_node_port: record.health_check_port.unwrap_or(0),
                    });
                }
            }
        }
        outlines
    }
}
