//! Differences between desired and observed load balancers.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use api::object::ObjectKey;
use plan::Family;

use crate::balancer::BalancerKey;
use crate::schema::{BALANCER_IPV6, HnsId, LoadBalancer};

/// A desired load balancer whose endpoints exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedLoadBalancer {
    /// Service.
    pub service: ObjectKey,
    /// Request for HNS, with sorted endpoints and without an identifier.
    pub request: LoadBalancer,
}

/// A step that brings HNS closer to the desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Deletes a load balancer.
    Delete(HnsId),
    /// Replaces the settings of a load balancer.
    Modify {
        /// Load balancer.
        id: HnsId,
        /// Its desired state.
        to: ResolvedLoadBalancer,
    },
    /// Creates a load balancer.
    Create(ResolvedLoadBalancer),
}

/// Returns the operations that turn `observed` into `desired`: deletions first, because HNS has one load balancer for an
/// address and port. All observed load balancers belong to the proxy, as for kube-proxy. `written` has the last request
/// for each load balancer of this process: HNS may return its fields in another form.
pub fn operations(
    desired: &BTreeMap<BalancerKey, ResolvedLoadBalancer>,
    observed: &[LoadBalancer],
    written: &HashMap<HnsId, LoadBalancer>,
    can_modify: bool,
) -> Vec<Operation> {
    let mut deletions = Vec::new();
    let mut by_key: BTreeMap<BalancerKey, Vec<&LoadBalancer>> = BTreeMap::new();
    for balancer in observed {
        match key_of(balancer).filter(|key| desired.contains_key(key)) {
            Some(key) => by_key.entry(key).or_default().push(balancer),
            None => deletions.push(Operation::Delete(balancer.id.clone())),
        }
    }
    let mut changes = Vec::new();
    for (key, resolved) in desired {
        let found = by_key.remove(key).unwrap_or_default();
        let current = found
            .iter()
            .position(|balancer| is_current(balancer, resolved, written));
        let kept = current.or_else(|| (can_modify && !found.is_empty()).then_some(0));
        for (index, balancer) in found.iter().enumerate() {
            let id = balancer.id.clone();
            if kept != Some(index) {
                deletions.push(Operation::Delete(id));
            } else if current.is_none() {
                let to = resolved.clone();
                changes.push(Operation::Modify { id, to });
            }
        }
        if kept.is_none() {
            changes.push(Operation::Create(resolved.clone()));
        }
    }
    deletions.append(&mut changes);
    deletions
}

/// Returns the identity of a load balancer; `None` if the proxy writes none of its form.
fn key_of(balancer: &LoadBalancer) -> Option<BalancerKey> {
    let ([mapping], [] | [_]) = (
        balancer.port_mappings.as_slice(),
        balancer.frontend_vips.as_slice(),
    ) else {
        return None;
    };
    let vip: Option<IpAddr> = match balancer.frontend_vips.first() {
        Some(text) => Some(text.parse().ok()?),
        None => None,
    };
    let family_by_flags = if balancer.flags & BALANCER_IPV6 == 0 {
        Family::V4
    } else {
        Family::V6
    };
    Some(BalancerKey {
        family: vip.map_or(family_by_flags, Family::of),
        vip,
        protocol: mapping.protocol,
        port: mapping.external_port,
    })
}

/// Returns true if an observed load balancer with the identity of `desired` needs no change.
fn is_current(
    observed: &LoadBalancer,
    desired: &ResolvedLoadBalancer,
    written: &HashMap<HnsId, LoadBalancer>,
) -> bool {
    let request = &desired.request;
    let mut endpoints = observed.endpoints.clone();
    endpoints.sort_unstable();
    let parse = |text: &str| text.parse::<IpAddr>().ok();
    let is_same = observed.port_mappings == request.port_mappings
        && observed.flags == request.flags
        && parse(&observed.source_vip) == parse(&request.source_vip);
    endpoints == request.endpoints && (is_same || written.get(&observed.id) == Some(request))
}

#[cfg(test)]
mod tests;
