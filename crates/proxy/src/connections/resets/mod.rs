//! Resets of TCP connections whose peers would wait: each peer gets a reset at once, in every mode that uses connection
//! tracking.
//!
//! 1. A table lists the addresses of the connection for [`LISTED_TIME`]. Before connection tracking, it rejects each of
//!    their packets without SYN. A SYN removes its direction: another connection has the same addresses.
//! 2. The conntrack entry is deleted.
//! 3. Each peer gets two segments with the addresses of the other one: a SYN, and a byte outside of its window. It responds
//!    to each with an acknowledgement (RFC 5961, section 4.2; RFC 9293, section 3.10.7.4), which the table rejects. A peer
//!    that waits without sending therefore gets its reset, too.
//!
//! Linux responds to one SYN of an open connection in 500 ms, and a retransmission of the handshake can be this one. The
//! byte has no such limit. For one connection in thousands it lies in the window and gets no response, so both are sent.
//!
//! The kernel deletes the table with its socket. If the kernel refuses the table, only the conntrack entry is deleted.
//! Another endpoint, or the rules of the Service, then answer the next packet of the client.

mod rules;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netlink::conntrack::{Conntrack, ConntrackError, Flow, TcpState};
use netlink::nftables::{CommitError, Nftables};
use netlink::segment::SegmentSocket;

/// Time for which packets of a connection are rejected. It is the longest pause between retransmissions
/// (`TCP_RTO_MAX` of Linux, 120 s), and some time for the packet.
const LISTED_TIME: Duration = Duration::from_secs(125);
/// Maximum number of addresses in the table, in both families together: about 10 MiB of the kernel's memory. Of further
/// connections, only the conntrack entries are deleted.
const LISTED_MAX: usize = 65_536;
/// Part of the table that is reserved for connections to lost nodes and removed endpoints: the addresses of 8,192
/// connections. Other connections can end later.
const LISTED_RESERVED: usize = 16_384;
/// Maximum number of segments of one pass for which the buffer of the socket has no space, each after a timeout of 10
/// ms. The thread writes no rules during these timeouts, one second in total.
const WAITS_MAX: usize = 100;

/// Peers of a connection that get a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peers {
    /// The client only: the endpoint does not answer.
    Client,
    /// The client and the endpoint.
    Both,
}

/// Entries of the table that a pass may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableCapacity {
    /// All entries.
    All,
    /// Entries that are not reserved.
    Unreserved,
}

/// One direction of a connection: packets of `from`, as they arrive at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Direction {
    from: SocketAddr,
    to: SocketAddr,
}

/// Failures of listing connections.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error("cannot open a netlink socket: {0}")]
    Open(#[source] io::Error),
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Resets of connections, in the network namespace in which it is used.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    /// Connection that owns the table; `None` without a table.
    nftables: Option<Nftables>,
    /// Listed addresses: time of their end, and their number.
    listed: VecDeque<(Instant, usize)>,
    has_warned_of_table: bool,
    /// True after a warning about a full table, until the table is empty.
    has_warned_of_capacity: bool,
    has_warned_of_segments: bool,
}

