//! Decisions for each Service port: its frontends, and their targets for each origin of connections.
//!
//! With `internalTrafficPolicy: Local`, a cluster IP has the local endpoints. With `externalTrafficPolicy: Local`,
//! connections from outside get the local endpoints, without masquerading. Connections from detected Pods and from
//! this node to these frontends get the endpoints of the cluster. Otherwise all frontends have the endpoints of the
//! cluster.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};
use ipnet::IpNet;

use crate::choice::{
    Candidate, ChosenEndpoints, UsedPolicies, candidate_count, candidates, choose, range_candidates,
    serving_nodes,
};
use crate::claims::{Claims, FrontendKey};
use crate::fault::Fault;
use crate::limits::PORT_ENDPOINTS_MAX;
use crate::port_ranges::PROTOCOLS;
use crate::service::{FamilyRecord, PortRecord, ServiceRecord};
use crate::settings::{NodeFacts, Settings};
use crate::slice::{EndpointRecord, SliceRecord};
use crate::types::{
    EndpointSet, Family, Frontend, FrontendKind, HealthCheck, Origin, PingPlan, PortKey, Scheduler,
    ServicePortPlan, Target,
};

/// Name of the port ranges in a [`PortKey`]. No Service port has it, because it is not a DNS label.
const RANGES_NAME: &str = "*";

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
pub(crate) struct ServiceDecisions {
    pub(crate) ports: Vec<ServicePortPlan>,
    /// Port ranges, one entry for each family and protocol that has some.
    pub(crate) ranges: Vec<ServicePortPlan>,
    /// Answers to echo requests, one entry for each family.
    pub(crate) pings: Vec<PingPlan>,
    /// Faults of frontends that other Services own.
    pub(crate) conflicts: Vec<Fault>,
    pub(crate) health_check: Option<HealthCheck>,
}

