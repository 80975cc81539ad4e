//! Choice of the frontends that eBPF serves. At such a frontend, all clients of this node have the same verdict,
//! regardless of their address. The nftables rules serve all other frontends.

use std::net::SocketAddr;

use api::object::{ObjectKey, Protocol};
use plan::{EndpointSet, Frontend, FrontendKind, Origin, Plan, PortKey, Scheduler, ServicePortPlan, Target};

use super::layout::ENDPOINTS_MAX;

/// Frontends of a Service port with the same endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Service port.
    pub port: PortKey,
    /// Endpoint set; `None` if connections are rejected.
    pub set: Option<EndpointSet>,
    /// Endpoints.
    pub endpoints: Vec<SocketAddr>,
    /// Addresses and ports of the frontends.
    pub frontends: Vec<SocketAddr>,
}

impl Group {
    /// Returns the attributes that the states of a group have in common.
    pub(super) fn identity(&self) -> (&PortKey, Option<EndpointSet>) {
        (&self.port, self.set)
    }
}

/// Features of the kernel and of this process, on which the choice depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelFeatures {
    /// True if the kernel has `bpf_set_retval`, so that frontends without endpoints are served.
    pub can_refuse: bool,
    /// True if this process can destroy the sockets of clients, so that Services with `drain-seconds` are served.
    pub can_destroy: bool,
}

/// Returns the groups of a Service.
pub(super) fn groups(plan: &Plan, service: &ObjectKey, features: KernelFeatures) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for port in plan.ports_of(service).filter(|port| is_served(port, features)) {
        let detects_pods = plan.settings().pods.covers(port.key.family);
        let first_of_port = groups.len();
        for frontend in &port.frontends {
            let (Some(address), Some(set)) = (
                frontend.address,
                endpoints_for_local_clients(frontend, detects_pods),
            ) else {
                continue;
            };
            let at = SocketAddr::new(address, frontend.port);
            let mut port_groups = groups.iter_mut().skip(first_of_port);
            match port_groups.find(|group| group.set == set) {
                Some(group) => group.frontends.push(at),
                None => groups.push(Group {
                    port: port.key.clone(),
                    set,
                    endpoints: endpoints(port, set),
                    frontends: vec![at],
                }),
            }
        }
    }
    groups.retain(|group| {
        group.endpoints.len() <= ENDPOINTS_MAX && (group.set.is_some() || features.can_refuse)
    });
    groups
}

fn endpoints(port: &ServicePortPlan, set: Option<EndpointSet>) -> Vec<SocketAddr> {
    let backends = set.map(|set| port.backends(set)).unwrap_or_default();
    backends.iter().map(|backend| backend.address).collect()
}

/// Returns true if two conditions hold for a Service port. The choice of its endpoints does not depend on the client.
/// Its connections end by themselves or by the destruction of their sockets. Age and number of connections are read
/// from connection tracking, where those of eBPF have no Service.
fn is_served(port: &ServicePortPlan, features: KernelFeatures) -> bool {
    port.key.protocol == Protocol::Tcp
        && !port.is_range
        && port.affinity_seconds.is_none()
        && port.scheduler == Scheduler::Random
        && (port.drain_seconds.is_none() || features.can_destroy)
        && port.connection_age_max_seconds.is_none()
        && port.rebalance_percent.is_none()
}

/// Returns the endpoint set for all clients of this node, with `None` for refusal. There is no result if clients
/// differ, if packets are dropped, or if the address of Pods is masqueraded.
fn endpoints_for_local_clients(frontend: &Frontend, detects_pods: bool) -> Option<Option<EndpointSet>> {
    if frontend.kind == FrontendKind::NodePort || !frontend.source_ranges.is_empty() {
        return None;
    }
    // Without detection, connections of Pods count as connections from outside.
    let pod_target = frontend.target(if detects_pods {
        Origin::Pod
    } else {
        Origin::Outside
    });
    // A client on this node that detection misses counts as one from outside.
    let others = [frontend.target(Origin::Node), frontend.target(Origin::Outside)];
    match pod_target {
        Target::Reject if others.iter().all(|other| matches!(other, Target::Reject)) => Some(None),
        Target::Balance {
            set,
            masquerade: false,
        } => {
            // Connections of the node have one of its addresses in any case.
            let is_same =
                |other: &Target| matches!(other, Target::Balance { set: of_other, .. } if *of_other == set);
            others.iter().all(is_same).then_some(Some(set))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
