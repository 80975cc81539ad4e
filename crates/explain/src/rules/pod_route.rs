//! PTL-0051: a node does not reach the Pods of another node.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

use super::{forwarding_filtered, kernel_parameters, node_address};
use crate::facts::observed_node::{ObservedNode, observed_nodes};
use crate::facts::probes::{self, ObservedProbe};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::observation::{Link, ProbeSource, Route};
use crate::rule::Rule;
use crate::views::{Direction, NetworkPolicy, Node, Pod};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("pod_route.md"),
    explained_by: &[node_address::CODE],
    service: None,
    cluster: Some(check),
};

pub(super) const CODE: Code = Code(51);
/// Kinds of links of overlays.
const OVERLAY_KINDS: [&str; 5] = ["vxlan", "geneve", "ipip", "sit", "wireguard"];
/// Kinds of routes that drop packets.
const DROPPING_KINDS: [&str; 3] = ["blackhole", "unreachable", "prohibit"];

/// Fault of the way to the Pods of another node.
struct Fault<'w> {
    node: Node<'w>,
    target: IpAddr,
    severity: Severity,
    text: String,
}

fn check(world: &World) -> Vec<Finding> {
    if world.observations().all().is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let pods = pod_addresses(world);
    for node in observed_nodes(world) {
        let by_routes = pods_without_route(node, &pods);
        findings.extend(by_routes.or_else(|| unanswered_probes(node)));
    }
    findings
}

/// Returns the addresses of Pods by Node, one for each family.
fn pod_addresses(world: &World) -> BTreeMap<&str, Vec<IpAddr>> {
    let mut by_node: BTreeMap<&str, Vec<IpAddr>> = BTreeMap::new();
    let pods = world.all(Kind::Pod).map(Pod);
    for pod in pods.filter(|pod| pod.is_active() && !pod.0.flag("/spec/hostNetwork")) {
        let addresses = by_node.entry(pod.node()).or_default();
        for address in pod.ips() {
            if addresses.iter().all(|known| known.is_ipv6() != address.is_ipv6()) {
                addresses.push(address);
            }
        }
    }
    by_node
}

