//! Choice of the connections that end after a scale-out, so that their clients connect again. They are the oldest
//! connections of endpoints with more than an equal share.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

/// Returns the connections to reset, the oldest ones of each endpoint with more than its share. They are at most
/// `percent` of all, and at least one. The endpoint that has the most left is next. `endpoint` and `start` return the
/// endpoint and the start of a connection; connections to other endpoints do not count.
pub fn excess_connections<C, S: Ord>(
    mut connections: Vec<C>,
    endpoints: &[SocketAddr],
    percent: u8,
    endpoint: impl Fn(&C) -> SocketAddr,
    start: impl Fn(&C) -> S,
) -> Vec<C> {
    let known: HashSet<&SocketAddr> = endpoints.iter().collect();
    connections.retain(|connection| known.contains(&endpoint(connection)));
    let budget = (connections.len() * usize::from(percent) / 100).max(1);
    let share = connections.len().div_ceil(endpoints.len().max(1));
    let mut by_endpoint: BTreeMap<SocketAddr, Vec<C>> = BTreeMap::new();
    for connection in connections {
        by_endpoint
            .entry(endpoint(&connection))
            .or_default()
            .push(connection);
    }
    let mut candidates: Vec<(usize, C)> = Vec::new();
    for mut connections in by_endpoint.into_values() {
        connections.sort_by_key(&start);
        let count = connections.len();
        let surplus = count.saturating_sub(share);
        let endpoint_surplus = connections.into_iter().take(surplus).enumerate();
        candidates.extend(endpoint_surplus.map(|(index, connection)| (count - index, connection)));
    }
    candidates.sort_by_key(|(left, _)| Reverse(*left));
    candidates.truncate(budget);
    candidates.into_iter().map(|(_, connection)| connection).collect()
}
