//! Firewall programs, found by their chains.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use explain::observation::Firewall;
use ipnet::IpNet;
use netlink::nftables::{Expression, Inventory, MetaKey, Nftables, PayloadBase, Rejection, Rule, Verdict};

use super::iptables::IptablesState;

/// Table of firewalld.
const FIREWALLD: &str = "firewalld";
/// End of the names of chains of firewalld's zone for trusted sources.
const TRUSTED_ZONE: &str = "_trusted";
/// Offset and length of the source address in an IPv4 and in an IPv6 header.
const SOURCES: [(u32, usize); 2] = [(12, 4), (8, 16)];
/// Maximum number of rules of firewalld that are read.
const RULES_MAX: usize = 10_000;

/// Returns the firewall programs of this node.
pub(super) fn find(inventory: Option<&Inventory>, iptables: &IptablesState) -> Vec<Firewall> {
    let mut firewalls = Vec::new();
    let has_firewalld = |inventory: &Inventory| {
        inventory
            .tables
            .iter()
            .any(|table| table.name == FIREWALLD && table.family == "inet")
    };
    if inventory.is_some_and(has_firewalld) {
        let rules = Nftables::open()
            .ok()
            .and_then(|mut nftables| nftables.rules(FIREWALLD).ok());
        firewalls.push(firewalld(&rules.unwrap_or_default()));
    }
    firewalls.extend(of_iptables(iptables));
    firewalls
}

/// Returns the firewalls whose chains are in the tables of iptables.
fn of_iptables(iptables: &IptablesState) -> Vec<Firewall> {
    let has = |name: &str| iptables.filter_chains.contains(name);
    let forward = iptables.observed.forward.iter().flatten();
    let forward: Vec<&str> = forward
        .filter(|chain| chain.family == "IPv4")
        .map(|chain| chain.policy.as_str())
        .collect();
    let input: Vec<&str> = iptables.input_policies.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    if has("ufw-before-forward") || has("ufw-user-input") {
        found.push(Firewall {
            name: "ufw".to_owned(),
            forwarding: strictest_policy(&forward),
            input: strictest_policy(&input),
            ..Firewall::default()
        });
    }
    if has("DOCKER-USER") || has("DOCKER-FORWARD") {
        found.push(Firewall {
            name: "docker".to_owned(),
            forwarding: strictest_policy(&forward),
            ..Firewall::default()
        });
    }
    found
}

/// Returns the strictest policy of several chains, because packets pass all of them.
fn strictest_policy(policies: &[&str]) -> Option<String> {
    let is_drop = policies.contains(&"DROP");
    let verdict = if is_drop { "drop" } else { "accept" };
    (!policies.is_empty()).then(|| verdict.to_owned())
}

/// Reads the default verdicts and the zone for trusted sources from the rules of firewalld.
fn firewalld(rules: &[(String, Rule)]) -> Firewall {
    let last = |chain: &str| {
        let mut rules = rules.iter().rev().filter(|(name, _)| name == chain);
        rules.next().and_then(|(_, rule)| verdict(rule))
    };
    let trusted = rules.iter().take(RULES_MAX).filter(|(chain, rule)| {
        let target = goto(rule).unwrap_or_default();
        chain.contains("_ZONES") && target.ends_with(TRUSTED_ZONE)
    });
    let mut links: Vec<String> = Vec::new();
    let mut sources: Vec<IpNet> = Vec::new();
    for (_, rule) in trusted {
        links.extend(input_link(rule));
        sources.extend(source(rule));
    }
    links.sort_unstable();
    links.dedup();
    sources.sort_unstable();
    sources.dedup();
    Firewall {
        name: FIREWALLD.to_owned(),
        forwarding: last("filter_FORWARD"),
        input: last("filter_INPUT"),
        trusted_links: Some(links),
        trusted_sources: Some(sources),
    }
}

/// Returns the verdict of a rule for all packets; firewalld rejects with codes that the decoder does not name.
fn verdict(rule: &Rule) -> Option<String> {
    let verdict = match rule.expressions.last()? {
        Expression::Verdict(Verdict::Drop) => "drop",
        Expression::Verdict(Verdict::Accept) => "accept",
        Expression::Reject(Rejection::TcpReset | Rejection::PortUnreachable) => "reject",
        Expression::Other(name) if name == "reject" => "reject",
        _ => return None,
    };
    Some(verdict.to_owned())
}

fn goto(rule: &Rule) -> Option<&str> {
    rule.expressions.iter().find_map(|expression| match expression {
        Expression::Verdict(verdict) => verdict.chain(),
        _ => None,
    })
}

/// Returns the link that a rule compares: `iifname "cni0"`.
fn input_link(rule: &Rule) -> Option<String> {
    let mut expressions = rule.expressions.iter();
    expressions.find(|expression| {
        matches!(
            expression,
            Expression::Meta {
                key: MetaKey::InputInterface,
                ..
            }
        )
    })?;
    let Some(Expression::Compare { value, .. }) = expressions.next() else {
        return None;
    };
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8(value.get(..end)?.to_vec()).ok()
}

/// Returns the source that a rule compares: `ip saddr 10.244.0.0/16`. A prefix of whole bytes has no mask.
fn source(rule: &Rule) -> Option<IpNet> {
    let expressions = &rule.expressions;
    let (position, address_bytes, loaded) =
        expressions
            .iter()
            .enumerate()
            .find_map(|(position, expression)| {
                let Expression::Payload {
                    base: PayloadBase::Network,
                    offset,
                    bytes,
                    ..
                } = expression
                else {
                    return None;
                };
                let (_, length) = SOURCES.iter().find(|(at, _)| at == offset)?;
                Some((position, *length, usize::try_from(*bytes).ok()?))
            })?;
    let mut following = expressions.iter().skip(position + 1);
    let mut bits = loaded.checked_mul(8)?;
    let mut next = following.next()?;
    if let Expression::Mask { mask, .. } = next {
        bits = mask.iter().map(|byte| byte.count_ones() as usize).sum();
        next = following.next()?;
    }
    let Expression::Compare { value, .. } = next else {
        return None;
    };
    let mut address = value.clone();
    address.resize(address_bytes, 0);
    let address: IpAddr = match <[u8; 4]>::try_from(address.as_slice()) {
        Ok(octets) => Ipv4Addr::from(octets).into(),
        Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).into(),
    };
    IpNet::new(address, u8::try_from(bits).ok()?).ok()
}

#[cfg(test)]
mod tests;
