//! Update of one Service: the writes and Events that lead from its observed to its desired state.

use std::net::IpAddr;

use api::object::Service;
use client::events::EventText;

use super::findings::Findings;
use super::state::{addresses_of, has_finalizer};
use super::{
    ANNOTATIONS_CONDITION, ANNOUNCED_CONDITION, ASSIGNED_CONDITION, Assignment, CONDITIONS, FINALIZER,
    IngressMode, NODE_ADDRESSES_REASON, ServiceUpdate, StatusChange,
};
use crate::metallb::POOL_ANNOTATION;
use crate::two_tier::POOL_TWO_TIER_ANNOTATION;

/// Returns the message of a condition; empty without it.
pub(super) fn condition_message<'s>(service: &'s Service, kind: &str) -> &'s str {
    let mut conditions = service.status.conditions.iter();
    let condition = conditions.find(|condition| condition.kind == kind);
    condition.map_or("", |condition| &condition.message)
}

/// Returns the update of a Service with a load balancer (CCM-02, CCM-10).
pub(super) fn assign(
    service: &Service,
    mut assignment: Assignment,
    findings: &Findings,
) -> Option<ServiceUpdate> {
    assignment.keeps_status = !assignment.failure.is_empty() && is_of_another_controller(service);
    let adds_finalizer = !has_finalizer(service) && !assignment.addresses.is_empty();
    let is_assigned =
        !adds_finalizer && has_result(service, &assignment) && has_addresses(service, &assignment);
    let are_findings_current = condition_message(service, ANNOTATIONS_CONDITION) == assignment.findings;
    let is_announcement_current =
        condition_message(service, ANNOUNCED_CONDITION) == assignment.announcement_failure;
    let is_status_current = is_assigned
        && are_findings_current
        && is_announcement_current
        && has_port_states(service, &assignment);
    let pools = (pools_of_annotation(service) != assignment.pools).then(|| assignment.pools.clone());
    let is_pool_two_tier = assignment.is_pool_two_tier;
    let pool_two_tier = (is_recorded_two_tier(service) != is_pool_two_tier).then_some(is_pool_two_tier);
    if is_status_current && pools.is_none() && pool_two_tier.is_none() {
        return None;
    }
    let mut update = ServiceUpdate {
        adds_finalizer,
        pools,
        pool_two_tier,
        ..ServiceUpdate::default()
    };
    if is_status_current {
        return Some(update);
    }
    if !are_findings_current {
        update.events_after.extend(findings.events());
    }
    if !is_announcement_current && !assignment.announcement_failure.is_empty() {
        let message = assignment.announcement_failure.as_str();
        update
            .events_after
            .push(EventText::warning("UnAvailableLoadBalancer", message));
    }
    if !is_assigned {
        if assignment.failure.is_empty() {
            update.add_ensured_events();
            update.add_allocated_events(service, &assignment);
        } else {
            update.add_failure_events(service, &assignment.failure);
        }
    }
    update.status = Some(StatusChange::Set(assignment));
    Some(update)
}

impl ServiceUpdate {
    /// Adds upstream's Events around the configuration of a load balancer (CCM-02).
    fn add_ensured_events(&mut self) {
        self.events_before.push(EventText::normal(
            "EnsuringLoadBalancer",
            "Ensuring load balancer",
        ));
        self.events_after
            .push(EventText::normal("EnsuredLoadBalancer", "Ensured load balancer"));
    }

    /// Adds MetalLB's Events about addresses.
    fn add_allocated_events(&mut self, service: &Service, assignment: &Assignment) {
        let before = addresses_of(service);
        if assignment.is_of_nodes {
            self.add_nodes_event(&before, &assignment.addresses);
            return;
        }
        let new = assignment
            .addresses
            .iter()
            .filter(|address| !before.contains(address));
        let new: Vec<String> = new.map(|address| format!("{:?}", address.to_string())).collect();
        if !new.is_empty() {
            let message = format!("Assigned IP [{}]", new.join(" "));
            self.events_after.push(EventText::normal("IPAllocated", message));
        }
        if !assignment.missing_family.is_empty() {
            let message = format!(
                "cannot assign additional IP in PreferDualStack: no free address of family {}",
                assignment.missing_family
            );
            self.events_after
                .push(EventText::normal("AdditionalAssignFailed", message));
        }
    }

    /// Adds the Event of k3s' ServiceLB about addresses of nodes (LBK-15).
    fn add_nodes_event(&mut self, before: &[IpAddr], after: &[IpAddr]) {
        let list = |addresses: &[IpAddr]| {
            let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            format!("[{}]", addresses.join(" "))
        };
        if before != after {
            let (before, after) = (list(before), list(after));
            let message = format!("Updated LoadBalancer with new IPs: {before} -> {after}");
            self.events_after
                .push(EventText::normal("UpdatedLoadBalancer", message));
        }
    }

    /// Adds upstream's and MetalLB's Events about a failure.
    fn add_failure_events(&mut self, service: &Service, failure: &str) {
        let message = format!("Error syncing load balancer: failed to ensure load balancer: {failure}");
        self.events_after
            .push(EventText::warning("SyncLoadBalancerFailed", message));
        let key = service.metadata.key().to_string();
        let message = format!("Failed to allocate IP for {key:?}: {failure}");
        self.events_after
            .push(EventText::warning("AllocationFailed", message));
    }
}

