//! PTL-0040: the rules of the node proxy are missing, dormant or changed.

use std::net::IpAddr;

use crate::facts::observed_node::{
    IPVS_LINK, KUBE_PROXY_TABLE, ObservedNode, PORTOLAN, PORTOLAN_TABLE, is_served, observed_nodes,
};
use crate::finding::{Code, Finding, Severity};
use crate::observation::Table;
use crate::rule::Rule;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("rules_changed.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

pub(super) const CODE: Code = Code(40);

fn check(world: &World) -> Vec<Finding> {
    let mut findings = Vec::new();
    for node in observed_nodes(world) {
        if !world.services().any(is_served) {
            return findings;
        }
        let absent = rules_absent(node);
        if absent.is_none() {
            findings.extend(tables(node).filter_map(|table| defect(node, table)));
        }
        findings.extend(absent);
    }
    findings
}

/// Returns the tables of proxies.
fn tables(node: ObservedNode<'_>) -> impl Iterator<Item = &Table> {
    let kube_proxy = node.tables_named(KUBE_PROXY_TABLE);
    node.portolan_table().into_iter().chain(kube_proxy)
}

/// Reports that a proxy runs, and the kernel does not have the rules of its mode.
fn rules_absent(node: ObservedNode<'_>) -> Option<Finding> {
    let (index, proxy, rules) = node.proxies().iter().enumerate().find_map(|(index, proxy)| {
        Some((
            index,
            proxy,
            absent_rules(node, &proxy.name, proxy.mode.as_deref()?)?,
        ))
    })?;
    let message = format!(
        "{} runs on Node {} in {} mode, but {rules} absent",
        proxy.name,
        node.name(),
        proxy.mode.as_deref().unwrap_or_default()
    );
    let remedy = format!(
        "Restart {}, which writes its rules again, and find the program that removes them, such as a firewall that flushes all rules: {}",
        proxy.name,
        node.log_of(&proxy.name)
    );
    let field = format!("proxies[{index}]");
    Some(node.finding(CODE, Severity::Error, field, message, remedy))
}

/// Returns the rules that a proxy has in a mode, if they are known to be absent.
fn absent_rules(node: ObservedNode<'_>, proxy: &str, mode: &str) -> Option<String> {
    let sets = node.rule_sets();
    let (family, name) = PORTOLAN_TABLE;
    match (proxy, mode) {
        (PORTOLAN, "nftables" | "ebpf" | "ipvs") if sets.portolan == Some(false) => {
            Some(format!("the table {family} {name} is"))
        }
        (_, "nftables") if proxy != PORTOLAN => {
            let tables = node.tables()?;
            let is_present = |family: &str| {
                let mut tables = tables.iter();
                tables.any(|table| table.family == family && table.name == KUBE_PROXY_TABLE)
            };
            let families = families(node.world).into_iter();
            let absent: Vec<&str> = families.filter(|family| !is_present(family)).collect();
            let family = absent.first()?;
            Some(format!("the table {family} {KUBE_PROXY_TABLE} is"))
        }
        (_, "iptables") if sets.iptables == Some(false) => Some("the chains KUBE-SERVICES are".to_owned()),
        (_, "ipvs") if proxy != PORTOLAN && has_no_virtual_servers(node, proxy) => {
            Some("its virtual servers are".to_owned())
        }
        _ => None,
    }
}

/// Returns true if IPVS has no virtual servers. Without their number, kube-proxy's link shows it; other programs have
/// no such link.
fn has_no_virtual_servers(node: ObservedNode<'_>, proxy: &str) -> bool {
    let number = node.observation.ipvs_services;
    let has_link = || node.links().iter().any(|link| link.name == IPVS_LINK);
    let is_link_absent = || {
        let is_known = node.observation.links.is_some() && !node.observation.is_truncated("links");
        proxy == KUBE_PROXY_TABLE && is_known && !has_link()
    };
    number.map_or_else(is_link_absent, |number| number == 0)
}

/// Returns the families of the cluster IPs, as the names of table families.
fn families(world: &World) -> Vec<&'static str> {
    let has = |is_family: fn(&IpAddr) -> bool| {
        let mut services = world.services().filter(|service| is_served(*service));
        services.any(|service| service.cluster_ips().iter().any(is_family))
    };
    let mut families = Vec::new();
    if has(IpAddr::is_ipv4) {
        families.push("ip");
    }
    if has(IpAddr::is_ipv6) {
        families.push("ip6");
    }
    families
}

/// Reports a table that the kernel does not use, or that differs from the plan.
fn defect(node: ObservedNode<'_>, table: &Table) -> Option<Finding> {
    let (family, name) = (&table.family, &table.name);
    let description = format!("The table {family} {name} on Node {}", node.name());
    let has_hook = |chains: &Vec<_>| {
        chains
            .iter()
            .any(|chain: &crate::observation::Chain| chain.hook.is_some())
    };
    let differences: Vec<String> = [
        (table.missing, "missing"),
        (table.changed, "changed"),
        (table.unexpected, "not in the plan"),
    ]
    .into_iter()
    .filter_map(|(number, kind)| Some(format!("{} {kind}", number.filter(|number| *number > 0)?)))
    .collect();
    let (severity, fault) = if table.dormant {
        (
            Severity::Error,
            "is dormant, so the kernel does not run its chains".to_owned(),
        )
    } else if table.chains.as_ref().is_some_and(|chains| !has_hook(chains)) {
        (
            Severity::Error,
            "has no base chain, so no packet reaches its rules".to_owned(),
        )
    } else if differences.is_empty() {
        return None;
    } else {
        let differences = differences.join(", ");
        (
            Severity::Warning,
            format!("differs from the plan. Objects: {differences}"),
        )
    };
    let proxy = if *name == KUBE_PROXY_TABLE {
        "kube-proxy"
    } else {
        "portolan"
    };
    let remedy = format!(
        "Restart {proxy}, which writes its rules again, and find the program that changes them: {}",
        node.run(&format!("nft list table {family} {name}"))
    );
    let field = format!("tables[{family} {name}]");
    Some(node.finding(CODE, severity, field, format!("{description} {fault}"), remedy))
}
