//! PTL-0041: the rules of two node proxies are active.

use crate::facts::observed_node::{KUBE_PROXY_TABLE, ObservedNode, PORTOLAN, observed_nodes};
use crate::finding::{Code, Finding, Severity};
use crate::rule::Rule;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("two_proxies.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

const CODE: Code = Code(41);

/// Rules of one proxy and mode.
struct Rules {
    description: &'static str,
    /// Command that removes the rules.
    removal: &'static str,
    /// True if a proxy is known to run in the mode of these rules.
    is_current: bool,
}

fn check(world: &World) -> Vec<Finding> {
    observed_nodes(world).filter_map(finding).collect()
}

fn finding(node: ObservedNode<'_>) -> Option<Finding> {
    let rules = rules(node);
    let name = node.name();
    let second = second_proxy(node);
    let other = node.kube_proxy().filter(|_| second.is_some());
    let runs_both = other.is_some();
    if rules.len() < 2 && !runs_both {
        return None;
    }
    let former = rules.iter().find(|rules| !rules.is_current);
    let is_current_known = rules.iter().any(|rules| rules.is_current);
    let (message, remedy) = match former.filter(|_| is_current_known && !runs_both) {
        Some(former) => {
            let message = format!(
                "Node {name} has {}, which no running proxy maintains. They send connections to former endpoints",
                former.description
            );
            (message, node.run(former.removal))
        }
        None if runs_both => {
            let message = format!(
                "{} and {} run on Node {name} at the same time, and both translate connections",
                other.map_or(KUBE_PROXY_TABLE, |proxy| proxy.name.as_str()),
                second.unwrap_or(PORTOLAN)
            );
            let remedy =
                "Remove one of the two from the node. The page of the node proxy describes both ways"
                    .to_owned();
            (message, remedy)
        }
        None => {
            let descriptions: Vec<&str> = rules.iter().map(|rules| rules.description).collect();
            let message = format!(
                "Node {name} has the rules of two node proxies: {}",
                descriptions.join("; ")
            );
            let removals: Vec<&str> = rules.iter().map(|rules| rules.removal).collect();
            let remedy = format!(
                "Remove the rules of the proxy that does not run: {}",
                node.run(&removals.join(", or "))
            );
            (message, remedy)
        }
    };
    Some(node.finding(CODE, Severity::Warning, "tables", message, remedy))
}

/// Returns the name of a proxy that runs in place of kube-proxy: Portolan, or a network that serves Services with eBPF.
fn second_proxy(node: ObservedNode<'_>) -> Option<&str> {
    if node.runs_portolan() {
        return Some(PORTOLAN);
    }
    let mut proxies = node.proxies().iter();
    let ebpf = proxies.find(|proxy| proxy.mode.as_deref() == Some("ebpf"))?;
    Some(&ebpf.name)
}

/// Returns the rules for Services, without dormant tables.
fn rules(node: ObservedNode<'_>) -> Vec<Rules> {
    let sets = node.rule_sets();
    let runs = |is_portolan: bool, modes: &[&str]| {
        let mut proxies = node.proxies().iter();
        proxies.any(|proxy| {
            let is_in_mode = proxy.mode.as_deref().is_none_or(|mode| modes.contains(&mode));
            is_in_mode && (proxy.name == PORTOLAN) == is_portolan
        })
    };
    let mut rules = Vec::new();
    if node.portolan_table().is_some_and(|table| !table.dormant) {
        rules.push(Rules {
            description: "the table inet portolan",
            removal: "nft delete table inet portolan",
            is_current: runs(true, &["nftables", "ebpf", "ipvs", "userspace"]),
        });
    }
    if node.tables_named(KUBE_PROXY_TABLE).any(|table| !table.dormant) {
        rules.push(Rules {
            description: "the tables kube-proxy of nftables",
            removal: "nft delete table ip kube-proxy; nft delete table ip6 kube-proxy",
            is_current: runs(false, &["nftables"]),
        });
    }
    if sets.iptables == Some(true) {
        rules.push(Rules {
            description: "the chains KUBE-SERVICES of iptables",
            removal: "iptables-save | grep -v KUBE- | iptables-restore",
            is_current: runs(true, &["iptables"]) || runs(false, &["iptables", "ipvs"]),
        });
    }
    rules
}
