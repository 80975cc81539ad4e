//! PTL-0047: the cluster CIDR of the node proxy is not that of the Pods.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::facts::observed_node::observed_nodes;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::rule::Rule;
use crate::subject::finding_about;
use crate::views::{Node, Pod};
use crate::world::{COMPARED_PODS_MAX, World};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("cluster_range.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

const CODE: Code = Code(47);
/// Namespace and name of kubeadm's ConfigMap for kube-proxy, and its key with the configuration.
const SYSTEM_NAMESPACE: &str = "kube-system";
const CONFIGURATION: (&str, &str) = ("kube-proxy", "config.conf");
/// Way in which a proxy detects Pods by the cluster CIDR; the default.
const BY_RANGE: &str = "ClusterCIDR";
/// Maximum number of ranges in a remedy.
const RANGES_MAX: usize = 4;

/// A cluster CIDR with the proxy that has it.
struct ProxyRanges {
    /// Description of the proxy, such as `kube-proxy on Node node-a`.
    owner: String,
    /// Program.
    program: String,
    ranges: Vec<IpNet>,
}

/// Fault of a cluster CIDR, with its remedy.
struct RangeFault {
    message: String,
    remedy: String,
}

fn check(world: &World) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_observed = false;
    for node in observed_nodes(world) {
        for (index, proxy) in node.proxies().iter().enumerate() {
            let Some(ranges) = proxy.cluster_cidrs.clone() else {
                continue;
            };
            is_observed = true;
            let setting = ProxyRanges {
                owner: format!("{} on Node {}", proxy.name, node.name()),
                program: proxy.name.clone(),
                ranges,
            };
            let field = format!("proxies[{index}].clusterCIDRs");
            let fault = pod_outside(&setting, node.pods()).or_else(|| node_inside(&setting, world));
            findings.extend(
                fault.map(|fault| node.finding(CODE, Severity::Warning, field, fault.message, fault.remedy)),
            );
        }
    }
    if !is_observed {
        findings.extend(misconfigured_range(world));
    }
    findings
}

/// Reports a fault in the ConfigMap of kube-proxy, if no observation shows the setting.
fn misconfigured_range(world: &World) -> Option<Finding> {
    let (name, key) = CONFIGURATION;
    let map = world.object(Kind::ConfigMap, SYSTEM_NAMESPACE, name)?;
    let text = map.at("/data").get(key)?.as_str()?;
    let mode = value(text, "detectLocalMode").unwrap_or_default();
    let ranges: Vec<IpNet> = value(text, "clusterCIDR")?
        .split(',')
        .filter_map(|range| range.trim().parse().ok())
        .collect();
    if ranges.is_empty() || !(mode.is_empty() || mode == BY_RANGE) {
        return None;
    }
    let setting = ProxyRanges {
        owner: format!("The configuration of {name}"),
        program: name.to_owned(),
        ranges,
    };
    let pods = world.all(Kind::Pod).take(COMPARED_PODS_MAX).map(Pod);
    let fault =
        pod_outside(&setting, pods.filter(|pod| pod.is_active())).or_else(|| node_inside(&setting, world))?;
    let field = format!("data[{key}]");
    Some(finding_about(
        map,
        CODE,
        Severity::Warning,
        field,
        fault.message,
        fault.remedy,
    ))
}

/// Returns the value of a line of a configuration in YAML.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    values.next().map(|value| value.trim().trim_matches(['"', '\'']))
}

fn list(ranges: &[IpNet]) -> String {
    let ranges: Vec<String> = ranges.iter().map(IpNet::to_string).collect();
    ranges.join(",")
}

/// Reports that a Pod has an address outside of the ranges of its family. A family without a range is not detected by
/// address.
fn pod_outside<'w>(setting: &ProxyRanges, mut pods: impl Iterator<Item = Pod<'w>>) -> Option<RangeFault> {
    let is_outside = |address: &IpAddr| {
        let mut family_ranges = setting
            .ranges
            .iter()
            .filter(|range| range.addr().is_ipv6() == address.is_ipv6())
            .peekable();
        family_ranges.peek().is_some() && !family_ranges.any(|range| range.contains(address))
    };
    let (pod, address) = pods.find_map(|pod| {
        let addresses = pod.ips().into_iter().filter(|_| !pod.is_on_host_network());
        addresses.filter(is_outside).map(|address| (pod, address)).next()
    })?;
    let message = format!(
        "{} has the cluster CIDR {}, which does not contain the address {address} of Pod {}/{}. It masquerades the connections of the Pod, so backends see the address of the node",
        setting.owner,
        list(&setting.ranges),
        pod.namespace,
        pod.name
    );
    let remedy = format!(
        "Start {} with a --cluster-cidr that contains {address}, or with another --detect-local-mode",
        setting.program
    );
    Some(RangeFault { message, remedy })
}

/// Reports that a range contains the address of a Node. Networks that give Pods addresses of the nodes' network need
/// such a range. It therefore counts only if the addresses of the Pods are in the ranges of the Nodes.
fn node_inside(setting: &ProxyRanges, world: &World) -> Option<RangeFault> {
    let (node, address, range) = world.nodes().find_map(|node| {
        let addresses = node.internal_ips().into_iter();
        let in_range = |address: IpAddr| {
            let mut ranges = setting.ranges.iter();
            let range = ranges.find(|range| range.contains(&address))?;
            Some((node, address, *range))
        };
        addresses.filter_map(in_range).next()
    })?;
    let ranges: Vec<IpNet> = world.nodes().flat_map(Node::pod_ranges).collect();
    let has_range = |address: &IpAddr| ranges.iter().any(|range| range.contains(address));
    let pods = world.all(Kind::Pod).take(COMPARED_PODS_MAX).map(Pod);
    let own = |pod: &Pod<'_>| pod.is_active() && !pod.is_on_host_network();
    let mut addresses = pods.filter(own).flat_map(Pod::ips).peekable();
    let is_by_ranges = addresses.peek().is_some() && addresses.all(|address| has_range(&address));
    if !is_by_ranges || has_range(&address) {
        return None;
    }
    let message = format!(
        "{} has the cluster CIDR {}, whose range {range} contains the address {address} of Node {}. It takes hosts with such addresses for Pods, and does not masquerade their connections, so replies from Pods of other nodes do not pass it",
        setting.owner,
        list(&setting.ranges),
        node.name
    );
    let ranges: Vec<IpNet> = IpNet::aggregate(&ranges);
    let remedy = format!(
        "Start {} with a --cluster-cidr that contains only the ranges of the Pods ({}), or with another --detect-local-mode",
        setting.program,
        list(ranges.get(..RANGES_MAX).unwrap_or(&ranges))
    );
    Some(RangeFault { message, remedy })
}
