//! Outlines: the endpoint choice of each Service port, for terminals and for comparisons with other implementations.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::choice::{candidates, choose};
use crate::plan::Plan;
use crate::ports::used_policies;
use crate::types::{Backend, PortKey};

/// Endpoint choice of one Service port in one family, regardless of the ownership of its frontends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Service port.
    pub key: PortKey,
    /// Usable endpoints of traffic policy Cluster (EPT-02); `None` if no frontend uses it.
    pub cluster: Option<Vec<SocketAddr>>,
    /// Usable endpoints of traffic policy Local (EPT-03); `None` if no frontend uses it.
    pub local: Option<Vec<SocketAddr>>,
    /// Endpoints of both policies, sorted, without duplicates.
    pub reachable: Vec<SocketAddr>,
    /// True if any endpoint of the cluster is usable (EPT-06).
    pub has_any_endpoints: bool,
    /// Cluster IP.
    pub cluster_ip: IpAddr,
    /// Port of the Service.
    pub port: u16,
    /// Node port, or 0.
    pub node_port: u16,
    /// `spec.externalIPs` of the family, in order.
    pub external_ips: Vec<IpAddr>,
    /// Load balancer IPs of the family in VIP mode, in order.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Source ranges of the family, in order; empty for all sources.
    pub source_ranges: Vec<IpNet>,
    /// True if `externalTrafficPolicy` is Local.
    pub is_external_local: bool,
    /// True if `internalTrafficPolicy` is Local.
    pub is_internal_local: bool,
    /// Session affinity in seconds.
    pub affinity_seconds: Option<u32>,
    /// Health check node port, or 0.
    pub health_check_node_port: u16,
}

impl Plan {
    /// Returns the outlines of all Service ports, ordered by Service, family and position in the Service.
    pub fn outlines(&self) -> Vec<Outline> {
        let mut outlines = Vec::new();
        for (service, record, slices) in self.records() {
            for family in &record.families {
                for port in &record.ports {
                    let used = used_policies(record, family, port);
                    let found = candidates(slices.iter().copied(), &port.name, port.protocol, family.family);
                    let chosen = choose(&found, used, self.node().zone.as_deref());
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
                        cluster: used.cluster.then(|| addresses(&chosen.cluster)),
                        local: used.local.then(|| addresses(&chosen.local)),
                        reachable,
                        has_any_endpoints: chosen.has_usable_endpoint,
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
