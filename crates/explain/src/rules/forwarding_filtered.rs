//! PTL-0042: a firewall drops connections to Pods.

use super::{kernel_parameters, proxy_absent};
use crate::facts::observed_node::{ObservedNode, observed_nodes};
use crate::facts::probes;
use crate::finding::{Code, Finding, Severity};
use crate::observation::{Firewall, ForwardChain, ForwardRule};
use crate::rule::Rule;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("forwarding_filtered.md"),
    explained_by: &[proxy_absent::CODE, kernel_parameters::CODE],
    service: None,
    cluster: Some(check),
};

pub(super) const CODE: Code = Code(42);
/// Chain of Docker for the rules of the administrator.
const DOCKER_USER_CHAIN: &str = "DOCKER-USER";
/// Maximum number of rules of that chain without rules of the administrator: a return.
const DOCKER_USER_RULES_MAX: u64 = 1;
/// Prefixes of the names of chains that accept no new connection to a Pod that is not masqueraded.
const OTHER_CHAINS: [&str; 10] = [
    "DOCKER",
    "KUBE-FORWARD",
    "KUBE-PROXY-FIREWALL",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-FIREWALL",
    "KUBE-NODEPORTS",
    "KUBE-NODE-PORT",
    "KUBE-SERVICES",
    "LIBVIRT_FW",
    "LOG",
];
/// Prefixes of the names of chains of ufw. Its default rules accept no new connection; the rules of the administrator
/// can.
const UFW_CHAINS: &str = "ufw";
/// Prefixes of the names of bridges of containers that are not Pods.
const CONTAINER_LINKS: [&str; 4] = ["docker", "br-", "virbr", "lxdbr"];

pub(super) fn check(world: &World) -> Vec<Finding> {
    let nodes = observed_nodes(world).filter(|node| !node.has_ebpf_proxy());
    nodes
        .flat_map(|node| {
            let filtered = policy(node)
                .or_else(|| empty_chain(node))
                .or_else(|| firewall(node));
            filtered.into_iter().chain(both_variants(node))
        })
        .collect()
}

/// Verdict of a chain for packets to Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// No rule accepts the packets.
    Dropped,
    /// Rules that the observation does not contain decide.
    Unknown,
    Accepted,
}

/// Reports that the policy of iptables' chain FORWARD is DROP, and no rule accepts packets to Pods.
fn policy(node: ObservedNode<'_>) -> Option<Finding> {
    let chains = node.observation.iptables.as_ref()?.forward.as_ref()?;
    let used = chains
        .iter()
        .filter(|chain| chain.policy == "DROP" && is_used(node, &chain.family));
    let (chain, verdict) = used
        .map(|chain| (chain, verdict(node, chain)))
        .filter(|(_, verdict)| *verdict != Verdict::Accepted)
        .min_by_key(|(_, verdict)| *verdict != Verdict::Dropped)?;
    let failed = probes::failed_from_elsewhere(node);
    if verdict == Verdict::Unknown && failed.is_none() {
        return None;
    }
    let reason = match chain
        .rules
        .iter()
        .flatten()
        .find(|rule| rule.target.starts_with("DOCKER"))
    {
        Some(_) => "Docker sets this policy, and no",
        None => "No",
    };
    let message = format!(
        "The policy of the chain FORWARD ({}, iptables-{}) on Node {} is DROP. {reason} rule accepts connections to Pods",
        chain.family,
        chain.variant,
        node.name()
    );
    let command = if chain.family == "IPv6" {
        "ip6tables"
    } else {
        "iptables"
    };
    let ranges = node.pod_ranges();
    let remedy = match ranges
        .iter()
        .find(|range| range.addr().is_ipv6() == (chain.family == "IPv6"))
    {
        Some(range) => node.run(&format!(
            "{command} -I FORWARD -d {range} -j ACCEPT; {command} -I FORWARD -s {range} -j ACCEPT"
        )),
        None => node.run(&format!("{command} -P FORWARD ACCEPT")),
    };
    let field = format!("iptables.forward[{} {}].policy", chain.variant, chain.family);
    let finding = node.finding(CODE, Severity::Error, field, message, remedy);
    Some(match failed {
        Some(found) => finding.with_evidence(probes::description(found)),
        None => finding,
    })
}

fn is_used(node: ObservedNode<'_>, family: &str) -> bool {
    let ranges = node.pod_ranges();
    match family {
        "IPv4" => ranges.is_empty() || ranges.iter().any(|range| range.addr().is_ipv4()),
        _ => ranges.iter().any(|range| range.addr().is_ipv6()),
    }
}

fn verdict(node: ObservedNode<'_>, chain: &ForwardChain) -> Verdict {
    let Some(rules) = &chain.rules else {
        return Verdict::Unknown;
    };
    let mut verdict = Verdict::Dropped;
    for rule in rules {
        let accepts = rule.target == "ACCEPT" && !rule.has_other_matches && concerns_pods(node, rule);
        if accepts {
            return Verdict::Accepted;
        }
        let has_rules_of_administrator = rule.target == DOCKER_USER_CHAIN
            && rule
                .target_rules
                .is_none_or(|number| number > DOCKER_USER_RULES_MAX);
        if has_rules_of_administrator || rule.target.starts_with(UFW_CHAINS) {
            verdict = Verdict::Unknown;
            continue;
        }
        let is_verdict = matches!(rule.target.as_str(), "ACCEPT" | "DROP" | "REJECT" | "RETURN" | "");
        let is_other = OTHER_CHAINS
            .iter()
            .any(|beginning| rule.target.starts_with(beginning));
        // Chains of networks accept the packets of their Pods.
        if !is_verdict && !is_other {
            return Verdict::Accepted;
        }
    }
    verdict
}

