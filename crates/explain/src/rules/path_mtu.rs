//! PTL-0050: large packets do not pass.

use std::net::IpAddr;

use super::pod_route;
use crate::facts::observed_node::observed_nodes;
use crate::facts::probes::{self, ObservedProbe};
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::observation::{NodeObservation, Outcome, Probe, ProbeKind};
use crate::rule::Rule;
use crate::subject::Subject;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("path_mtu.md"),
    explained_by: &[pod_route::CODE],
    service: Some(check),
    cluster: Some(check_other_targets),
};

pub(super) const CODE: Code = Code(50);
/// Bytes of the headers of IPv4 and ICMP.
const HEADERS_BYTES_V4: u32 = 28;
/// Bytes of the headers of IPv6 and ICMPv6.
const HEADERS_BYTES_V6: u32 = 48;

/// A size that passes, and a larger one that receives no response.
struct Limit<'w> {
    found: ObservedProbe<'w>,
    passed_bytes: u32,
    lost_bytes: u32,
}

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let found = probes::of_service(subject);
    let Some(limit) = limit(&found) else {
        return Vec::new();
    };
    let (message, remedy) = limit_texts(&limit);
    let message = format!(
        "{message}. Large responses of Service {} do not arrive",
        subject.service.name
    );
    let has_lost_response = found.iter().any(|(_, probe)| {
        matches!(probe.kind, ProbeKind::Http | ProbeKind::Tls) && probe.outcome == Outcome::Timeout
    });
    let severity = if has_lost_response {
        Severity::Error
    } else {
        Severity::Warning
    };
    let finding = subject.finding(CODE, severity, "", message, remedy);
    vec![finding.with_evidence(probes::description(limit.found))]
}

/// Reports probes whose target is not an address of a Service.
fn check_other_targets(world: &World) -> Vec<Finding> {
    let nodes = observed_nodes(world);
    nodes
        .filter_map(|node| {
            let is_other = |probe: &&Probe| {
                let mut services = probe
                    .address()
                    .into_iter()
                    .flat_map(|address| world.services_at(address));
                probe.service.is_none() && services.next().is_none()
            };
            let probes = node.observation.probes.iter().flatten().filter(is_other);
            let found: Vec<ObservedProbe<'_>> = probes.map(|probe| (node.observation, probe)).collect();
            let limit = limit(&found)?;
            let (message, remedy) = limit_texts(&limit);
            let finding = node.finding(CODE, Severity::Warning, "probes", message, remedy);
            Some(finding.with_evidence(probes::description(limit.found)))
        })
        .collect()
}

/// Returns the first path on which a packet passes and a larger one receives no response, not even an ICMP error.
fn limit<'w>(found: &[ObservedProbe<'w>]) -> Option<Limit<'w>> {
    let sizes: Vec<(ObservedProbe<'w>, u32)> = found
        .iter()
        .filter(|(_, probe)| probe.kind == ProbeKind::PathMtu)
        .filter_map(|found| Some((*found, found.1.bytes?)))
        .collect();
    sizes
        .iter()
        .filter(|((_, probe), _)| probe.outcome == Outcome::Timeout)
        .find_map(|(lost, lost_bytes)| {
            let passed = sizes.iter().filter(|((observation, probe), bytes)| {
                is_same_path(lost, (*observation, *probe))
                    && bytes < lost_bytes
                    && probe.outcome == Outcome::Answered
            });
            let passed_bytes = passed.map(|(_, bytes)| *bytes).max()?;
            Some(Limit {
                found: *lost,
                passed_bytes,
                lost_bytes: *lost_bytes,
            })
        })
}

fn is_same_path(
    (observation, probe): &ObservedProbe<'_>,
    (other, other_probe): (&NodeObservation, &Probe),
) -> bool {
    observation.metadata.name == other.metadata.name
        && probe.from == other_probe.from
        && probe.target == other_probe.target
}

fn limit_texts(limit: &Limit<'_>) -> (String, String) {
    let (_, probe) = limit.found;
    let message = format!(
        "Packets of {} bytes from {} to {} pass, packets of {} bytes get no response and no ICMP error",
        limit.passed_bytes,
        probes::origin(limit.found),
        probe.target,
        limit.lost_bytes
    );
    let headers = match probe.address() {
        Some(IpAddr::V6(_)) => HEADERS_BYTES_V6,
        _ => HEADERS_BYTES_V4,
    };
    let remedy = format!(
        "Reduce the MTU of the Pod network to {} bytes, or permit the ICMP message \"fragmentation needed\" on the path. Find the largest size that passes: ping -M do -s {} {}",
        limit.passed_bytes,
        limit.lost_bytes.saturating_sub(headers),
        kubectl::word(&probe.target)
    );
    (message, remedy)
}
