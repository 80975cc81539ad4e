//! Tables and chains of netfilter, and the programs that filter packets by them.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::lenient_parsing::valid;

/// A table of nftables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// ip, ip6, inet, arp, bridge or netdev.
    pub family: String,
    /// Name.
    pub name: String,
    /// True if the kernel does not run the chains of the table.
    #[serde(default)]
    pub dormant: bool,
    /// Chains.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub chains: Option<Vec<Chain>>,
    /// Number of objects of the plan that the table lacks. Only for tables of a proxy that reads them back.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub missing: Option<u64>,
    /// Number of objects that differ from the plan.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub changed: Option<u64>,
    /// Number of objects that the plan does not contain.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub unexpected: Option<u64>,
}

/// A chain of nftables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// Name.
    pub name: String,
    /// filter, nat or route. Only base chains have a type, a hook, a priority and a policy.
    #[serde(
        rename = "type",
        default,
        deserialize_with = "valid",
        skip_serializing_if = "Option::is_none"
    )]
    pub kind: Option<String>,
    /// prerouting, input, forward, output, postrouting or ingress.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// Priority at the hook.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// accept or drop.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Number of rules.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub rules: Option<u64>,
}

/// Rules of iptables. The variant is `legacy` or `nft`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Iptables {
    /// Number of rules of iptables-legacy, in all tables of both families.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub legacy_rules: Option<u64>,
    /// Number of rules of iptables-nft, in all tables of both families.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub nft_rules: Option<u64>,
    /// Variants in which the table `nat` has the chain `KUBE-SERVICES`.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub services: Option<Vec<String>>,
    /// Chains `FORWARD` of the tables `filter`.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub forward: Option<Vec<ForwardChain>>,
}

/// A chain `FORWARD` of iptables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardChain {
    /// `legacy` or `nft`.
    pub variant: String,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// `ACCEPT` or `DROP`.
    pub policy: String,
    /// Rules in their order; absent if they were not read.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<ForwardRule>>,
}

/// A rule of a chain `FORWARD`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardRule {
    /// Target: a chain, such as `KUBE-FORWARD`, or a verdict, such as `ACCEPT`.
    pub target: String,
    /// Match of the input link, such as `docker0` or `!docker0`.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub input_link: Option<String>,
    /// Match of the output link.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub output_link: Option<String>,
    /// Match of the source.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub source: Option<IpNet>,
    /// Match of the destination.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpNet>,
    /// Number of rules of the target, if it is a chain.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub target_rules: Option<u64>,
    /// True if the rule has other matches, such as a mark, or a state that new connections do not have.
    #[serde(default)]
    pub has_other_matches: bool,
}

/// A firewall program, such as `firewalld`, `ufw` or `docker`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Firewall {
    /// Name of the program.
    pub name: String,
    /// Verdict for forwarded packets that no rule accepts: accept, drop or reject.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<String>,
    /// Verdict for packets to the node that no rule accepts: accept, drop or reject.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Links of which the program accepts all packets, such as those of firewalld's zone `trusted`.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub trusted_links: Option<Vec<String>>,
    /// Sources of which the program accepts all packets.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub trusted_sources: Option<Vec<IpNet>>,
}

impl Firewall {
    /// Returns true if the program accepts all packets of a source.
    pub fn trusts(&self, source: IpAddr) -> bool {
        let mut ranges = self.trusted_sources.iter().flatten();
        ranges.any(|range| range.contains(&source))
    }
}
