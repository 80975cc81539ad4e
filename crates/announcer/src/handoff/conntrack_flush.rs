//! Making the kernel forget TCP connections to addresses that come back ([`crate::handoff::ownership_history`]): those are found first, and then
//! forgotten. Both take a while where there are many, and are not for the loop.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use netlink::conntrack::{Conntrack, ConntrackError, Family, Flow, TcpState};
use netlink::route::LinkIndex;
use netlink::tcp;

use crate::handoff::ownership_history::Forgotten;
use senders::Senders;

mod senders;
#[cfg(test)]
mod tests;

/// Up to so many IPv4 addresses the kernel is asked for each of them; for more, and for those of IPv6, for all that it knows.
const ASKED_ONE_BY_ONE_MAX: usize = 8;
/// Most connections that are forgotten at once: as many as connection tracking holds, unless it is told otherwise, on large
/// machines. Those beyond are kept.
const FLOWS_MAX: usize = 262_144;
/// What tells how long connection tracking remembers connections: those that go on, and those of which something is not
/// acknowledged or is sent again and again.
const ESTABLISHED: &str = "established";
const UNANSWERED: [&str; 2] = ["unacknowledged", "max_retrans"];

/// Connections that are to be forgotten.
#[derive(Debug)]
pub struct Found {
    conntrack: Conntrack,
    flows: Vec<Flow>,
}

/// Finds what the kernel is to forget. `links` are those that addresses are announced on: only connections from there went to
/// other nodes meanwhile. Pods of this machine and the machine itself reach an address by its proxy, wherever it is announced.
///
/// # Errors
/// See [`ConntrackError`].
pub fn find(
    wanted: &BTreeMap<IpAddr, Forgotten>,
    links: &BTreeSet<LinkIndex>,
) -> Result<Found, ConntrackError> {
    let mut conntrack = Conntrack::open()?;
    let timeouts = Timeouts::read();
    let mut senders = Senders::behind(links);
    let mut is_meant = |flow: &Flow, forgotten: Forgotten| {
        is_forgotten(flow, forgotten, timeouts)
            && (is_over(flow.tcp_state) || senders.have(flow.original.source.ip()))
    };
    let mut is_wanted = |flow: &Flow| {
        let forgotten = wanted.get(&flow.original.destination.ip());
        forgotten.is_some_and(|forgotten| is_meant(flow, *forgotten))
    };
    let mut flows: Vec<Flow> = Vec::new();
    for family in [Family::V4, Family::V6] {
        let of_family = || wanted.keys().filter(|address| Family::of(**address) == family);
        let count = of_family().count();
        if count > 0 && (family == Family::V6 || count > ASKED_ONE_BY_ONE_MAX) {
            let most = FLOWS_MAX.saturating_sub(flows.len());
            flows.extend(conntrack.flows_at_most(most, family, tcp::PROTOCOL, &mut is_wanted)?);
            continue;
        }
        for address in of_family() {
            let most = FLOWS_MAX.saturating_sub(flows.len());
            flows.extend(conntrack.flows_to(most, *address, tcp::PROTOCOL, &mut is_wanted)?);
        }
    }
    Ok(Found { conntrack, flows })
}

impl Found {
    /// Leaves out connections of these addresses that are not over.
    pub fn keep_open(&mut self, addresses: &[IpAddr]) {
        self.flows
            .retain(|flow| is_over(flow.tcp_state) || !addresses.contains(&flow.original.destination.ip()));
    }

    /// Makes the kernel forget them; how many there were, and the first failure.
    pub fn forget(mut self) -> (u64, Option<ConntrackError>) {
        let (mut count, mut failure) = (0, None);
        for flow in &self.flows {
            match forget(&mut self.conntrack, flow) {
                Ok(was_there) => count += u64::from(was_there),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        (count, failure)
    }
}

/// Makes the kernel forget a connection, unless it was over and a new one has its place.
fn forget(conntrack: &mut Conntrack, flow: &Flow) -> Result<bool, ConntrackError> {
    if is_over(flow.tcp_state) {
        let now = conntrack.current(flow)?;
        if !now.is_some_and(|now| is_over(now.tcp_state)) {
            return Ok(false);
        }
    }
    conntrack.forget(flow)
}

fn is_forgotten(flow: &Flow, forgotten: Forgotten, timeouts: Option<Timeouts>) -> bool {
    match forgotten {
        Forgotten::Ended => is_over(flow.tcp_state),
        Forgotten::SpokenWithin(Duration::MAX) => true,
        Forgotten::SpokenWithin(lasts) => !timeouts
            .is_some_and(|timeouts| timeouts.was_silent(flow.tcp_state, flow.expires_in_seconds, lasts)),
    }
}

/// Whether nothing of a connection is on its way any more that matters. One that was not answered yet may
/// have been opened a moment ago. One whose ends both said that they are done may still have something to be sent again, until that is
/// acknowledged.
fn is_over(state: Option<TcpState>) -> bool {
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

/// How long the kernel remembers connections of which it sees nothing, in seconds.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    established: u32,
    unanswered: u32,
}

impl Timeouts {
    /// Those in force (`nf_conntrack-sysctl` of the kernel).
    fn read() -> Option<Self> {
        let read = |name: &str| -> Option<u32> {
            let path = format!("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_{name}");
            fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        let unanswered = UNANSWERED.map(read);
        Some(Self {
            established: read(ESTABLISHED)?,
            unanswered: unanswered[0]?.max(unanswered[1]?),
        })
    }

    /// Whether nothing was seen for so long of a connection that goes on. In doubt it was: one that will be forgotten
    /// soon may have been silent for long, or be waiting for an answer.
    fn was_silent(self, state: Option<TcpState>, expires_in_seconds: u32, lasts: Duration) -> bool {
        let silent = self.established.saturating_sub(expires_in_seconds);
        state == Some(TcpState::Established)
            && expires_in_seconds > self.unanswered
            && Duration::from_secs(silent.into()) > lasts
    }
}
