//! PTL-0046: a flow goes to an endpoint that no longer exists.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{
    endpoints_edited, endpoints_missing, pods_not_ready, pods_not_running, proxy_absent, rules_outdated,
    selector_matches_no_pod, service_terminating, slice_port_name, slice_without_service,
};
use crate::facts::probes;
use crate::finding::{Code, Finding, Severity};
use crate::observation::{Flow, NodeObservation, TransportProtocol};
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::Port;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("stale_flow.md"),
    explained_by: &[
        selector_matches_no_pod::CODE,
        pods_not_ready::CODE,
        pods_not_running::CODE,
        endpoints_missing::CODE,
        slice_without_service::CODE,
        endpoints_edited::CODE,
        slice_port_name::CODE,
        service_terminating::CODE,
        rules_outdated::CODE,
        proxy_absent::CODE,
    ],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(46);
/// Timeout of TCP entries with data that the endpoint does not acknowledge
/// (`nf_conntrack_tcp_timeout_unacknowledged`, `nf_conntrack_tcp_timeout_max_retrans`).
const UNACKNOWLEDGED_SECONDS_MAX: u64 = 300;
/// Maximum number of flows in the evidence: more examples explain no more.
const EVIDENCE_FLOWS_MAX: usize = 5;

/// A flow with the observation that contains it.
type ObservedFlow<'w> = (&'w NodeObservation, &'w Flow);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // Objects and flows were read at different times, so they differ while endpoints change.
    if subject.world.observations().all().is_empty() || !subject.knows_endpoints() || subject.is_rolling() {
        return Vec::new();
    }
    let endpoints: BTreeSet<IpAddr> = subject
        .slices()
        .iter()
        .flat_map(|slice| slice.endpoints())
        .filter_map(|endpoint| endpoint.ip())
        .collect();
    if endpoints.is_empty() {
        return Vec::new();
    }
    let ports = subject.service.ports().into_iter();
    ports
        .filter_map(|port| {
            let mut flows = flows(subject, port);
            flows.retain(|found| is_stale(subject, &endpoints, *found));
            finding(subject, port, &flows)
        })
        .collect()
}

/// Returns the flows to a Service port.
fn flows<'w>(subject: &Subject<'w>, port: Port<'_>) -> Vec<ObservedFlow<'w>> {
    let observations = subject.world.observations();
    let is_of_port = move |flow: &Flow| flow.protocol.name() == port.protocol;
    let addresses = subject.service.addresses().into_iter();
    let to_addresses = addresses
        .flat_map(|address| observations.flows_to(address))
        .filter(|(_, flow)| flow.destination_port == Some(port.number));
    let node_port = port.node_port.into_iter();
    let to_nodes = node_port
        .flat_map(|node_port| observations.flows_to_port(node_port))
        .filter(|(_, flow)| probes::node_at(subject.world, flow.destination).is_some());
    to_addresses
        .chain(to_nodes)
        .filter(|(_, flow)| is_of_port(flow))
        .collect()
}

fn is_stale(
    subject: &Subject<'_>,
    endpoints: &BTreeSet<IpAddr>,
    (observation, flow): ObservedFlow<'_>,
) -> bool {
    let endpoint = flow.reply_source;
    let is_on_node = || {
        let links = observation.links.iter().flatten();
        let mut addresses = links.flat_map(|link| link.addresses.iter().flatten());
        addresses.any(|address| address.addr() == endpoint)
            || probes::node_at(subject.world, endpoint).is_some()
    };
    let is_translated = endpoint != flow.destination && !endpoint.is_loopback() && !endpoint.is_unspecified();
    // Proxies of userspace and of the edge reply themselves.
    is_translated && is_active(flow) && !endpoints.contains(&endpoint) && !is_on_node()
}

/// Returns true if the client still uses the flow. Entries of TCP connections outlive the connection by hours, but one
/// that waits for an acknowledgement has a short timeout.
fn is_active(flow: &Flow) -> bool {
    let state = flow.state.as_deref().unwrap_or_default();
    match flow.protocol {
        TransportProtocol::Udp => true,
        TransportProtocol::Sctp => state == "ESTABLISHED",
        TransportProtocol::Tcp => {
            let is_unacknowledged = flow
                .timeout_seconds
                .is_some_and(|seconds| seconds <= UNACKNOWLEDGED_SECONDS_MAX);
            state == "SYN_SENT" || (state == "ESTABLISHED" && is_unacknowledged)
        }
        TransportProtocol::Icmp | TransportProtocol::Other => false,
    }
}

fn finding(subject: &Subject<'_>, port: Port<'_>, flows: &[ObservedFlow<'_>]) -> Option<Finding> {
    let (observation, flow) = flows.first()?;
    let others = match flows.len() {
        1 => String::new(),
        number => format!(" ({number} such flows)"),
    };
    let message = format!(
        "The flow {} of Service {} goes to {}, which no EndpointSlice of the Service contains{others}",
        description(flow),
        subject.service.name,
        flow.reply_source
    );
    let remedy = format!(
        "On Node {}: conntrack -D -p {} -d {} -r {}",
        observation.metadata.name,
        flow.protocol.name().to_lowercase(),
        flow.destination,
        flow.reply_source
    );
    let finding = subject.finding(CODE, Severity::Warning, port.field("port"), message, remedy);
    let evidence = flows.iter().take(EVIDENCE_FLOWS_MAX);
    Some(evidence.fold(finding, |finding, (observation, flow)| {
        finding.with_evidence(format!(
            "Node {}: {} to endpoint {}",
            observation.metadata.name,
            description(flow),
            flow.reply_source
        ))
    }))
}

fn description(flow: &Flow) -> String {
    let port = |port: Option<u16>| port.map(|port| format!(" port {port}")).unwrap_or_default();
    format!(
        "{} {}{} to {}{}",
        flow.protocol,
        flow.source,
        port(flow.source_port),
        flow.destination,
        port(flow.destination_port)
    )
}
