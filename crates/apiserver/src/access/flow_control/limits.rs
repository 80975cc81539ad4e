//! Limits of requests, with their reasons.

use std::time::Duration;

use super::LongRunning;
use super::schema::PriorityLevel;
use super::seats::SeatBounds;
use crate::limited_pool::Bounds;

/// Limits that an operator configures; 0 disables a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Concurrent reads, divided among the priority levels.
    pub concurrent_reads_max: u32,
    /// Concurrent writes, divided among the priority levels.
    pub concurrent_writes_max: u32,
    /// Requests of one user in a second.
    pub per_user_per_second: u32,
    /// Connections from one address. Clients with and without a certificate are counted separately.
    pub connections_per_address: u32,
}

impl Default for RequestLimits {
    /// Upstream's concurrency limits. The rate is more than controllers in a large cluster need, and less than one
    /// client can send. Connections: all Pods of a node may share the node's address; 250 Pods with four clients each.
    fn default() -> RequestLimits {
        RequestLimits {
            concurrent_reads_max: 400,
            concurrent_writes_max: 200,
            per_user_per_second: 4000,
            connections_per_address: 1000,
        }
    }
}

/// Longest wait for a seat: a quarter of the request timeout, as upstream.
pub(super) const QUEUE_WAIT_MAX: Duration = Duration::from_secs(15);

/// Watches: 5,000 nodes with ten each, and operators with several hundred. A watch uses a few kilobytes.
const WATCHES: Bounds = Bounds {
    total: 100_000,
    without_reserve: 20_000,
    per_holder: 1_000,
    // Components of all nodes may share a user.
    per_reserved_holder: 50_000,
};

/// Bytes of selectors for which a watch counts as another one. Two bytes are a requirement, which has about 80 in memory, so
/// they are some kilobytes.
const SELECTOR_BYTES_PER_WATCH: usize = 256;

/// Log requests and proxied requests to Pods, including tunnels. Each may hold a connection for any time. A busy
/// dashboard has some tens.
const PROXIED: Bounds = Bounds {
    total: 512,
    without_reserve: 384,
    per_holder: 64,
    per_reserved_holder: 128,
};

/// Returns the bounds of the long-running requests of a kind.
pub(super) fn long_running_bounds(kind: LongRunning) -> Bounds {
    match kind {
        LongRunning::Watch => WATCHES,
        LongRunning::Proxy | LongRunning::Log => PROXIED,
    }
}

/// Returns the number of watches as which a watch with selectors counts.
pub(super) fn watch_weight(selector_bytes: usize) -> u32 {
    u32::try_from(1 + selector_bytes / SELECTOR_BYTES_PER_WATCH).unwrap_or(u32::MAX)
}

/// Returns the seats of a level for a total of `limit`, at least one; `None` for no limit.
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
