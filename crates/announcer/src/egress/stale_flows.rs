//! Conntrack entries of Pods with another source address than the current one. They belong to connections from before
//! the annotation, or from before a change of the owner. After the deletion of an entry, the next packet passes the
//! table again. The search and the deletion block for a while on large tables, and run outside of the event loop.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use netlink::conntrack::{Conntrack, ConntrackError, Flow};
use tokio::task::JoinSet;

use super::state::EgressState;

#[cfg(test)]
mod tests;

/// Maximum number of entries per flush: the default size of the conntrack table on large hosts. Further entries stay.
const FLOWS_MAX: usize = 262_144;

/// Background flush, one at a time.
#[derive(Debug, Default)]
pub(crate) struct StaleFlowFlusher {
    /// Pods of the next flush.
    queued: BTreeSet<IpAddr>,
    running: JoinSet<Result<u64, ConntrackError>>,
}

impl StaleFlowFlusher {
    /// Queues the entries of these Pods.
    pub(crate) fn queue(&mut self, pods: BTreeSet<IpAddr>) {
        self.queued.extend(pods);
    }

    /// Takes the result of a finished flush, and starts the next one.
    pub(crate) fn advance(&mut self, state: &EgressState) {
        match self.running.try_join_next() {
            Some(Ok(Ok(count))) => tracing::debug!(count, "conntrack entries of Pods with egress flushed"),
            Some(Ok(Err(error))) => tracing::warn!(
                %error,
                "conntrack entries of Pods with egress not flushed; their open connections keep the source address"
            ),
            Some(Err(error)) => tracing::warn!(%error, "flush of conntrack entries failed"),
            None => {}
        }
        if self.queued.is_empty() || !self.running.is_empty() {
            return;
        }
        let pods = std::mem::take(&mut self.queued);
        let expected: BTreeMap<IpAddr, Option<IpAddr>> = pods
            .into_iter()
            .map(|pod| (pod, state.sources.get(&pod).copied()))
            .collect();
        let inside: Vec<IpNet> = state.inside.iter().copied().collect();
        let inside = IpNet::aggregate(&inside);
        self.running.spawn_blocking(move || flush(&expected, &inside));
    }
}

/// Deletes the stale entries. Returns their number.
fn flush(expected: &BTreeMap<IpAddr, Option<IpAddr>>, inside: &[IpNet]) -> Result<u64, ConntrackError> {
    let mut conntrack = Conntrack::open()?;
    let mut flows = Vec::new();
    conntrack.visit(|flow| {
        if flows.len() < FLOWS_MAX && is_stale(flow, expected, inside) {
            flows.push(*flow);
        }
    })?;
    let mut count = 0;
    for flow in &flows {
        count += u64::from(conntrack.delete(flow)?);
    }
    Ok(count)
}

/// Returns true for a connection of a Pod to outside of the cluster whose source is not the expected one. Replies come
/// from the endpoint and go to the translated source.
fn is_stale(flow: &Flow, expected: &BTreeMap<IpAddr, Option<IpAddr>>, inside: &[IpNet]) -> bool {
    let Some(expected) = expected.get(&flow.original.source.ip()) else {
        return false;
    };
    let endpoint = flow.reply.source.ip();
    *expected != Some(flow.reply.destination.ip()) && !inside.iter().any(|range| range.contains(&endpoint))
}
