//! PTL-0053: the address of the node has changed.

use std::net::IpAddr;

use crate::facts::observed_node::{ObservedNode, observed_nodes};
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::finding_about;
use crate::views::{Node, Pod};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("node_address.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

pub(super) const CODE: Code = Code(53);

fn check(world: &World) -> Vec<Finding> {
    let has_links = observed_nodes(world).any(|node| node.addresses().next().is_some());
    if has_links {
        return observed_nodes(world).filter_map(finding).collect();
    }
    other_address_of_pods(world)
}

/// Reports nodes whose Pods all have a host address that the Node does not have, while those of another node have its
/// address. The kubelet writes both.
fn other_address_of_pods(world: &World) -> Vec<Finding> {
    let (same, other): (Vec<HostAddress<'_>>, Vec<HostAddress<'_>>) = world
        .nodes()
        .filter_map(|node| host_address(world, node))
        .partition(|found| found.is_of_node);
    if same.is_empty() {
        return Vec::new();
    }
    let finding = |found: HostAddress<'_>| {
        let registered = found.node.internal_ips().first().copied()?;
        let message = format!(
            "Node {} has the InternalIP {registered}, but its Pods, such as {}/{}, have the host address {}",
            found.node.0.name, found.pod.0.namespace, found.pod.0.name, found.address
        );
        let remedy = format!(
            "Restart the kubelet with the right --node-ip, or give the node its former address. The addresses of the node: {}",
            kubectl::command("describe", found.node.0)
        );
        let field = "status.addresses";
        Some(finding_about(
            found.node.0,
            CODE,
            Severity::Warning,
            field,
            message,
            remedy,
        ))
    };
    // An address of another Node is not a former address of this one.
    let former = other
        .into_iter()
        .filter(|found| world.node_at(found.address).is_none());
    former.filter_map(finding).collect()
}

/// Address of the host of a Pod.
struct HostAddress<'w> {
    node: Node<'w>,
    pod: Pod<'w>,
    address: IpAddr,
    /// True if the Node has the address of one of its Pods.
    is_of_node: bool,
}

/// Returns the host address of the Pods on a node; `None` if it is unknown.
fn host_address<'w>(world: &'w World, node: Node<'w>) -> Option<HostAddress<'w>> {
    let own = node.ips();
    let pods = world.pods_on(&node.0.name).filter(|pod| pod.is_active());
    let hosts: Vec<(Pod<'w>, IpAddr)> = pods
        .filter_map(|pod| Some((pod, pod.0.text("/status/hostIP").parse().ok()?)))
        .collect();
    let (pod, address) = *hosts.first().filter(|_| !own.is_empty())?;
    Some(HostAddress {
        node,
        pod,
        address,
        is_of_node: hosts.iter().any(|(_, address)| own.contains(address)),
    })
}

fn finding(node: ObservedNode<'_>) -> Option<Finding> {
    let own: Vec<IpAddr> = node
        .addresses()
        .filter(|address| !address.is_loopback() && !is_link_local(*address))
        .collect();
    if own.is_empty() || node.observation.is_truncated("links") {
        return None;
    }
    let registered = node.node()?.internal_ips();
    let (present, absent): (Vec<IpAddr>, Vec<IpAddr>) =
        registered.into_iter().partition(|address| own.contains(address));
    let first = absent.first()?;
    let severity = if present.is_empty() {
        Severity::Error
    } else {
        Severity::Warning
    };
    let candidates: Vec<String> = own
        .iter()
        .filter(|address| address.is_ipv6() == first.is_ipv6())
        .take(4)
        .map(ToString::to_string)
        .collect();
    let message = format!(
        "Node {} has the InternalIP {first}, but no link of the node has this address. The links have {}",
        node.name(),
        if candidates.is_empty() {
            "none of its family".to_owned()
        } else {
            candidates.join(", ")
        }
    );
    let remedy = format!(
        "Restart the kubelet with the right --node-ip, or give the node its former address: {}",
        node.run("systemctl restart kubelet")
    );
    Some(node.finding(CODE, severity, "status.addresses", message, remedy))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
