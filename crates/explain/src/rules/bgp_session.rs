//! PTL-0056: routers have no route to load balancer IPs by BGP.

use std::net::IpAddr;

use crate::facts::observed_node::{ObservedNode, observed_nodes};
use crate::facts::probes::{self, ObservedProbe};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::observation::{BgpSession, Outcome, ProbeSource};
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("bgp_session.md"),
    explained_by: &[],
    service: Some(route_refused),
    cluster: Some(check),
};

pub(super) const CODE: Code = Code(56);
const ESTABLISHED: &str = "established";

fn check(world: &World) -> Vec<Finding> {
    let sessions = observed_nodes(world).filter_map(finding);
    sessions.chain(missing_peer(world)).collect()
}

fn is_established(session: &BgpSession) -> bool {
    session.state.eq_ignore_ascii_case(ESTABLISHED)
}

/// Reports that MetalLB advertises addresses to peers, and no object defines a peer. FRR can have peers of its own, so
/// only sessions of an observation show more.
fn missing_peer(world: &World) -> Option<Finding> {
    let is_observed = observed_nodes(world).any(|node| node.observation.bgp_sessions.is_some());
    let advertisement = world.all(Kind::BgpAdvertisement).next()?;
    let is_used = world.all(Kind::L2Advertisement).next().is_none()
        && world.services().any(|service| !service.ingress_ips().is_empty());
    if is_observed || !is_used || !world.has(Kind::BgpPeer) || world.all(Kind::BgpPeer).next().is_some() {
        return None;
    }
    let message = format!(
        "BGPAdvertisement {} announces load balancer IPs to BGP peers, and no BGPPeer exists, so no router has a route to them",
        advertisement.name
    );
    let remedy = format!(
        "Create a BGPPeer with address and AS number of the router in namespace {}",
        advertisement.namespace
    );
    Some(finding_about(
        advertisement,
        CODE,
        Severity::Error,
        "spec",
        message,
        remedy,
    ))
}

/// Reports that a router outside of the cluster has no route to a load balancer IP, although sessions are established.
fn route_refused(subject: &Subject<'_>) -> Vec<Finding> {
    let nodes: Vec<ObservedNode<'_>> = observed_nodes(subject.world).collect();
    let sessions = nodes
        .iter()
        .flat_map(|node| node.observation.bgp_sessions.iter().flatten());
    let peers: Vec<String> = sessions
        .filter(|session| is_established(session))
        .map(|session| session.peer.to_string())
        .collect();
    if peers.is_empty() {
        return Vec::new();
    }
    let found = probes::of_service(subject);
    let addresses = subject.service.ingress_ips().into_iter().enumerate();
    let findings = addresses.filter_map(|(index, address)| {
        let first = probe_without_route(&nodes, &found, address)?;
        let message = format!(
            "The BGP session with {} is established, and a router reports that it has no route to the load balancer IP {address} of Service {}. It has not accepted the route, or the speaker does not announce it",
            peers.join(", "),
            subject.service.name
        );
        let remedy = format!(
            "Compare the import policy of the router with the announced prefix, its length and its communities. On the router: show bgp ipv{} unicast {address}",
            if address.is_ipv6() { 6 } else { 4 }
        );
        let field = format!("status.loadBalancer.ingress[{index}].ip");
        let finding = subject.finding(CODE, Severity::Error, field, message, remedy);
        Some(finding.with_evidence(probes::description(first)))
    });
    findings.collect()
}

/// Returns the first probe from outside to which a router answered that it has no route. Hosts in the subnet of a node
/// resolve the address by ARP, so its routes do not matter.
fn probe_without_route<'w>(
    nodes: &[ObservedNode<'_>],
    found: &[ObservedProbe<'w>],
    address: IpAddr,
) -> Option<ObservedProbe<'w>> {
    let outside = || {
        found.iter().copied().filter(move |(_, probe)| {
            probe.from == ProbeSource::Outside
                && probe.address() == Some(address)
                && probes::is_connection(probe)
        })
    };
    let is_on_link = nodes.iter().any(|node| {
        let links = node.links().iter();
        let mut prefixes = links.flat_map(|link| link.addresses.iter().flatten());
        prefixes.any(|prefix| prefix.addr() != address && prefix.contains(&address))
    });
    if is_on_link || outside().any(|(_, probe)| probes::is_connected(probe)) {
        return None;
    }
    outside().find(|(_, probe)| probe.outcome == Outcome::Unreachable)
}

fn finding(node: ObservedNode<'_>) -> Option<Finding> {
    let sessions = node.observation.bgp_sessions.as_ref()?;
    let has_load_balancer = || {
        node.world
            .services()
            .any(|service| !service.ingress_ips().is_empty())
    };
    let session = sessions.iter().find(|session| !is_established(session))?;
    if !has_load_balancer() {
        return None;
    }
    let (severity, effect) = if sessions.iter().any(is_established) {
        (Severity::Warning, "This router has no route through the node")
    } else {
        (
            Severity::Error,
            "No router has a route to load balancer IPs through the node",
        )
    };
    let speaker = session.program.as_deref().unwrap_or("the BGP speaker");
    let message = format!(
        "The BGP session of {speaker} on Node {} with {} is not established (state {}). {effect}",
        node.name(),
        session.peer,
        session.state
    );
    let remedy = format!(
        "Compare address, AS numbers and password on both sides, and check that TCP port 179 is open: {}",
        node.run(&format!("nc -vz {} 179", session.peer))
    );
    let field = format!("bgpSessions[{}]", session.peer);
    Some(node.finding(CODE, severity, field, message, remedy))
}
