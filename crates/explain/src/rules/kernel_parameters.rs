//! PTL-0043: a kernel parameter of the node prevents connections.

use std::net::IpAddr;

use ipnet::IpNet;
use plan::{PORT_RANGES_ANNOTATION, PortRanges};

use crate::facts::observed_node::{ObservedNode, observed_nodes};
use crate::facts::probes;
use crate::finding::{Code, Finding, Severity};
use crate::observation::Link;
use crate::rule::Rule;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("kernel_parameters.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

pub(super) const CODE: Code = Code(43);
const IPV4_FORWARDING: &str = "net.ipv4.ip_forward";
const IPV6_FORWARDING: &str = "net.ipv6.conf.all.forwarding";
/// Counter of packets that the reverse path filter drops.
const REVERSE_PATH_COUNTER: &str = "TcpExt.IPReversePathFilter";

pub(super) fn check(world: &World) -> Vec<Finding> {
    let nodes = observed_nodes(world).filter(|node| !is_without_forwarding(*node));
    nodes
        .flat_map(|node| {
            let bridged = unfiltered_bridge(node, "net.bridge.bridge-nf-call-iptables", IpAddr::is_ipv4);
            let bridged_v6 = bridged_v6(node);
            forwarding(node)
                .into_iter()
                .chain(reverse_path(node))
                .chain(bridged)
                .chain(bridged_v6)
        })
        .collect()
}

/// Userspace proxies open connections of their own, except those to port ranges.
fn is_without_forwarding(node: ObservedNode<'_>) -> bool {
    node.has_ebpf_proxy() || (is_userspace(node) && !has_port_ranges(node.world))
}

fn is_userspace(node: ObservedNode<'_>) -> bool {
    let proxies = node.proxies();
    let mut modes = proxies.iter().map(|proxy| proxy.mode.as_deref());
    !proxies.is_empty() && modes.all(|mode| mode == Some("userspace"))
}

/// Returns true if a Service has port ranges. Proxies ignore an invalid value.
fn has_port_ranges(world: &World) -> bool {
    let mut values = world
        .services()
        .filter_map(|service| service.0.annotation(PORT_RANGES_ANNOTATION));
    values.any(|value| PortRanges::parse(value).is_some())
}

fn forwarding(node: ObservedNode<'_>) -> Option<Finding> {
    let ranges = node.pod_ranges();
    let has = |is_family: fn(&IpAddr) -> bool| ranges.iter().any(|range| is_family(&range.addr()));
    let is_off = |name: &str| node.sysctl(name) == Some("0");
    let (name, family, severity) = if is_off(IPV4_FORWARDING) && (ranges.is_empty() || has(IpAddr::is_ipv4)) {
        (IPV4_FORWARDING, "IPv4", Severity::Error)
    } else if is_off(IPV6_FORWARDING) && has(IpAddr::is_ipv6) {
        let severity = if has(IpAddr::is_ipv4) {
            Severity::Warning
        } else {
            Severity::Error
        };
        (IPV6_FORWARDING, "IPv6", severity)
    } else {
        return None;
    };
    let connection = if is_userspace(node) {
        "connection to a port range"
    } else {
        "connection"
    };
    let message = format!(
        "Node {} forwards no {family} packets ({name} is 0), so no {connection} reaches a Pod through it",
        node.name()
    );
    let remedy = format!(
        "{}, and write the parameter into /etc/sysctl.d",
        node.run(&format!("sysctl -w {name}=1"))
    );
    Some(node.finding(CODE, severity, format!("sysctls[{name}]"), message, remedy))
}

/// Reports that the reverse path filter is strict on a node with several networks, it drops packets, and a probe from
/// elsewhere fails.
fn reverse_path(node: ObservedNode<'_>) -> Option<Finding> {
    let drops = *node.observation.counters.as_ref()?.get(REVERSE_PATH_COUNTER)?;
    let uplinks: Vec<&Link> = node.links().iter().filter(|link| is_uplink(link)).collect();
    let strict = uplinks.iter().find(|link| is_strict(node, &link.name))?;
    if drops == 0 || uplinks.len() < 2 {
        return None;
    }
    let failed = probes::failed_from_elsewhere(node)?;
    let message = format!(
        "The reverse path filter of link {} on Node {} is strict (rp_filter is 1), the node has {} networks, and the filter has dropped {drops} packets",
        strict.name,
        node.name(),
        uplinks.len()
    );
    let name = format!("net.ipv4.conf.{}.rp_filter", strict.name.replace('.', "/"));
    let remedy = format!(
        "Use the loose filter: {}",
        node.run(&format!("sysctl -w {}=2", crate::kubectl::word(&name)))
    );
    let finding = node.finding(
        CODE,
        Severity::Warning,
        format!("sysctls[{name}]"),
        message,
        remedy,
    );
    Some(finding.with_evidence(probes::description(failed)))
}

/// Returns true for links of hardware with an IPv4 address.
fn is_uplink(link: &Link) -> bool {
    let is_virtual = link
        .kind
        .as_deref()
        .is_some_and(|kind| !matches!(kind, "bond" | "vlan" | "team"));
    let mut addresses = link.addresses.iter().flatten().map(IpNet::addr);
    !is_virtual
        && link.master.is_none()
        && link.up != Some(false)
        && addresses.any(|address| address.is_ipv4() && !address.is_loopback())
}

/// The kernel uses the larger value of the link and of all links.
fn is_strict(node: ObservedNode<'_>, link: &str) -> bool {
    let value = |name: &str| node.sysctl(&format!("net.ipv4.conf.{name}.rp_filter"));
    let values = [value("all"), value(&link.replace('.', "/"))];
    values.into_iter().flatten().max() == Some("1")
}

fn bridged_v6(node: ObservedNode<'_>) -> Option<Finding> {
    let has_v6 = node.pod_ranges().iter().any(|range| range.addr().is_ipv6());
    has_v6
        .then(|| unfiltered_bridge(node, "net.bridge.bridge-nf-call-ip6tables", IpAddr::is_ipv6))
        .flatten()
}

/// Reports that Pods are ports of a bridge, and bridged packets pass no chains.
fn unfiltered_bridge(node: ObservedNode<'_>, name: &str, is_family: fn(&IpAddr) -> bool) -> Option<Finding> {
    if node.sysctl(name) != Some("0") {
        return None;
    }
    let bridge = node.pod_bridges().into_iter().find(|bridge| {
        let mut addresses = bridge.addresses.iter().flatten();
        addresses.any(|address| is_family(&address.addr())) && node.ports_of(&bridge.name).next().is_some()
    })?;
    let message = format!(
        "Packets between the Pods of bridge {} on Node {} pass no chains ({name} is 0). Replies of an endpoint on the same node keep the address of the Pod, and clients drop them",
        bridge.name,
        node.name()
    );
    let remedy = node.run(&format!("modprobe br_netfilter; sysctl -w {name}=1"));
    Some(node.finding(
        CODE,
        Severity::Warning,
        format!("sysctls[{name}]"),
        message,
        remedy,
    ))
}
