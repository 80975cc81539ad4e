//! Changes of a Service that concern its load balancer, and Events about them (CCM-08: upstream's `needsUpdate`).

use std::fmt::Display;

use api::object::{Protocol, Service};

use crate::metallb::{POOL_ANNOTATION, POOL_ANNOTATION_BEFORE};
use crate::two_tier::POOL_TWO_TIER_ANNOTATION;
use client::events::EventText;

/// Events about the change from `old` to `new`; `None` if it does not concern the load balancer. Upstream
/// reports the first difference only.
pub(super) fn events(old: &Service, new: &Service) -> Option<Vec<EventText>> {
    let is_load_balancer = |service: &Service| service.spec.kind == "LoadBalancer";
    let mut events = Vec::new();
    if is_load_balancer(old) != is_load_balancer(new) {
        events.push(EventText::normal("Type", change(&old.spec.kind, &new.spec.kind)));
        return Some(events);
    }
    if !is_load_balancer(new) {
        return None;
    }
    let (before, after) = (&old.spec, &new.spec);
    let mut has_changed = false;
    let mut differs = |is_different: bool| {
        has_changed |= is_different;
        is_different
    };
    let list = |items: &[String]| format!("[{}]", items.join(" "));
    if differs(before.load_balancer_source_ranges != after.load_balancer_source_ranges) {
        let text = change(
            list(&before.load_balancer_source_ranges),
            list(&after.load_balancer_source_ranges),
        );
        events.push(EventText::normal("LoadBalancerSourceRanges", text));
    }
    differs(ports(old) != ports(new));
    differs(before.session_affinity != after.session_affinity);
    differs(before.affinity_timeout_seconds() != after.affinity_timeout_seconds());
    if differs(before.load_balancer_ip != after.load_balancer_ip) {
        let text = change(&before.load_balancer_ip, &after.load_balancer_ip);
        events.push(EventText::normal("LoadbalancerIP", text));
    }
    if differs(before.external_ips.len() != after.external_ips.len()) {
        let text = change(before.external_ips.len(), after.external_ips.len());
        events.push(EventText::normal("ExternalIP", format!("Count: {text}")));
    }
    for address in &after.external_ips {
        if differs(!before.external_ips.contains(address)) {
            events.push(EventText::normal("ExternalIP", format!("Added: {address}")));
        }
    }
    differs(!annotations(old).eq(annotations(new)));
    if differs(before.external_traffic_policy != after.external_traffic_policy) {
        let text = change(&before.external_traffic_policy, &after.external_traffic_policy);
        events.push(EventText::normal("ExternalTrafficPolicy", text));
    }
    if differs(before.health_check_node_port != after.health_check_node_port) {
        let text = change(before.health_check_node_port, after.health_check_node_port);
        events.push(EventText::normal("HealthCheckNodePort", text));
    }
    differs(before.ip_families.len() != after.ip_families.len());
    has_changed.then_some(events)
}

/// Returns the text of a change, as upstream's Events have it.
fn change(before: impl Display, after: impl Display) -> String {
    format!("{before} -> {after}")
}

/// Returns the annotations, without those that the assigner writes.
fn annotations(service: &Service) -> impl Iterator<Item = (&String, &String)> {
    let annotations = service.metadata.annotations.iter();
    let own = [POOL_ANNOTATION, POOL_ANNOTATION_BEFORE, POOL_TWO_TIER_ANNOTATION];
    annotations.filter(move |(name, _)| !own.contains(&name.as_str()))
}

/// Returns the fields of ports that upstream compares; target ports are not among them.
fn ports(service: &Service) -> Vec<(&str, Protocol, u16, u16)> {
    let ports = service.spec.ports.iter();
    ports
        .map(|port| (port.name.as_str(), port.protocol, port.port, port.node_port))
        .collect()
}
