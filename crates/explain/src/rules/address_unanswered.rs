//! PTL-0055: no host, or more than one, answers for an address of the Service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{
    load_balancer_ip_changed, load_balancer_pending, node_address, node_unusable, service_terminating,
};
use crate::facts::probes::{self, ObservedProbe};
use crate::finding::{Code, Finding, Severity};
use crate::observation::{Outcome, ProbeKind, ProbeSource};
use crate::rule::Rule;
use crate::subject::Subject;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("address_unanswered.md"),
    explained_by: &[
        service_terminating::CODE,
        load_balancer_pending::CODE,
        load_balancer_ip_changed::CODE,
        node_unusable::CODE,
        node_address::CODE,
    ],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(55);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let found = probes::of_service(subject);
    if found.is_empty() {
        return Vec::new();
    }
    let service = subject.service;
    let load_balancer = service.ingress_ips().into_iter().enumerate();
    let load_balancer =
        load_balancer.map(|(index, address)| (format!("status.loadBalancer.ingress[{index}].ip"), address));
    let external = service.external_ips().into_iter().enumerate();
    let external = external.map(|(index, address)| (format!("spec.externalIPs[{index}]"), address));
    load_balancer
        .chain(external)
        .filter_map(|(field, address)| {
            let probes_of_address: Vec<ObservedProbe<'_>> = found
                .iter()
                .copied()
                .filter(|(_, probe)| probe.address() == Some(address))
                .collect();
            several_owners(subject, &field, address, &probes_of_address)
                .or_else(|| no_host_answers(subject, &field, address, &probes_of_address))
        })
        .collect()
}

fn is_resolution(kind: ProbeKind) -> bool {
    matches!(kind, ProbeKind::Arp | ProbeKind::Ndp)
}

/// Reports that several hosts answer one request.
fn several_owners(
    subject: &Subject<'_>,
    field: &str,
    address: IpAddr,
    found: &[ObservedProbe<'_>],
) -> Option<Finding> {
    let resolutions: Vec<ObservedProbe<'_>> = found
        .iter()
        .copied()
        .filter(|found| is_resolution(found.1.kind) && is_on_link(*found, address))
        .collect();
    let answers_of = |found: &ObservedProbe<'_>| -> BTreeSet<String> {
        let answers = found.1.answers.iter().flatten();
        answers.map(|answer| answer.to_lowercase()).collect()
    };
    // Nodes can receive responses of different hosts.
    let answers: BTreeSet<String> = resolutions.iter().flat_map(answers_of).collect();
    if answers.len() < 2 {
        return None;
    }
    let many = resolutions.iter().find(|found| answers_of(found).len() > 1);
    let answered = resolutions.iter().find(|found| !answers_of(found).is_empty());
    let first = *many.or(answered)?;
    let listed: Vec<String> = answers.iter().cloned().collect();
    let owners = owners(subject, address);
    let message = format!(
        "{} hosts answer for the address {address} of Service {}: {}. Packets reach one of them at random",
        answers.len(),
        subject.service.name,
        listed.join(", ")
    );
    let remedy = format!(
        "Remove the address from the host that does not announce it. Find the hosts by their link-layer addresses{owners}"
    );
    let finding = subject.finding(CODE, Severity::Warning, field, message, remedy);
    Some(finding.with_evidence(probes::description(first)))
}

/// Returns the names of the observed nodes with the address on a link.
fn owners(subject: &Subject<'_>, address: IpAddr) -> String {
    let observations = subject.world.observations().all().iter();
    let links = observations.flat_map(|observation| {
        let links = observation.links.iter().flatten();
        links.map(move |link| (observation, link))
    });
    let owners: Vec<String> = links
        .filter(|(_, link)| {
            link.addresses
                .iter()
                .flatten()
                .any(|prefix| prefix.addr() == address)
        })
        .map(|(observation, link)| format!("{} ({})", observation.metadata.name, link.name))
        .collect();
    if owners.is_empty() {
        String::new()
    } else {
        format!(". The address is configured on Node {}", owners.join(", "))
    }
}

/// Reports that no host answers, although the address is in the subnet of the host that sends the probe.
fn no_host_answers(
    subject: &Subject<'_>,
    field: &str,
    address: IpAddr,
    found: &[ObservedProbe<'_>],
) -> Option<Finding> {
    let resolutions: Vec<ObservedProbe<'_>> = found
        .iter()
        .copied()
        .filter(|found| is_resolution(found.1.kind) && is_on_link(*found, address))
        .collect();
    let is_answered = found.iter().any(|(_, probe)| {
        probe.outcome == Outcome::Answered
            && (is_resolution(probe.kind) || probe.from == ProbeSource::Outside)
    });
    let is_unanswered = resolutions
        .iter()
        .all(|(_, probe)| probe.outcome == Outcome::Timeout);
    // The host that announces the address does not answer itself.
    let nodes: BTreeSet<&str> = resolutions
        .iter()
        .map(|(observation, _)| observation.metadata.name.as_str())
        .collect();
    let is_from_outside = resolutions
        .iter()
        .any(|(_, probe)| probe.from == ProbeSource::Outside);
    if is_answered || !is_unanswered || !(is_from_outside || nodes.len() > 1) {
        return None;
    }
    let first = resolutions.first()?;
    let message = format!(
        "No host answers for the address {address} of Service {}, so no packet from its subnet reaches a node",
        subject.service.name
    );
    let remedy = "Check the announcer: portolan balancer status, or for MetalLB the Events of the Service. Access points can filter gratuitous ARP";
    let finding = subject.finding(CODE, Severity::Error, field, message, remedy);
    Some(finding.with_evidence(probes::description(*first)))
}

/// Returns true if a host resolves an address of its own subnet. The subnets of hosts outside of the cluster are unknown.
/// Without links in the observation, a response shows the subnet.
fn is_on_link((observation, probe): ObservedProbe<'_>, address: IpAddr) -> bool {
    let links = observation.links.iter().flatten();
    let mut prefixes = links.flat_map(|link| link.addresses.iter().flatten());
    let is_of_other = |prefix: &ipnet::IpNet| prefix.addr() != address && prefix.contains(&address);
    let is_shown = observation.links.is_none() && probe.outcome == Outcome::Answered;
    probe.from == ProbeSource::Outside || is_shown || prefixes.any(is_of_other)
}
