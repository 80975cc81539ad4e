//! Flush of stale conntrack entries of TCP connections to addresses that return
//! ([`crate::handoff::ownership_history`]). The flush first collects the entries, then deletes them. Both steps block
//! for a while on large tables, and run outside of the event loop.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use netlink::conntrack::{Conntrack, ConntrackError, Family, Flow, TcpState};
use netlink::route::LinkIndex;
use netlink::tcp;

use crate::handoff::ownership_history::ConntrackFlush;
use link_clients::LinkClients;
use two_tier_frontends::TwoTierFrontends;

mod link_clients;
#[cfg(test)]
mod tests;
mod two_tier_frontends;

/// Maximum number of IPv4 addresses that are queried one by one. For more, and for IPv6, the whole table is read.
const SINGLE_QUERIES_MAX: usize = 8;
/// Maximum number of entries per flush: the default size of the conntrack table on large hosts. Further entries stay.
const FLOWS_MAX: usize = 262_144;
/// Suffix of the sysctl with the timeout of established connections.
const ESTABLISHED: &str = "established";
/// Suffixes of the sysctls with the timeouts of connections with unacknowledged or retransmitted data.
const UNACKNOWLEDGED: [&str; 2] = ["unacknowledged", "max_retrans"];

/// Collected stale entries.
#[derive(Debug)]
pub(crate) struct StaleFlows {
    conntrack: Conntrack,
    flows: Vec<Flow>,
}

/// Collects stale entries. Open connections are stale only if their clients are behind `links`, the announcing links.
/// Pods of this node and the node itself reach an address by the local proxy, wherever it is announced. Services of
/// the addresses `two_tier` request two-tier forwarding: their open connections are not stale where the kernel
/// forwards them.
///
/// # Errors
/// Returns an error if the kernel does not list conntrack entries.
pub(crate) fn collect(
    flushes: &BTreeMap<IpAddr, ConntrackFlush>,
    two_tier: BTreeSet<IpAddr>,
    links: &BTreeSet<LinkIndex>,
) -> Result<StaleFlows, ConntrackError> {
    let mut conntrack = Conntrack::open()?;
    let timeouts = Timeouts::read();
    let forwarded = TwoTierFrontends::read(two_tier);
    let mut clients = LinkClients::new(links);
    let mut is_stale = |flow: &Flow| {
        let flush = flushes.get(&flow.original.destination.ip());
        flush.is_some_and(|flush| {
            let is_kept_open = |flow: &Flow| {
                forwarded.contain(flow.original.destination) || !clients.contain(flow.original.source.ip())
            };
            is_flushed(flow, *flush, timeouts, is_kept_open)
        })
    };
    let mut flows: Vec<Flow> = Vec::new();
    for family in [Family::V4, Family::V6] {
        let family_flushes = || flushes.keys().filter(|address| Family::of(**address) == family);
        let count = family_flushes().count();
        if count > 0 && (family == Family::V6 || count > SINGLE_QUERIES_MAX) {
            let room = FLOWS_MAX.saturating_sub(flows.len());
            flows.extend(conntrack.flows_at_most(room, family, tcp::PROTOCOL, &mut is_stale)?);
            continue;
        }
        for address in family_flushes() {
            let room = FLOWS_MAX.saturating_sub(flows.len());
            flows.extend(conntrack.flows_to(room, *address, tcp::PROTOCOL, &mut is_stale)?);
        }
    }
    Ok(StaleFlows { conntrack, flows })
}

impl StaleFlows {
    /// Drops open connections of these addresses from the collection.
    pub(crate) fn keep_open(&mut self, addresses: &[IpAddr]) {
        self.flows
            .retain(|flow| is_closed(flow.tcp_state) || !addresses.contains(&flow.original.destination.ip()));
    }

    /// Deletes the entries. Returns the number of deleted entries and the first failure.
    pub(crate) fn flush(mut self) -> (u64, Option<ConntrackError>) {
        let (mut count, mut failure) = (0, None);
        for flow in &self.flows {
            match delete(&mut self.conntrack, flow) {
                Ok(is_deleted) => count += u64::from(is_deleted),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        (count, failure)
    }
}

/// Deletes an entry, unless a new connection has replaced a closed one meanwhile.
fn delete(conntrack: &mut Conntrack, flow: &Flow) -> Result<bool, ConntrackError> {
    if is_closed(flow.tcp_state) {
        let current = conntrack.current(flow)?;
        if !current.is_some_and(|current| is_closed(current.tcp_state)) {
            return Ok(false);
        }
    }
    conntrack.delete(flow)
}

/// Returns true if a flush concerns an entry. `is_kept_open` excepts connections that are not closed.
fn is_flushed(
    flow: &Flow,
    flush: ConntrackFlush,
    timeouts: Option<Timeouts>,
    is_kept_open: impl FnOnce(&Flow) -> bool,
) -> bool {
    matches(flow, flush, timeouts) && (is_closed(flow.tcp_state) || !is_kept_open(flow))
}

fn matches(flow: &Flow, flush: ConntrackFlush, timeouts: Option<Timeouts>) -> bool {
    match flush {
        ConntrackFlush::Closed => is_closed(flow.tcp_state),
        ConntrackFlush::ActiveWithin(Duration::MAX) => true,
        ConntrackFlush::ActiveWithin(lasts) => !timeouts
            .is_some_and(|timeouts| timeouts.was_idle(flow.tcp_state, flow.expires_in_seconds, lasts)),
    }
}

/// Returns true if no relevant packet of a connection can follow. An unanswered connection may be new. A
/// connection that both ends have closed may still retransmit until the last acknowledgment.
fn is_closed(state: Option<TcpState>) -> bool {
    match state {
        Some(TcpState::TimeWait | TcpState::Close) => true,
        Some(
            TcpState::SynSent
            | TcpState::SynReceived
            | TcpState::Established
            | TcpState::FinWait
            | TcpState::CloseWait
            | TcpState::LastAck
            | TcpState::SynSentBoth,
        )
        | None => false,
    }
}

/// Conntrack timeouts of idle connections, in seconds.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    established: u32,
    unacknowledged: u32,
}

impl Timeouts {
    /// Reads the current timeouts (`nf_conntrack-sysctl` of the kernel).
    fn read() -> Option<Self> {
        let read = |name: &str| -> Option<u32> {
            let path = format!("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_{name}");
            fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        let unacknowledged = UNACKNOWLEDGED.map(read);
        Some(Self {
            established: read(ESTABLISHED)?,
            unacknowledged: unacknowledged[0]?.max(unacknowledged[1]?),
        })
    }

    /// Returns true if an established connection was certainly idle for longer than `lasts`. An entry that
    /// expires soon is ambiguous: it may have been idle for long, or be waiting for an acknowledgment.
    fn was_idle(self, state: Option<TcpState>, expires_in_seconds: u32, lasts: Duration) -> bool {
        let idle_seconds = self.established.saturating_sub(expires_in_seconds);
        state == Some(TcpState::Established)
            && expires_in_seconds > self.unacknowledged
            && Duration::from_secs(idle_seconds.into()) > lasts
    }
}
