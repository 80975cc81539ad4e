//! PTL-0053: the address of the node has changed.

use std::net::IpAddr;

use crate::finding::{Code, Finding, Severity};
use crate::observed::{Observed, observed_nodes};
use crate::rule::Rule;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("node_address.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

const CODE: Code = Code(53);

fn check(world: &World) -> Vec<Finding> {
    observed_nodes(world).filter_map(finding).collect()
}

fn finding(node: Observed<'_>) -> Option<Finding> {
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