/// Reports Pods to which the routes of the node do not lead.
fn pods_without_route(node: ObservedNode<'_>, pods: &BTreeMap<&str, Vec<IpAddr>>) -> Option<Finding> {
    let routes = node
        .observation
        .routes
        .as_ref()
        .filter(|routes| !routes.is_empty())?;
    if node.observation.is_truncated("routes") || node.may_have_other_dataplane() {
        return None;
    }
    let uses_ranges = uses_pod_ranges(node, routes);
    let routes = Routes::new(routes);
    let others = node
        .world
        .nodes()
        .filter(|other| other.name != node.name() && other.is_ready());
    let targets = others.flat_map(|other| {
        let addresses = pods.get(other.0.name.as_str()).cloned();
        let range_addresses = || {
            other
                .pod_ranges()
                .iter()
                .filter_map(|range| range.hosts().nth(1))
                .collect()
        };
        let addresses = addresses.unwrap_or_else(|| {
            if uses_ranges {
                range_addresses()
            } else {
                Vec::new()
            }
        });
        addresses.into_iter().map(move |address| (other, address))
    });
    let targets: Vec<(Node<'_>, IpAddr)> = targets.collect();
    let expects_routes = has_overlay(node)
        || targets.iter().any(|(other, target)| {
            routes
                .longest_match(*target)
                .is_some_and(|route| is_pod_route(route, *other))
        });
    let mut faults: Vec<Fault<'_>> = targets
        .into_iter()
        .filter_map(|(other, target)| fault(node, &routes, other, target, expects_routes))
        .collect();
    faults.sort_by_key(|fault| fault.severity);
    let number = faults.len();
    let fault = faults.into_iter().next()?;
    let message = format!(
        "{}: Node {} does not reach {}, a Pod address of Node {}",
        fault.text,
        node.name(),
        fault.target,
        fault.node.name
    );
    let remedy = format!(
        "Restart the program that writes the routes of the Pod network, and look at {}",
        node.run(&format!("ip route get {}", fault.target))
    );
    let finding = node.finding(CODE, fault.severity, "routes", message, remedy);
    Some(if number > 1 {
        finding.with_evidence(format!("{number} such addresses were found"))
    } else {
        finding
    })
}

/// Returns true if the network takes the addresses of Pods from the ranges of the Nodes. Others have ranges of their own.
fn uses_pod_ranges(node: ObservedNode<'_>, routes: &[Route]) -> bool {
    let ranges = node.pod_ranges();
    let is_in_range = |address: IpAddr| ranges.iter().any(|range| range.contains(&address));
    let mut destinations = routes
        .iter()
        .filter(|route| route.kind == "unicast")
        .map(|route| route.destination);
    node.addresses().any(is_in_range)
        || destinations.any(|destination| ranges.iter().any(|range| range.contains(&destination)))
}

fn has_overlay(node: ObservedNode<'_>) -> bool {
    let is_overlay = |link: &Link| {
        let kind = link.kind.as_deref().unwrap_or_default();
        link.up == Some(true) && OVERLAY_KINDS.contains(&kind)
    };
    // An overlay of another program, such as a VPN, carries no Pods.
    let is_of_pods = |link: &Link| {
        let ranges = node.pod_ranges();
        let mut addresses = link.addresses.iter().flatten().map(IpNet::addr);
        addresses.any(|address| ranges.iter().any(|range| range.contains(&address)))
    };
    node.links()
        .iter()
        .any(|link| is_overlay(link) && is_of_pods(link))
}

/// Routes by their destinations.
struct Routes<'r> {
    by_destination: HashMap<IpNet, &'r Route>,
    /// Lengths of the prefixes, the longest first.
    lengths: BTreeSet<Reverse<u8>>,
}

impl<'r> Routes<'r> {
    /// Of several routes to one destination, that with the lowest metric counts.
    fn new(routes: &'r [Route]) -> Self {
        let mut by_destination: HashMap<IpNet, &Route> = HashMap::new();
        let mut lengths = BTreeSet::new();
        for route in routes {
            lengths.insert(Reverse(route.destination.prefix_len()));
            let known = by_destination.entry(route.destination.trunc()).or_insert(route);
            if route.metric.unwrap_or_default() < known.metric.unwrap_or_default() {
                *known = route;
            }
        }
        Self {
            by_destination,
            lengths,
        }
    }

    /// Returns the route with the longest prefix that contains an address.
    fn longest_match(&self, address: IpAddr) -> Option<&'r Route> {
        self.lengths.iter().find_map(|Reverse(length)| {
            let destination = IpNet::new(address, *length).ok()?.trunc();
            self.by_destination.get(&destination).copied()
        })
    }
}

fn is_default(route: &Route) -> bool {
    route.destination.prefix_len() == 0
}

/// Returns true if a route is for the Pods of a node, and not for the network of the nodes.
fn is_pod_route(route: &Route, other: Node<'_>) -> bool {
    let mut node_addresses = other.ips().into_iter();
    route.kind == "unicast"
        && !is_default(route)
        && !node_addresses.any(|address| route.destination.contains(&address))
}