impl Resets {
    /// Ends connections. Closed ones are skipped, and of an attempt to connect only the conntrack entry is deleted: its
    /// next SYN reaches another endpoint. Returns the number of ended connections.
    ///
    /// # Errors
    ///
    /// A [`ConntrackError`] if an entry cannot be deleted.
    pub(crate) fn end(
        &mut self,
        conntrack: &mut Conntrack,
        flows: &[Flow],
        peers: Peers,
        capacity: TableCapacity,
        now: Instant,
    ) -> Result<usize, ConntrackError> {
        let flows: Vec<&Flow> = flows.iter().filter(|flow| !is_closed(flow)).collect();
        let mut directions: Vec<Direction> = flows
            .iter()
            .filter(|flow| !is_opening(flow))
            .flat_map(|flow| directions_of(flow, peers))
            .collect();
        let room = self.free_entries(capacity, now);
        if directions.len() > room && !std::mem::replace(&mut self.has_warned_of_capacity, true) {
            tracing::warn!(
                directions = directions.len(),
                room,
                "table of ended connections full; conntrack entries deleted only"
            );
        }
        directions.truncate(room);
        let is_listed = match self.list(&directions, now) {
            Ok(()) => true,
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned_of_table, true) {
                    tracing::warn!(%error, "peers of ended connections not reset; conntrack entries deleted only");
                }
                false
            }
        };
        let mut count = 0;
        for flow in flows {
            count += usize::from(conntrack.delete(flow)?);
        }
        if is_listed {
            self.send_segments(&directions);
        }
        Ok(count)
    }

    /// Returns the number of addresses that the table can still list.
    pub(crate) fn free_entries(&mut self, capacity: TableCapacity, now: Instant) -> usize {
        self.expire(now);
        let listed: usize = self.listed.iter().map(|(_, count)| count).sum();
        let listed_max = match capacity {
            TableCapacity::All => LISTED_MAX,
            TableCapacity::Unreserved => LISTED_MAX - LISTED_RESERVED,
        };
        listed_max.saturating_sub(listed)
    }

    /// Returns the time at which the table can be deleted.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.listed.back().map(|(until, _)| *until)
    }

    /// Deletes the table if all of its elements have expired.
    pub(crate) fn expire(&mut self, now: Instant) {
        while self.listed.front().is_some_and(|(until, _)| *until <= now) {
            self.listed.pop_front();
        }
        if self.listed.is_empty() {
            self.has_warned_of_capacity = false;
            self.nftables = None;
        }
    }

    /// Adds the addresses to the table, which is created with the first ones.
    fn list(&mut self, directions: &[Direction], now: Instant) -> Result<(), ListError> {
        if directions.is_empty() {
            return Ok(());
        }
        let nftables = match &mut self.nftables {
            Some(nftables) => nftables,
            None => {
                let mut nftables = Nftables::open().map_err(ListError::Open)?;
                nftables.commit(rules::table())?;
                self.nftables.insert(nftables)
            }
        };
        nftables.commit(rules::elements(directions))?;
        self.listed.push_back((now + LISTED_TIME, directions.len()));
        Ok(())
    }

    /// Makes the peers send a packet. Without CAP_NET_RAW, a peer gets the reset only when it sends a packet itself.
    fn send_segments(&mut self, directions: &[Direction]) {
        if directions.is_empty() {
            return;
        }
        let of = directions.len();
        let socket = match SegmentSocket::open() {
            Ok(socket) => socket,
            Err(error) => return self.warn_of_segments(&error, of, of),
        };
        let mut unsent = UnsentSegments::default();
        for (index, direction) in directions.iter().enumerate() {
            // A peer without a route does not concern the others.
            let (source, peer) = (direction.to, direction.from);
            let sent = socket
                .send_syn(source, peer)
                .and_then(|()| socket.send_unexpected_byte(source, peer));
            if let Err(error) = sent
                && !unsent.record(error)
            {
                unsent.failed += of - index - 1;
                break;
            }
        }
        if let Some(error) = &unsent.error {
            self.warn_of_segments(error, unsent.failed, of);
        }
    }

    fn warn_of_segments(&mut self, error: &io::Error, failed: usize, of: usize) {
        if !std::mem::replace(&mut self.has_warned_of_segments, true) {
            tracing::warn!(%error, failed, of, "peers of ended connections not notified; their next packets are reset");
        }
    }
}

/// Segments of one pass that were not sent.
#[derive(Debug, Default)]
struct UnsentSegments {
    failed: usize,
    /// Number of segments that did not fit into the table.
    waits: usize,
    /// First error.
    error: Option<io::Error>,
}

impl UnsentSegments {
    /// Records a failure. Returns false if the pass ends, because the buffer had no space for too many segments.
    fn record(&mut self, error: io::Error) -> bool {
        self.failed += 1;
        self.waits += usize::from(error.kind() == io::ErrorKind::WouldBlock);
        self.error.get_or_insert(error);
        self.waits < WAITS_MAX
    }
}

/// Returns true if no peer waits any more.
pub(crate) fn is_closed(flow: &Flow) -> bool {
    matches!(flow.tcp_state, Some(TcpState::TimeWait | TcpState::Close))
}

/// Returns true if the client waits for the endpoint's SYN.
fn is_opening(flow: &Flow) -> bool {
    matches!(flow.tcp_state, Some(TcpState::SynSent | TcpState::SynSentBoth))
}

fn directions_of(flow: &Flow, peers: Peers) -> impl Iterator<Item = Direction> {
    let client_direction = Direction {
        from: flow.original.source,
        to: flow.original.destination,
    };
    let endpoint_direction = Direction {
        from: flow.reply.source,
        to: flow.reply.destination,
    };
    std::iter::once(client_direction).chain((peers == Peers::Both).then_some(endpoint_direction))
}

#[cfg(test)]
mod tests;
