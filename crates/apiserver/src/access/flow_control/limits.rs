//! Bounds of requests, each with its reason.

use std::time::Duration;

use super::LongRunning;
use super::schema::PriorityLevel;
use super::seats::SeatBounds;
use crate::portions::Bounds;

/// The limits that an operator sets; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Reads that are answered at a time, divided among the priority levels.
    pub reads_at_a_time: u32,
    /// Writes that are carried out at a time, divided among the priority levels.
    pub writes_at_a_time: u32,
    /// Requests of one user in a second.
    pub per_user_per_second: u32,
    /// Connections from one address, those with a client certificate and those without counted apart.
    pub connections_per_address: u32,
}

impl Default for RequestLimits {
    /// Upstream's numbers; the rate is above what controllers of a large cluster need, and below what one client can
    /// do. Connections: a node's Pods may all come through the node's address; 250 Pods with four clients each.
    fn default() -> RequestLimits {
        RequestLimits {
            reads_at_a_time: 400,
            writes_at_a_time: 200,
            per_user_per_second: 4000,
            connections_per_address: 1000,
        }
    }
}

/// Longest wait for a seat: upstream's, a quarter of the time that a request may take.
pub(super) const QUEUE_WAIT_MAX: Duration = Duration::from_secs(15);

/// Watches: 5,000 nodes with ten each, and operators with some hundred. One takes some kilobytes.
const WATCHES: Bounds = Bounds {
    total: 100_000,
    without_reserve: 20_000,
    per_holder: 1_000,
    // Parts of all nodes may share a user.
    per_reserved_holder: 50_000,
};

/// Requests that are passed on to Pods, tunnels included, and logs: each may hold a connection for as long as its client
/// likes. A busy dashboard has some tens.
const PASSED_ON: Bounds = Bounds {
    total: 512,
    without_reserve: 384,
    per_holder: 64,
    per_reserved_holder: 128,
};

pub(super) fn long_running_bounds(kind: LongRunning) -> Bounds {
    match kind {
        LongRunning::Watch => WATCHES,
        LongRunning::Proxy | LongRunning::Log => PASSED_ON,
    }
}

/// The seats of a level, of `limit` for all levels, at least one; `None` is no limit.
pub(super) fn seat_bounds(level: PriorityLevel, limit: u32) -> Option<SeatBounds> {
    if level == PriorityLevel::Exempt || limit == 0 {
        return None;
    }
    let all_shares: u64 = PriorityLevel::ALL
        .iter()
        .map(|level| u64::from(level.shares()))
        .sum();
    let seats = (u64::from(limit) * u64::from(level.shares())).div_ceil(all_shares);
    Some(SeatBounds {
        seats: u32::try_from(seats).unwrap_or(u32::MAX).max(1),
        queued_max: level.queued_max(),
        queued_per_user_max: level.queued_per_user_max(),
    })
}
