//! Answers to echo requests (ping).
//!
//! The node answers an echo request to a cluster IP or load balancer IP of a Service. The condition is that one of
//! its ports has an endpoint for the origin of the request. Without an endpoint, the node rejects or drops echo
//! requests like the first packets of connections. Echo requests to external IPs pass, because external IPs are often
//! addresses of hosts that answer themselves.

use crate::ports::Inputs;
use crate::types::{EndpointSet, Frontend, FrontendKind, PingPlan, ServicePortPlan, Target};

impl Inputs<'_> {
    /// Decides about echo requests; `ports` and `ranges` are the decisions for this Service.
    pub(crate) fn pings(&self, ports: &[ServicePortPlan], ranges: &[ServicePortPlan]) -> Vec<PingPlan> {
        let families = self.record.families.iter();
        let answered =
            families.filter(|family| self.settings.ping_address(self.node, family.family).is_some());
        answered
            .filter_map(|family| {
                let own: Vec<&ServicePortPlan> = ports
                    .iter()
                    .chain(ranges)
                    .filter(|port| port.key.family == family.family)
                    .collect();
                let mut frontends = Vec::new();
                for (kind, address) in family.ping_addresses() {
                    let is_owner = self.claims.ping_owner(address) == Some(self.key);
                    let is_at_node = kind != FrontendKind::ClusterIp && self.node.has_address(address);
                    let here = own.iter().flat_map(|port| {
                        let at = port.frontends.iter();
                        at.filter(move |frontend| frontend.address == Some(address))
                            .map(move |frontend| targets_of_pings(port, frontend))
                    });
                    let targets = here.reduce(best_of_each);
                    let Some(targets) = targets.filter(|_| is_owner && !is_at_node) else {
                        continue;
                    };
                    frontends.push(Frontend {
                        kind,
                        address: Some(address),
                        port: 0,
                        last_port: 0,
                        targets: targets.map(without_masquerade),
                        source_ranges: self.source_ranges_of(kind, family, address),
                    });
                }
                (!frontends.is_empty()).then(|| PingPlan {
                    service: self.key.clone(),
                    family: family.family,
                    frontends,
                })
            })
            .collect()
    }
}

/// Returns the targets of a frontend. With two-tier forwarding, endpoints of other nodes count, too: this node receives
/// the connections.
fn targets_of_pings(port: &ServicePortPlan, frontend: &Frontend) -> [Target; 3] {
    let is_forwarded = frontend.kind == FrontendKind::LoadBalancerIp
        && port
            .serving_nodes
            .as_ref()
            .is_some_and(|nodes| nodes.iter().any(|node| node.endpoints > 0));
    frontend.targets.map(|target| match target {
        Target::Drop if is_forwarded => Target::Balance {
            set: EndpointSet::Cluster,
            masquerade: false,
        },
        target => target,
    })
}

/// Returns for each origin the target that comes closest to an endpoint.
fn best_of_each(one: [Target; 3], other: [Target; 3]) -> [Target; 3] {
    let [a, b, c] = one;
    let [d, e, f] = other;
    [
        preferred_target(a, d),
        preferred_target(b, e),
        preferred_target(c, f),
    ]
}

fn preferred_target(one: Target, other: Target) -> Target {
    match (one, other) {
        (Target::Balance { .. }, _) => one,
        (_, Target::Balance { .. }) => other,
        (Target::Drop, _) | (_, Target::Drop) => Target::Drop,
        (Target::Reject, Target::Reject) => Target::Reject,
    }
}

/// The node answers itself, so the source of an echo request stays.
fn without_masquerade(target: Target) -> Target {
    match target {
        Target::Balance { set, .. } => Target::Balance {
            set,
            masquerade: false,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests;