/// Returns the value of the annotation with the pools; empty without it.
fn pools_of_annotation(service: &Service) -> &str {
    service
        .metadata
        .annotations
        .get(POOL_ANNOTATION)
        .map_or("", String::as_str)
}

/// Returns true if the request of the pools for two-tier forwarding is recorded.
fn is_recorded_two_tier(service: &Service) -> bool {
    let value = service.metadata.annotations.get(POOL_TWO_TIER_ANNOTATION);
    value.is_some_and(|value| value == "true")
}

/// Returns the update of a Service without a load balancer (CCM-03).
///
/// A Service that is being deleted keeps its status, unless other finalizers keep the Service. In that case the nodes
/// would still serve the addresses in its status, although other Services may get them.
pub(super) fn clean_up(service: &Service) -> Option<ServiceUpdate> {
    let has_finalizer = has_finalizer(service);
    let has_condition = |kind: &str| CONDITIONS.contains(&kind);
    let mut conditions = service.status.conditions.iter();
    let has_status = !service.status.load_balancer.ingress.is_empty()
        || conditions.any(|condition| has_condition(&condition.kind));
    let has_pools = !pools_of_annotation(service).is_empty();
    let is_deleted = service.metadata.deletion_timestamp.is_some();
    let is_kept = service.metadata.finalizers.iter().any(|name| name != FINALIZER);
    let clears_status = has_status && (is_kept || !is_deleted);
    if !has_finalizer && !clears_status {
        return None;
    }
    Some(ServiceUpdate {
        events_before: vec![EventText::normal(
            "DeletingLoadBalancer",
            "Deleting load balancer",
        )],
        adds_finalizer: false,
        pools: (has_pools && !is_deleted).then(String::new),
        pool_two_tier: (is_recorded_two_tier(service) && !is_deleted).then_some(false),
        status: clears_status.then_some(StatusChange::Clear),
        removes_finalizer: has_finalizer,
        events_after: vec![EventText::normal("DeletedLoadBalancer", "Deleted load balancer")],
    })
}

/// Returns true if the assigner has given the Service no address: those in its status are of another controller, such
/// as MetalLB.
fn is_of_another_controller(service: &Service) -> bool {
    !has_finalizer(service) && !has_assigned_addresses(service)
}

/// Returns true if the addresses in the status are those that the assigner has given.
pub(super) fn has_assigned_addresses(service: &Service) -> bool {
    let mut conditions = service.status.conditions.iter();
    conditions.any(|condition| condition.kind == ASSIGNED_CONDITION && condition.status == "True")
}

/// Returns true if the addresses that the assigner has given are those of nodes.
pub(super) fn has_node_addresses(service: &Service) -> bool {
    let mut conditions = service.status.conditions.iter();
    let is_of_nodes = conditions
        .any(|condition| condition.kind == ASSIGNED_CONDITION && condition.reason == NODE_ADDRESSES_REASON);
    is_of_nodes && has_assigned_addresses(service)
}

/// Returns true if the condition of the status has the result of the assignment.
fn has_result(service: &Service, assignment: &Assignment) -> bool {
    let is_success = assignment.failure.is_empty();
    let status = if is_success { "True" } else { "False" };
    let mut conditions = service.status.conditions.iter();
    let condition = conditions.find(|condition| condition.kind == ASSIGNED_CONDITION);
    condition.is_some_and(|condition| {
        condition.status == status && (is_success || condition.message == assignment.failure)
    })
}

/// Returns true if the status contains the current states of ports.
fn has_port_states(service: &Service, assignment: &Assignment) -> bool {
    if assignment.keeps_status {
        return true;
    }
    service.status.load_balancer.ingress.iter().all(|ingress| {
        let ip = ingress.ip.parse::<IpAddr>().ok();
        let states = ip.and_then(|ip| assignment.port_states.get(&ip));
        states.map_or(&[][..], Vec::as_slice) == ingress.ports.as_slice()
    })
}

/// Returns true if the status contains the assigned addresses, apart from the states of ports.
fn has_addresses(service: &Service, assignment: &Assignment) -> bool {
    if assignment.keeps_status {
        return true;
    }
    let ingress = &service.status.load_balancer.ingress;
    let hostname = assignment.hostname.as_deref().unwrap_or_default();
    let are_current = ingress.iter().all(|ingress| {
        ingress.ip.parse::<IpAddr>().is_ok()
            && ingress.hostname == hostname
            && IngressMode::of(ingress) == assignment.mode
    });
    are_current && addresses_of(service) == assignment.addresses
}

/// Adds Events about changes of the Service (CCM-08), which are applied already or by this update.
pub(super) fn with_spec_changes(
    service: &Service,
    update: Option<ServiceUpdate>,
    events: Option<Vec<EventText>>,
) -> Option<ServiceUpdate> {
    let Some(events) = events else { return update };
    let mut update = update.unwrap_or_default();
    let has_reason = |events: &[EventText], reason| events.iter().any(|event| event.reason == reason);
    let is_failure = has_reason(&update.events_after, "SyncLoadBalancerFailed");
    let is_ensured = has_reason(&update.events_before, "EnsuringLoadBalancer");
    if has_finalizer(service) && !is_failure && !is_ensured {
        update.add_ensured_events();
    }
    update.events_before.splice(..0, events);
    let is_empty = update == ServiceUpdate::default();
    (!is_empty).then_some(update)
}