impl Inputs<'_> {
    /// Decides every port and family.
    pub(crate) fn decide(&self) -> ServiceDecisions {
        let mut decided = ServiceDecisions {
            health_check: self.health_check(),
            ..ServiceDecisions::default()
        };
        let mut ports_without_endpoints = 0;
        for family in &self.record.families {
            let mut endpoints_left = PORT_ENDPOINTS_MAX;
            for (index, port) in self.record.ports.iter().enumerate() {
                let found = self.endpoints(family, port, &mut endpoints_left);
                ports_without_endpoints += usize::from(found.is_none());
                let found = found.unwrap_or_default();
                let plan = self.port(family, port, index, &found, &mut decided.conflicts);
                decided.ports.push(plan);
            }
            for protocol in PROTOCOLS {
                let plan = self.ranges(family, protocol, &mut decided.conflicts);
                decided.ranges.extend(plan);
            }
        }
        if ports_without_endpoints > 0 {
            let ports = ports_without_endpoints;
            decided.conflicts.push(Fault::PortEndpoints { ports });
        }
        decided.pings = self.pings(&decided.ports, &decided.ranges);
        decided.ports.shrink_to_fit(); // kept as long as the Service is
        decided
    }

    /// Returns the endpoints of a Service port, and subtracts them from those that the Service may still have in the
    /// family. Returns `None` if they are more.
    fn endpoints(
        &self,
        family: &FamilyRecord,
        port: &PortRecord,
        endpoints_left: &mut usize,
    ) -> Option<Vec<Candidate<'_>>> {
        let slices = || self.slices.iter().copied();
        let count = candidate_count(slices(), &port.name, port.protocol, family.family);
        *endpoints_left = endpoints_left.checked_sub(count)?;
        Some(candidates(slices(), &port.name, port.protocol, family.family))
    }

    /// Returns the plan of a Service port in one family. Frontends that another Service owns are conflicts.
    fn port(
        &self,
        family: &FamilyRecord,
        port: &PortRecord,
        port_index: usize,
        found: &[Candidate<'_>],
        conflicts: &mut Vec<Fault>,
    ) -> ServicePortPlan {
        let record = self.record;
        let used = used_policies(record, family, port);
        let chosen = choose(found, used, self.node.zone.as_deref());
        let mut serving = Vec::new();
        let is_tcp = port.protocol == Protocol::Tcp;
        if !is_tcp || record.drain_seconds.is_some() {
            let all = found
                .iter()
                .filter(|candidate| flows_continue(record, port.protocol, candidate.endpoint));
            serving.extend(all.map(|candidate| candidate.address));
        }
        ServicePortPlan {
            key: PortKey {
                service: self.key.clone(),
                port: port.name.clone(),
                protocol: port.protocol,
                family: family.family,
            },
            is_range: false,
            serving_nodes: is_two_tier(record, family)
                .then(|| serving_nodes(found, &self.settings.node_name)),
            frontends: self.frontends(family, port, port_index, &chosen, conflicts),
            cluster: chosen.cluster,
            local: chosen.local,
            serving,
            scheduler: record.scheduler,
            drain_seconds: record.drain_seconds.filter(|_| is_tcp),
            connection_age_max_seconds: record.connection_age_max_seconds.filter(|_| is_tcp),
            rebalance_percent: record.rebalance_percent.filter(|_| is_tcp),
            affinity_seconds: record.affinity_seconds,
        }
    }

    /// Returns the frontends of a port in a family, and adds conflicts with other Services.
    fn frontends(
        &self,
        family: &FamilyRecord,
        port: &PortRecord,
        port_index: usize,
        chosen: &ChosenEndpoints,
        conflicts: &mut Vec<Fault>,
    ) -> Vec<Frontend> {
        let internal = self.internal_targets(family, chosen);
        let is_external_local = self.record.is_external_local;
        let external = self.external_targets(family, chosen, is_external_local);
        let balanced = self.external_targets(
            family,
            chosen,
            is_external_local || is_two_tier(self.record, family),
        );
        let mut frontends: Vec<Frontend> = Vec::new();
        let mut seen = HashSet::new();
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
                _ if !seen.insert((address, number)) => continue,
                _ => {}
            }
            frontends.push(Frontend {
                kind,
                address,
                port: number,
                last_port: number,
                targets: match kind {
                    FrontendKind::ClusterIp => internal,
                    FrontendKind::LoadBalancerIp => balanced,
                    FrontendKind::ExternalIp | FrontendKind::NodePort => external,
                },
                source_ranges: address.map_or_else(Vec::new, |ip| self.source_ranges_of(kind, family, ip)),
            });
        }
        frontends.shrink_to_fit();
        frontends
    }

    /// Decides the port ranges of a protocol; `None` if no range is served.
    fn ranges(
        &self,
        family: &FamilyRecord,
        protocol: Protocol,
        conflicts: &mut Vec<Fault>,
    ) -> Option<ServicePortPlan> {
        let record = self.record;
        record.port_ranges.of(protocol).next()?;
        let port = PortRecord {
            name: RANGES_NAME.into(),
            protocol,
            port: 0,
            node_port: 0,
        };
        let found = range_candidates(self.slices.iter().copied(), family.family);
        let chosen = choose(
            &found,
            used_policies(record, family, &port),
            self.node.zone.as_deref(),
        );
        let frontends = self.range_frontends(family, protocol, &chosen, conflicts);
        let serving = found.iter().filter(|candidate| {
            protocol != Protocol::Tcp && flows_continue(record, protocol, candidate.endpoint)
        });
        (!frontends.is_empty()).then(|| ServicePortPlan {
            key: PortKey {
                service: self.key.clone(),
                port: port.name,
                protocol,
                family: family.family,
            },
            is_range: true,
            serving: serving.map(|candidate| candidate.address).collect(),
            frontends,
            cluster: chosen.cluster,
            local: chosen.local,
            scheduler: Scheduler::Maglev,
            drain_seconds: None,
            connection_age_max_seconds: None,
            rebalance_percent: None,
            affinity_seconds: record.affinity_seconds,
            serving_nodes: None,
        })
    }

    /// Returns the frontends of the port ranges of a protocol. Frontends that another Service owns are conflicts.
    fn range_frontends(
        &self,
        family: &FamilyRecord,
        protocol: Protocol,
        chosen: &ChosenEndpoints,
        conflicts: &mut Vec<Fault>,
    ) -> Vec<Frontend> {
        let mut frontends = Vec::new();
        for (kind, address) in family.addresses() {
            let is_at_other_node = self.record.is_at_nodes && kind == FrontendKind::LoadBalancerIp;
            if is_at_other_node || self.node.has_address(address) {
                let fault = Fault::RangeAtNode { address };
                if !conflicts.contains(&fault) {
                    conflicts.push(fault);
                }
                continue;
            }
            for range in self.record.port_ranges.of(protocol) {
                let owner = self.claims.range_owner(address, protocol, range);
                match owner.filter(|owner| *owner != self.key) {
                    Some(owner) => conflicts.push(Fault::RangeConflict {
                        address,
                        first: range.first(),
                        last: range.last(),
                        protocol,
                        by: owner.clone(),
                    }),
                    None => frontends.push(Frontend {
                        kind,
                        address: Some(address),
                        port: range.first(),
                        last_port: range.last(),
                        targets: self.targets(kind, family, chosen),
                        source_ranges: self.source_ranges_of(kind, family, address),
                    }),
                }
            }
        }
        frontends
    }

    fn targets(&self, kind: FrontendKind, family: &FamilyRecord, chosen: &ChosenEndpoints) -> [Target; 3] {
        match kind {
            FrontendKind::ClusterIp => self.internal_targets(family, chosen),
            _ => self.external_targets(family, chosen, self.record.is_external_local),
        }
    }

    /// Returns the allowed sources of an address; empty for all.
    pub(crate) fn source_ranges_of(
        &self,
        kind: FrontendKind,
        family: &FamilyRecord,
        address: IpAddr,
    ) -> Vec<IpNet> {
        match kind {
            FrontendKind::LoadBalancerIp => self.source_ranges(family, address),
            _ => Vec::new(),
        }
    }

    /// Returns the targets of cluster IPs (EPT-07, EPT-09, EPT-14).
    fn internal_targets(&self, family: &FamilyRecord, chosen: &ChosenEndpoints) -> [Target; 3] {
        let set = if self.record.is_internal_local {
            EndpointSet::Local
        } else {
            EndpointSet::Cluster
        };
        let detects_pods = self.settings.pods.covers(family.family);
        Origin::ALL.map(|origin| {
            let masquerade = self.settings.masquerade_all || (detects_pods && origin != Origin::Pod);
            balance(chosen, set, masquerade)
        })
    }

    /// Returns the targets of node ports, external IPs and load balancer IPs (EPT-08, EPT-09, EPT-13, EPT-16,
    /// EPT-17). `is_local`: connections from outside get the endpoints of this node.
    fn external_targets(
        &self,
        family: &FamilyRecord,
        chosen: &ChosenEndpoints,
        is_local: bool,
    ) -> [Target; 3] {
        let detects_pods = self.settings.pods.covers(family.family);
        Origin::ALL.map(|origin| match origin {
            _ if !is_local => balance(chosen, EndpointSet::Cluster, true),
            Origin::Pod if detects_pods => balance(chosen, EndpointSet::Cluster, false),
            Origin::Node => balance(chosen, EndpointSet::Cluster, true),
            _ => balance(chosen, EndpointSet::Local, false),
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
        let local_endpoints = [Family::V4, Family::V6].map(|family| {
            let has_family = self.record.families.iter().any(|own| own.family == family);
            let slices = self
                .slices
                .iter()
                .filter(|slice| slice.family == family && !slice.ports.is_empty());
            let ready = slices
                .flat_map(|slice| &slice.endpoints)
                .filter(|endpoint| endpoint.is_local() && endpoint.is_ready());
            let addresses: BTreeSet<IpAddr> = ready.map(|endpoint| endpoint.address).collect();
            has_family.then_some(addresses.len())
        });
        Some(HealthCheck {
            port,
            local_endpoints,
        })
    }
}

/// Returns the traffic policies that the frontends of a Service port use.
pub(crate) fn used_policies(
    record: &ServiceRecord,
    family: &FamilyRecord,
    port: &PortRecord,
) -> UsedPolicies {
    let is_accessible = family.is_externally_accessible(port);
    UsedPolicies {
        // External policy Local needs them, too, for connections from inside the cluster (EPT-08).
        cluster: !record.is_internal_local || is_accessible,
        local: record.is_internal_local
            || (record.is_external_local && is_accessible)
            || is_two_tier(record, family),
    }
}

/// Returns true if the load balancer IPs of a family have two-tier forwarding.
fn is_two_tier(record: &ServiceRecord, family: &FamilyRecord) -> bool {
    record.is_two_tier && !family.ingress_ips.is_empty()
}

/// Returns true if flows to an endpoint continue (EPT-22).
fn flows_continue(record: &ServiceRecord, protocol: Protocol, endpoint: &EndpointRecord) -> bool {
    let keeps_unready = record.keeps_unready_flows && protocol != Protocol::Tcp;
    endpoint.is_serving() || (keeps_unready && !endpoint.is_terminating())
}

/// Balances over a set. If the set is empty, packets are dropped while other endpoints are usable, and rejected
/// otherwise.
fn balance(chosen: &ChosenEndpoints, set: EndpointSet, masquerade: bool) -> Target {
    let is_empty = match set {
        EndpointSet::Cluster => chosen.cluster.is_empty(),
        EndpointSet::Local => chosen.local.is_empty(),
    };
    match (is_empty, chosen.has_usable_endpoint) {
        (false, _) => Target::Balance { set, masquerade },
        (true, true) => Target::Drop,
        (true, false) => Target::Reject,
    }
}

#[cfg(test)]
mod tests;
