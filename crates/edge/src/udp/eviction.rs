//! Choice of the flows that end when a socket has the maximum of them.
//!
//! A sender can forge the addresses of many clients. It receives no responses, so its flows rarely have a datagram after a
//! response. Without this choice, it would keep all new clients away until its flows are idle for too long.

use std::net::SocketAddr;

#[cfg(test)]
mod tests;

/// Use of a flow. Flows with a lower value end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowUse {
    /// True if the client has sent a datagram after a response.
    pub is_confirmed: bool,
    /// Time of the last datagram, in milliseconds.
    pub last: u64,
}

/// Returns the clients of the `count` flows that end first. The order of the result is unspecified.
pub(super) fn least_used(
    flows: impl Iterator<Item = (SocketAddr, FlowUse)>,
    count: usize,
) -> Vec<SocketAddr> {
    let mut flows: Vec<_> = flows.collect();
    if count < flows.len() {
        flows.select_nth_unstable_by_key(count, |(_, usage)| *usage);
        flows.truncate(count);
    }
    flows.into_iter().map(|(client, _)| client).collect()
}
