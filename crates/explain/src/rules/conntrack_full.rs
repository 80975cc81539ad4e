//! PTL-0045: the connection tracking table is full, or entries are not inserted.

use crate::facts::observed_node::{ObservedNode, observed_nodes};
use crate::finding::{Code, Finding, Severity};
use crate::observation::Conntrack;
use crate::rule::Rule;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("conntrack_full.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

pub(super) const CODE: Code = Code(45);
/// Percentage of the maximum at which the table is nearly full.
const NEARLY_FULL_PERCENT: u64 = 95;

fn check(world: &World) -> Vec<Finding> {
    let nodes = observed_nodes(world);
    nodes
        .filter_map(|node| {
            let conntrack = node.observation.conntrack.as_ref()?;
            full_table(node, conntrack)
                .or_else(|| failed_insertions(node, conntrack))
                .or_else(|| dropped_packets(node, conntrack))
        })
        .collect()
}

fn full_table(node: ObservedNode<'_>, conntrack: &Conntrack) -> Option<Finding> {
    let (entries, maximum) = (
        conntrack.entries?,
        conntrack.maximum.filter(|maximum| *maximum > 0)?,
    );
    let percent = entries.saturating_mul(100) / maximum;
    if percent < NEARLY_FULL_PERCENT {
        return None;
    }
    let (severity, state) = if entries >= maximum || conntrack.recent_drops.is_some_and(|drops| drops > 0) {
        (
            Severity::Error,
            "full: the kernel drops packets of new connections",
        )
    } else {
        (Severity::Warning, "nearly full")
    };
    let message = format!(
        "The connection tracking table of Node {} has {entries} of {maximum} entries. It is {state}",
        node.name()
    );
    let remedy = format!(
        "Increase the maximum, and find the client with the most entries: {}; conntrack -L",
        node.run(&format!(
            "sysctl -w net.netfilter.nf_conntrack_max={}",
            maximum.saturating_mul(2)
        ))
    );
    let finding = node.finding(CODE, severity, "conntrack.entries", message, remedy);
    Some(match conntrack.drops {
        Some(drops) => finding.with_evidence(format!("{drops} packets were dropped since the boot")),
        None => finding,
    })
}

/// Reports packets without an entry, although the table is not full. It was full for a moment, or a helper of a
/// protocol rejects the packets.
fn dropped_packets(node: ObservedNode<'_>, conntrack: &Conntrack) -> Option<Finding> {
    let dropped = conntrack.recent_drops.filter(|dropped| *dropped > 0)?;
    let message = format!(
        "The kernel of Node {} dropped {dropped} packets during the observation, because it had no conntrack entry for them",
        node.name()
    );
    let remedy = node.run("dmesg | grep nf_conntrack; sysctl net.netfilter.nf_conntrack_max");
    let field = "conntrack.recentDrops";
    Some(node.finding(CODE, Severity::Warning, field, message, remedy))
}

/// Reports that entries are not inserted, although the table is not full: two packets of one socket take different
/// endpoints or ports.
fn failed_insertions(node: ObservedNode<'_>, conntrack: &Conntrack) -> Option<Finding> {
    let failed = conntrack.recent_insert_failed.filter(|failed| *failed > 0)?;
    let message = format!(
        "The kernel of Node {} dropped {failed} packets during the observation, because it could not insert their conntrack entries. DNS queries of musl and glibc are often affected",
        node.name()
    );
    let remedy = "Let resolvers send the two queries of a name one after the other (dnsConfig.options: single-request-reopen), or run a DNS cache on the node".to_owned();
    let field = "conntrack.recentInsertFailed";
    let finding = node.finding(CODE, Severity::Warning, field, message, remedy);
    Some(match conntrack.insert_failed {
        Some(total) => finding.with_evidence(format!("{total} entries were not inserted since the boot")),
        None => finding,
    })
}