/// Returns true if packets of Pods match the links and ranges of a rule.
fn concerns_pods(node: ObservedNode<'_>, rule: &ForwardRule) -> bool {
    let is_other_link = |link: &Option<String>| {
        link.as_deref().is_some_and(|link| {
            CONTAINER_LINKS
                .iter()
                .any(|beginning| link.starts_with(beginning))
        })
    };
    let ranges = node.pod_ranges();
    let is_other_range = |range: Option<ipnet::IpNet>| {
        let is_of_pods = |range: ipnet::IpNet| {
            let overlaps = |pods: &ipnet::IpNet| pods.contains(&range.addr()) || range.contains(&pods.addr());
            ranges.is_empty() || ranges.iter().any(overlaps)
        };
        range.is_some_and(|range| !is_of_pods(range))
    };
    let is_of_other_links = is_other_link(&rule.input_link) || is_other_link(&rule.output_link);
    let is_of_other_ranges = is_other_range(rule.source) && is_other_range(rule.destination);
    !is_of_other_links && !is_of_other_ranges
}

/// Reports that a chain of nftables drops all forwarded packets, because it has no rule.
fn empty_chain(node: ObservedNode<'_>) -> Option<Finding> {
    let tables = node.observation.tables.iter().flatten();
    let (table, chain) = tables
        .filter(|table| !table.dormant && matches!(table.family.as_str(), "ip" | "inet"))
        .flat_map(|table| table.chains.iter().flatten().map(move |chain| (table, chain)))
        .find(|(_, chain)| {
            chain.hook.as_deref() == Some("forward")
                && chain.policy.as_deref() == Some("drop")
                && chain.rules == Some(0)
        })?;
    let name = format!("{} {} {}", table.family, table.name, chain.name);
    let message = format!(
        "The chain {name} on Node {} drops all forwarded packets: its policy is drop, and it has no rules",
        node.name()
    );
    let remedy = node.run(&format!(
        "nft 'chain {} {} {} {{ policy accept; }}'",
        table.family, table.name, chain.name
    ));
    let field = format!(
        "tables[{} {}].chains[{}].policy",
        table.family, table.name, chain.name
    );
    Some(node.finding(CODE, Severity::Error, field, message, remedy))
}

/// Reports that a firewall drops forwarded packets by default, and probes to the node's Pods or node ports fail.
fn firewall(node: ObservedNode<'_>) -> Option<Finding> {
    let is_filtering = |firewall: &&Firewall| {
        let verdicts = [&firewall.forwarding, &firewall.input];
        let mut verdicts = verdicts.into_iter().flatten();
        verdicts.any(|verdict| matches!(verdict.as_str(), "drop" | "reject"))
    };
    let mut firewalls = node.observation.firewalls.iter().flatten();
    let firewall = firewalls.find(|firewall| is_filtering(firewall) && !trusts_pods(node, firewall))?;
    let found = probes::failed_from_elsewhere(node)?;
    let message = format!(
        "{} on Node {} drops packets that no rule accepts, and connections to the Pods or node ports of the node fail",
        firewall.name,
        node.name()
    );
    let ranges: Vec<String> = node.pod_ranges().iter().map(ToString::to_string).collect();
    let ranges = if ranges.is_empty() {
        "RANGE".to_owned()
    } else {
        ranges.join(" ")
    };
    let command = match firewall.name.as_str() {
        "firewalld" => {
            format!("firewall-cmd --permanent --zone=trusted --add-source={ranges}; firewall-cmd --reload")
        }
        "ufw" => format!("ufw default allow routed; ufw allow from {ranges}"),
        _ => format!("accept forwarded packets of the Pod range {ranges}"),
    };
    let field = format!("firewalls[{}]", firewall.name);
    let finding = node.finding(CODE, Severity::Error, field, message, node.run(&command));
    Some(finding.with_evidence(probes::description(found)))
}

fn trusts_pods(node: ObservedNode<'_>, firewall: &Firewall) -> bool {
    let trusted = |link: &String| firewall.trusted_links.iter().flatten().any(|name| name == link);
    let ranges = node.pod_ranges();
    let trusts_ranges = !ranges.is_empty() && ranges.iter().all(|range| firewall.trusts(range.addr()));
    trusts_ranges || node.pod_bridges().iter().any(|bridge| trusted(&bridge.name))
}

/// Reports that both variants of iptables have rules for Services. Each program uses one of them, so one set is of an
/// earlier process.
fn both_variants(node: ObservedNode<'_>) -> Option<Finding> {
    let iptables = node.observation.iptables.as_ref()?;
    let services = iptables.services.as_ref()?;
    let has = |variant: &str| services.iter().any(|name| name == variant);
    if !has("legacy") || !has("nft") {
        return None;
    }
    let message = format!(
        "iptables-legacy and iptables-nft both have rules for Services on Node {}. The kernel applies both, and only one of them follows changes",
        node.name()
    );
    let remedy = format!(
        "Remove the rules of the variant that the node proxy does not use: {}",
        node.run("iptables-legacy-save | grep -v KUBE- | iptables-legacy-restore, or iptables-nft-save | grep -v KUBE- | iptables-nft-restore")
    );
    Some(node.finding(CODE, Severity::Warning, "iptables.services", message, remedy))
}
