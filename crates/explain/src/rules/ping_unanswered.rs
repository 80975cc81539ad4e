//! PTL-0058: a ping does not test a Service.

use crate::facts::probes;
use crate::finding::{Code, Finding, Severity};
use crate::observation::{ProbeKind, TransportProtocol};
use crate::rule::Rule;
use crate::subject::Subject;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("ping_unanswered.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(58);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.world.observations().all().is_empty() {
        return Vec::new();
    }
    let found = probes::of_service(subject);
    // With a connection that fails, the ping is not the question.
    if found
        .iter()
        .any(|(_, probe)| probes::is_connection(probe) && probes::is_failed(probe))
    {
        return Vec::new();
    }
    ping(subject).into_iter().collect()
}

fn ping(subject: &Subject<'_>) -> Option<Finding> {
    let addresses = subject.service.addresses();
    let probe = probes::of_service(subject).into_iter().find(|(_, probe)| {
        let is_of_service = probe
            .address()
            .is_some_and(|address| addresses.contains(&address));
        probe.kind == ProbeKind::Ping && probes::is_failed(probe) && is_of_service
    });
    let observations = subject.world.observations();
    let flow = addresses
        .iter()
        .flat_map(|address| observations.flows_to(*address))
        .find(|(_, flow)| flow.protocol == TransportProtocol::Icmp && flow.replied == Some(false));
    let (address, evidence) = match (probe, flow) {
        (Some(found), _) => (found.1.address()?, probes::description(found)),
        (None, Some((observation, flow))) => {
            let evidence = format!(
                "Node {}: {} sends ICMP to {}",
                observation.metadata.name, flow.source, flow.destination
            );
            (flow.destination, evidence)
        }
        (None, None) => return None,
    };
    let message = format!(
        "A ping of {address}, an address of Service {}, gets no response. That shows no fault: the Service has its ports only, and no host has the address",
        subject.service.name
    );
    let port = subject.service.ports().first().map_or(80, |port| port.number);
    let remedy = format!("Test with a connection to a port of the Service: nc -vz {address} {port}");
    let finding = subject.finding(CODE, Severity::Info, "", message, remedy);
    Some(finding.with_evidence(evidence))
}
