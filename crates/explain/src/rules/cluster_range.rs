//! PTL-0047.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::finding::{Code, Finding, Severity};
use crate::observation::NodeProxy;
use crate::observed::{Observed, observed_nodes};
use crate::rule::Rule;
use crate::world::World;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("cluster_range.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

const CODE: Code = Code(47);

fn check(world: &World) -> Vec<Finding> {
    let nodes = observed_nodes(world);
    nodes
        .flat_map(|node| {
            let proxies = node.proxies().iter().enumerate();
            proxies.filter_map(move |(index, proxy)| finding(node, index, proxy))
        })
        .collect()
}

/// A Pod of the node has an address outside of the ranges that the proxy takes for those of Pods.
fn finding(node: Observed<'_>, index: usize, proxy: &NodeProxy) -> Option<Finding> {
    let ranges = proxy.cluster_cidrs.as_ref()?;
    let is_outside = |address: &IpAddr| {
        let mut of_family = ranges
            .iter()
            .filter(|range| range.addr().is_ipv6() == address.is_ipv6())
            .peekable();
        of_family.peek().is_some() && !of_family.any(|range| range.contains(address))
    };
    let (pod, address) = node.pods().find_map(|pod| {
        let is_on_host_network = pod.0.flag("/spec/hostNetwork");
        let addresses = pod.ips().into_iter().filter(|_| !is_on_host_network);
        addresses.filter(is_outside).map(|address| (pod, address)).next()
    })?;
    let ranges: Vec<String> = ranges.iter().map(IpNet::to_string).collect();
    let ranges = ranges.join(",");
    let message = format!(
        "{} on Node {} has the cluster CIDR {ranges}, which does not contain the address {address} of Pod {}/{}. It masquerades the connections of the Pod, so backends see the address of the node",
        proxy.name,
        node.name(),
        pod.namespace,
        pod.name
    );
    let remedy = format!(
        "Start {} with a --cluster-cidr that contains {address}, or with another --detect-local-mode",
        proxy.name
    );
    let field = format!("proxies[{index}].clusterCIDRs");
    Some(node.finding(CODE, Severity::Warning, field, message, remedy))
}
