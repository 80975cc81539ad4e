//! Clients that use an address of the Service after a change. An example is a JVM that caches DNS responses without a
//! limit.

use std::net::IpAddr;

use super::CODE;
use crate::facts::probes::{self, ObservedProbe};
use crate::finding::{Finding, Severity};
use crate::kubectl;
use crate::observation::{Flow, NodeObservation, Outcome, ProbeKind, TransportProtocol};
use crate::subject::Subject;
use crate::views::{Pod, Port};

/// State of a TCP flow whose first packet is not answered.
const UNANSWERED_STATE: &str = "SYN_SENT";

/// Returns the finding for the first Pod that names the Service and sends packets to an address that nothing has any more.
pub(super) fn check(subject: &Subject<'_>) -> Option<Finding> {
    let ports = subject.service.ports();
    let mut clients = subject.world.references_to(subject.service);
    clients.find_map(|(client, reference)| {
        // An address in the configuration is not an answer of DNS.
        if reference.address.is_some() || !client.is_active() || client.is_on_host_network() {
            return None;
        }
        let (observation, flow) = ports.iter().find_map(|port| former_flow(subject, client, port))?;
        let (former, remedy) = if subject.service.is_headless() {
            ("a former address of a Pod", "shorter caching of DNS in the client, or new connections after errors")
        } else {
            ("a former cluster IP", "shorter caching of DNS in the client")
        };
        let message = format!(
            "Pod {}/{} uses {}, and sends packets to {}, which nothing in the cluster has: {former} of Service {}. The client keeps an answer of DNS",
            client.namespace, client.name, reference.text, flow.destination, subject.service.name
        );
        let remedy = format!(
            "Restart the client, and configure {remedy} (JVM: networkaddress.cache.ttl; nginx: resolver with valid=): {}",
            kubectl::command("delete", client.0)
        );
        let finding = subject.finding(CODE, Severity::Warning, "spec.clusterIP", message, remedy);
        Some(finding.with_evidence(format!(
            "Node {}: {} from {} to {} is not answered",
            observation.metadata.name, flow.protocol, flow.source, flow.destination
        )))
    })
}

/// Returns the finding for a DNS server that answers the name of the Service with addresses other than its cluster IPs.
pub(super) fn former_address_in_dns(subject: &Subject<'_>, found: &[ObservedProbe<'_>]) -> Option<Finding> {
    let service = subject.service;
    let cluster_ips = service.cluster_ips();
    let name = format!("{}.{}.svc.", service.name, service.namespace);
    let (first, former) = found.iter().find_map(|found| {
        let (_, probe) = *found;
        let is_answer = probe.kind == ProbeKind::Dns && probe.outcome == Outcome::Answered;
        let answers = probe.answers.iter().flatten();
        let answers: Vec<IpAddr> = answers.filter_map(|answer| answer.parse().ok()).collect();
        let is_current = cluster_ips.is_empty() || answers.iter().any(|answer| cluster_ips.contains(answer));
        let former = *answers.first()?;
        let is_former = is_answer && probe.target.starts_with(&name) && !is_current;
        is_former.then_some((*found, former))
    })?;
    let message = format!(
        "DNS answers {} with {former}, which is not a cluster IP of Service {}: a cache keeps a former address",
        first.1.target, service.name
    );
    let remedy = "Empty the cache between the client and the DNS servers of the cluster, such as that of the node: kubectl -n kube-system rollout restart \
                  daemonset node-local-dns";
    let finding = subject.finding(CODE, Severity::Warning, "spec.clusterIP", message, remedy);
    Some(finding.with_evidence(probes::description(first)))
}

/// Returns an unanswered flow of a client to a port of the Service, at an address that no object has.
fn former_flow<'w>(
    subject: &Subject<'w>,
    client: Pod<'_>,
    port: &Port<'_>,
) -> Option<(&'w NodeObservation, &'w Flow)> {
    let sources = client.ips();
    let number = if subject.service.is_headless() {
        subject
            .active()
            .find_map(|pod| pod.resolve(port.target, port.protocol))?
    } else {
        port.number
    };
    let mut flows = subject.world.observations().flows_to_port(number);
    flows.find(|(_, flow)| {
        flow.protocol.name() == port.protocol
            && sources.contains(&flow.source)
            && is_unanswered(flow)
            && is_former(subject, flow.destination)
    })
}

fn is_unanswered(flow: &Flow) -> bool {
    match flow.protocol {
        TransportProtocol::Tcp => flow.state.as_deref() == Some(UNANSWERED_STATE),
        _ => flow.replied == Some(false),
    }
}

/// Returns true if an address is in the range of cluster IPs and no object has it. For a headless Service, the range
/// of Pods counts.
fn is_former(subject: &Subject<'_>, address: IpAddr) -> bool {
    let world = subject.world;
    let is_in_use = world.services_at(address).next().is_some()
        || world.pods_at(address).next().is_some()
        || probes::node_at(world, address).is_some();
    let is_of_pods = || {
        let mut ranges = world.nodes().flat_map(|node| node.pod_ranges());
        ranges.any(|range| range.contains(&address))
    };
    let is_in_range = if subject.service.is_headless() {
        is_of_pods()
    } else {
        world.cluster_facts().service_range(address).is_some()
    };
    is_in_range && !is_in_use
}
