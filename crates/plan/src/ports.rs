//! Conversion of records to decisions for each Service port.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};
use ipnet::IpNet;

use crate::choice::{Chosen, Uses, candidates, choose};
use crate::claims::{Claims, FrontendKey};
use crate::fault::Fault;
use crate::service::{FamilyRecord, PortRecord, ServiceRecord};
use crate::settings::{NodeFacts, Settings};
use crate::slice::SliceRecord;
use crate::types::{Frontend, FrontendKind, HealthCheck, Origin, PortKey, ServicePortPlan, Set, Target};

/// Inputs of the decisions for one Service.
pub(crate) struct Inputs<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) record: &'a ServiceRecord,
    /// Slices, ordered by name.
    pub(crate) slices: Vec<&'a SliceRecord>,
    pub(crate) claims: &'a Claims,
    pub(crate) settings: &'a Settings,
    pub(crate) node: &'a NodeFacts,
}

/// Decisions for one Service.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decided {
    pub(crate) ports: Vec<ServicePortPlan>,
    /// Faults of frontends that other Services own.
    pub(crate) conflicts: Vec<Fault>,
    pub(crate) health_check: Option<HealthCheck>,
}

impl Inputs<'_> {
    /// Decides every port and family.
    pub(crate) fn decide(&self) -> Decided {
        let mut decided = Decided {
            health_check: self.health_check(),
            ..Decided::default()
        };
        for family in &self.record.families {
            for (index, port) in self.record.ports.iter().enumerate() {
                let plan = self.port(family, port, index, &mut decided.conflicts);
                decided.ports.push(plan);
            }
        }
        decided.ports.shrink_to_fit(); // kept as long as the Service is
        decided
    }

    fn port(
        &self,
        family: &FamilyRecord,
        port: &PortRecord,
        port_index: usize,
        conflicts: &mut Vec<Fault>,
    ) -> ServicePortPlan {
        let record = self.record;
        let uses = uses(record, family, port);
        let found = candidates(
            self.slices.iter().copied(),
            &port.name,
            port.protocol,
            family.family,
        );
        let chosen = choose(&found, uses, self.node.zone.as_deref());
        let mut serving = Vec::new();
        let is_tcp = port.protocol == Protocol::Tcp;
        if !is_tcp || record.drain_seconds.is_some() {
            let all = found.iter().filter(|c| c.endpoint.is_serving());
            serving.extend(all.map(|c| c.address));
        }
        ServicePortPlan {
            key: PortKey {
                service: self.key.clone(),
                port: port.name.clone(),
                protocol: port.protocol,
                family: family.family,
            },
            frontends: self.frontends(family, port, port_index, &chosen, conflicts),
            cluster: chosen.cluster,
            local: chosen.local,
            serving,
            scheduler: record.scheduler,
            drain_seconds: record.drain_seconds.filter(|_| is_tcp),
            affinity_seconds: record.affinity_seconds,
        }
    }

    fn frontends(
        &self,
        family: &FamilyRecord,
        port: &PortRecord,
        port_index: usize,
        chosen: &Chosen,
        conflicts: &mut Vec<Fault>,
    ) -> Vec<Frontend> {
        let internal = self.internal_targets(family, chosen);
        let external = self.external_targets(family, chosen);
        let mut frontends: Vec<Frontend> = Vec::new();
        for (kind, key) in family.frontends(port) {
            let FrontendKey {
                address,
                port: number,
                ..
            } = key;
            match self.claims.owner(&key) {
                Some(owner) if owner.service != *self.key || owner.port_index != port_index => {
                    let by = owner.service.clone();
                    conflicts.push(Fault::Conflict {
                        address,
                        port: number,
                        protocol: port.protocol,
                        by,
                    });
                    continue;
                }
                _ if frontends
                    .iter()
                    .any(|own| own.address == address && own.port == number) =>
                {
                    continue;
                }
                _ => {}
            }
            frontends.push(Frontend {
                kind,
                address,
                port: number,
                targets: if kind == FrontendKind::ClusterIp {
                    internal
                } else {
                    external
                },
                source_ranges: match (kind, address) {
                    (FrontendKind::LoadBalancerIp, Some(ip)) => self.source_ranges(family, ip),
                    _ => Vec::new(),
                },
            });
        }
        frontends.shrink_to_fit();
        frontends
    }

    /// Returns the targets of cluster IPs (EPT-07, EPT-09, EPT-14).
    fn internal_targets(&self, family: &FamilyRecord, chosen: &Chosen) -> [Target; 3] {
        let set = if self.record.is_internal_local {
            Set::Local
        } else {
            Set::Cluster
        };
        let detects_pods = self.settings.pods.covers(family.family);
        Origin::ALL.map(|origin| {
            let masquerade = self.settings.masquerade_all || (detects_pods && origin != Origin::Pod);
            balance(chosen, set, masquerade)
        })
    }

    /// Returns the targets of node ports, external IPs and load balancer IPs (EPT-08, EPT-09, EPT-13, EPT-16,
    /// EPT-17).
    fn external_targets(&self, family: &FamilyRecord, chosen: &Chosen) -> [Target; 3] {
        let detects_pods = self.settings.pods.covers(family.family);
        Origin::ALL.map(|origin| match origin {
            _ if !self.record.is_external_local => balance(chosen, Set::Cluster, true),
            Origin::Pod if detects_pods => balance(chosen, Set::Cluster, false),
            Origin::Node => balance(chosen, Set::Cluster, true),
            _ => balance(chosen, Set::Local, false),
        })
    }

    fn source_ranges(&self, family: &FamilyRecord, address: IpAddr) -> Vec<IpNet> {
        let mut ranges = family.source_ranges.to_vec();
        if ranges
            .iter()
            .any(|range| self.node.ips.iter().any(|ip| range.contains(ip)))
        {
            ranges.push(address.into());
        }
        ranges.sort_unstable();
        ranges.dedup();
        ranges
    }

    /// Returns the health check (HLT-06).
    fn health_check(&self) -> Option<HealthCheck> {
        let port = self.record.health_check_port?;
        let local = self.record.families.iter().map(|family| {
            let slices = self
                .slices
                .iter()
                .filter(|s| s.family == family.family && !s.ports.is_empty());
            let ready = slices
                .flat_map(|slice| &slice.endpoints)
                .filter(|e| e.is_local() && e.is_ready());
            ready
                .map(|endpoint| endpoint.address)
                .collect::<BTreeSet<IpAddr>>()
                .len()
        });
        Some(HealthCheck {
            port,
            local_endpoints: local.max().unwrap_or(0),
        })
    }
}

/// Returns the traffic policies that the frontends of a Service port use.
pub(crate) fn uses(record: &ServiceRecord, family: &FamilyRecord, port: &PortRecord) -> Uses {
    let is_accessible = family.is_externally_accessible(port);
    Uses {
        // External policy Local needs them, too, for connections from inside the cluster (EPT-08).
        cluster: !record.is_internal_local || is_accessible,
        local: record.is_internal_local || (record.is_external_local && is_accessible),
    }
}

/// Balances over a set. If the set is empty, packets are dropped while other endpoints are usable, and rejected
/// otherwise.
fn balance(chosen: &Chosen, set: Set, masquerade: bool) -> Target {
    let is_empty = match set {
        Set::Cluster => chosen.cluster.is_empty(),
        Set::Local => chosen.local.is_empty(),
    };
    match (is_empty, chosen.any) {
        (false, _) => Target::Balance { set, masquerade },
        (true, true) => Target::Drop,
        (true, false) => Target::Reject,
    }
}
