//! What about a Service lets its load balancer be looked at anew, and what is told of it (CCM-08: upstream's
//! `needsUpdate` with its Events).

use api::object::{Protocol, Service};

use super::Told;
use super::judge::normal;

/// What is told of the change from `old` to `new`; `None` if it does not concern the load balancer. Upstream looks at
/// one difference after the other and stops at the first one; here all are told.
pub(super) fn of(old: &Service, new: &Service) -> Option<Vec<Told>> {
    let wants_one = |service: &Service| service.spec.kind == "LoadBalancer";
    let mut told = Vec::new();
    if wants_one(old) != wants_one(new) {
        told.push(normal("Type", format!("{} -> {}", old.spec.kind, new.spec.kind)));
        return Some(told);
    }
    if !wants_one(new) {
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
        let ranges = [
            list(&before.load_balancer_source_ranges),
            list(&after.load_balancer_source_ranges),
        ];
        told.push(normal("LoadBalancerSourceRanges", ranges.join(" -> ")));
    }
    differs(ports(old) != ports(new));
    differs(before.session_affinity != after.session_affinity);
    differs(before.affinity_timeout_seconds() != after.affinity_timeout_seconds());
    if differs(before.load_balancer_ip != after.load_balancer_ip) {
        let text = format!("{} -> {}", before.load_balancer_ip, after.load_balancer_ip);
        told.push(normal("LoadbalancerIP", text));
    }
    if differs(before.external_ips.len() != after.external_ips.len()) {
        let text = format!(
            "Count: {} -> {}",
            before.external_ips.len(),
            after.external_ips.len()
        );
        told.push(normal("ExternalIP", text));
    }
    for address in &after.external_ips {
        if differs(!before.external_ips.contains(address)) {
            told.push(normal("ExternalIP", format!("Added: {address}")));
        }
    }
    differs(old.metadata.annotations != new.metadata.annotations);
    if differs(before.external_traffic_policy != after.external_traffic_policy) {
        let text = format!(
            "{} -> {}",
            before.external_traffic_policy, after.external_traffic_policy
        );
        told.push(normal("ExternalTrafficPolicy", text));
    }
    if differs(before.health_check_node_port != after.health_check_node_port) {
        let text = format!(
            "{} -> {}",
            before.health_check_node_port, after.health_check_node_port
        );
        told.push(normal("HealthCheckNodePort", text));
    }
    differs(before.ip_families.len() != after.ip_families.len());
    has_changed.then_some(told)
}

/// What upstream compares of ports: where backends listen is not its business.
fn ports(service: &Service) -> Vec<(&str, Protocol, u16, u16)> {
    let ports = service.spec.ports.iter();
    ports
        .map(|port| (port.name.as_str(), port.protocol, port.port, port.node_port))
        .collect()
}
