//! Limits of a report, as sentences for terminals.

use explain::traffic::{ClusterTraffic, Events, NodeState};

use crate::output::printable;

/// Maximum number of nodes that a sentence names.
const NODES_SHOWN: usize = 5;

/// Returns the reasons why the traffic is less than all traffic.
pub(crate) fn notes(traffic: &ClusterTraffic) -> Vec<String> {
    let mut notes = Vec::new();
    for node in traffic.nodes.iter().take(NODES_SHOWN) {
        if let Some(error) = &node.error {
            notes.push(printable(&format!("no report of node {}: {error}", node.name)));
        }
    }
    let failed = traffic.nodes.iter().filter(|node| node.error.is_some()).count();
    let shown = notes.len();
    if failed > shown {
        notes.push(format!("no report of {} further nodes", failed - shown));
    }
    let reported: Vec<&NodeState> = traffic.nodes.iter().filter(|node| node.error.is_none()).collect();
    let named = |is_meant: fn(&NodeState) -> bool| nodes(&reported, is_meant);
    if let Some(nodes) = named(|node| !node.counts_bytes) {
        notes.push(format!(
            "bytes are unknown on {nodes}: sysctl -w net.netfilter.nf_conntrack_acct=1 counts those of new connections"
        ));
    }
    if let Some(nodes) = named(|node| node.counts_bytes && node.flows_without_bytes > 0) {
        notes.push(format!(
            "bytes of connections that began before the kernel counted are unknown on {nodes}"
        ));
    }
    if let Some(nodes) = named(|node| node.events == Events::Off) {
        notes.push(format!(
            "connections shorter than the interval are not counted on {nodes}: sysctl -w \
             net.netfilter.nf_conntrack_events=1 turns on their events"
        ));
    }
    if let Some(nodes) = named(|node| node.events == Events::Lost) {
        notes.push(format!(
            "some short connections are not counted on {nodes}: too many events for the interval"
        ));
    }
    if let Some(nodes) = named(|node| node.mode == "userspace") {
        notes.push(format!(
            "endpoints are unknown on {nodes}, except those of port ranges: in userspace mode the proxy relays the other \
             connections"
        ));
    }
    if let Some(nodes) = named(|node| node.truncated.iter().any(|part| part == "flows")) {
        notes.push(format!(
            "{nodes}: more flows than are counted, the numbers are too low"
        ));
    }
    if let Some(nodes) = named(|node| node.truncated.iter().any(|part| part != "flows")) {
        notes.push(format!(
            "{nodes}: more rows than a report contains; totals count the reported Services only"
        ));
    }
    notes
}

/// Returns the nodes that are meant, as a text; `None` if no node is meant.
fn nodes(all: &[&NodeState], is_meant: fn(&NodeState) -> bool) -> Option<String> {
    let meant: Vec<&str> = all
        .iter()
        .filter(|node| is_meant(node))
        .map(|node| node.name.as_str())
        .collect();
    if meant.is_empty() {
        return None;
    }
    if meant.len() == all.len() && meant.len() > 1 {
        return Some("all nodes".to_owned());
    }
    let shown: Vec<&str> = meant.iter().take(NODES_SHOWN).copied().collect();
    let more = match meant.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(printable(&format!("node {}{more}", shown.join(", "))))
}