fn fault<'w>(
    node: ObservedNode<'w>,
    routes: &Routes<'_>,
    other: Node<'w>,
    target: IpAddr,
    expects_routes: bool,
) -> Option<Fault<'w>> {
    let fault = |severity: Severity, text: String| {
        Some(Fault {
            node: other,
            target,
            severity,
            text,
        })
    };
    match routes.longest_match(target) {
        None => fault(Severity::Error, "There is no route".to_owned()),
        Some(route) if DROPPING_KINDS.contains(&route.kind.as_str()) => {
            let text = if is_default(route) {
                "There is no route".to_owned()
            } else {
                format!("A route of the type {} drops packets", route.kind)
            };
            fault(Severity::Error, text)
        }
        Some(route) if is_default(route) && expects_routes => {
            let text = "Only the default route matches".to_owned();
            fault(Severity::Error, text)
        }
        Some(route) => {
            let gateway = route.gateway.filter(|_| !is_default(route))?;
            let mut neighbours = node.observation.neighbours.iter().flatten();
            let is_failed = neighbours.any(|neighbour| {
                neighbour.address == gateway && neighbour.state.eq_ignore_ascii_case("failed")
            });
            let text = format!("The next hop {gateway} does not answer");
            is_failed.then(|| fault(Severity::Warning, text)).flatten()
        }
    }
}

/// Reports that no probe to the Pods of another node is answered, and other rules do not explain it.
fn unanswered_probes(node: ObservedNode<'_>) -> Option<Finding> {
    let probes = node.observation.probes.as_ref()?;
    let mut by_node: BTreeMap<&str, Vec<ObservedProbe<'_>>> = BTreeMap::new();
    for probe in probes {
        let pod = probe
            .address()
            .and_then(|address| node.world.pods_at(address).next());
        let is_elsewhere = |pod: &Pod<'_>| {
            !pod.node().is_empty() && pod.node() != node.name() && !pod.0.flag("/spec/hostNetwork")
        };
        let pod = pod.filter(|pod| is_elsewhere(pod) && pod.is_ready() && !is_isolated(node.world, *pod));
        if let Some(pod) = pod.filter(|_| probes::is_connection(probe) && probe.from != ProbeSource::Outside)
        {
            by_node
                .entry(pod.node())
                .or_default()
                .push((node.observation, probe));
        }
    }
    let (other, found) = by_node.into_iter().find(|(other, found)| {
        let is_ready = node.world.node(other).is_none_or(Node::is_ready);
        is_ready
            && found.iter().all(|(_, probe)| probes::is_unanswered(probe))
            && found.iter().any(|(_, probe)| probes::is_path_failure(probe))
            && !is_explained(node, other, found)
    })?;
    let first = found.first()?;
    let message = format!(
        "No probe from Node {} to the Pods of Node {other} is answered",
        node.name()
    );
    let remedy = format!(
        "Look for a firewall between the nodes that drops the packets of the Pod network, such as UDP 8472 or 4789 of VXLAN: {}",
        node.run(&format!("ip route get {}", first.1.address()?))
    );
    let finding = node.finding(CODE, Severity::Error, "probes", message, remedy);
    Some(finding.with_evidence(probes::description(*first)))
}

/// Returns true if a NetworkPolicy restricts the connections to a Pod.
fn is_isolated(world: &World, pod: Pod<'_>) -> bool {
    let policies = world
        .in_namespace(Kind::NetworkPolicy, &pod.0.namespace)
        .map(NetworkPolicy);
    let mut policies = policies.filter(|policy| policy.restricts(Direction::Ingress));
    policies.any(|policy| policy.selects(pod))
}

/// Returns true if the same target does not answer on its own node, or if another rule has a finding for one of the nodes.
fn is_explained(node: ObservedNode<'_>, other: &str, found: &[ObservedProbe<'_>]) -> bool {
    let world = node.world;
    let own = world.observations().of_node(other);
    let mut own_probes = own
        .iter()
        .flat_map(|observation| observation.probes.iter().flatten());
    let fails_itself = own_probes.any(|own| {
        let mut targets = found.iter().map(|(_, probe)| &probe.target);
        probes::is_failed(own) && targets.any(|target| *target == own.target)
    });
    let mut findings = forwarding_filtered::check(world)
        .into_iter()
        .chain(kernel_parameters::check(world));
    fails_itself || findings.any(|finding| finding.object.name == other || finding.object.name == node.name())
}

#[cfg(test)]
mod tests;
