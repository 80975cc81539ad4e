//! Conversion of conntrack entries.

use std::net::SocketAddr;
use std::time::Duration;

use api::object::Protocol;
use explain::traffic::{self, Direction, Entry, State};
use netlink::conntrack::{Flow, TcpState};

/// Returns an entry of a protocol with Services; `None` for other protocols. `now` is the wall clock since the epoch.
pub(crate) fn entry(flow: &Flow, now: Duration) -> Option<Entry> {
    let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
        .into_iter()
        .find(|protocol| protocol.number() == flow.protocol)?;
    let counters = flow.counters;
    Some(Entry {
        id: flow.id,
        zone: flow.zone,
        protocol,
        original: direction(flow.original.source, flow.original.destination),
        frontend: None,
        reply: direction(flow.reply.source, flow.reply.destination),
        state: state(protocol, flow),
        is_replied: flow.is_replied,
        bytes: counters.map(|counters| [counters.original.bytes, counters.reply.bytes]),
        reply_packets: counters.map(|counters| counters.reply.packets),
        expires_in: Duration::from_secs(flow.expires_in_seconds.into()),
        age: flow
            .began_at_nanoseconds
            .map(|began_at| now.saturating_sub(Duration::from_nanos(began_at))),
    })
}

fn direction(source: SocketAddr, destination: SocketAddr) -> Direction {
    Direction { source, destination }
}

/// Events of an end have no state if the kernel is older than Linux 5.13.
fn state(protocol: Protocol, flow: &Flow) -> State {
    match (protocol, flow.tcp_state) {
        (Protocol::Tcp, Some(state)) => State::Tcp(tcp_state(state)),
        (Protocol::Tcp, None) if flow.is_replied => State::Tcp(traffic::TcpState::Close),
        (Protocol::Tcp, None) => State::Tcp(traffic::TcpState::SynSent),
        _ if flow.is_replied => State::Replied,
        _ => State::Unreplied,
    }
}

fn tcp_state(state: TcpState) -> traffic::TcpState {
    match state {
        TcpState::SynSent | TcpState::SynSentBoth => traffic::TcpState::SynSent,
        TcpState::SynReceived => traffic::TcpState::SynReceived,
        TcpState::Established => traffic::TcpState::Established,
        TcpState::FinWait => traffic::TcpState::FinWait,
        TcpState::CloseWait => traffic::TcpState::CloseWait,
        TcpState::LastAck => traffic::TcpState::LastAck,
        TcpState::TimeWait => traffic::TcpState::TimeWait,
        TcpState::Close => traffic::TcpState::Close,
    }
}

#[cfg(test)]
mod tests;
