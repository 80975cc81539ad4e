//! The capacity of Endpoints (EPC-11).

use api::object::{EndpointAddress, EndpointSubset};

/// Upper bound of addresses in one Endpoints object, which every watcher receives as a whole.
pub(super) const ADDRESSES_MAX: usize = 1_000;

/// Removes addresses beyond the capacity, from each subset in proportion, and not ready ones first. Returns
/// true if it removed any.
pub(super) fn truncate(subsets: &mut Vec<EndpointSubset>) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready: usize = subsets
        .iter()
        .map(|subset| subset.not_ready_addresses.len())
        .sum();
    if ready + not_ready <= ADDRESSES_MAX {
        return false;
    }
    if ready > ADDRESSES_MAX {
        for subset in &mut *subsets {
            subset.not_ready_addresses.clear();
        }
        shorten(subsets, ready, ADDRESSES_MAX, |subset| &mut subset.addresses);
    } else {
        let room = ADDRESSES_MAX - ready;
        shorten(subsets, not_ready, room, |subset| &mut subset.not_ready_addresses);
    }
    subsets.retain(|subset| !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
    true
}

/// Truncates one list of each subset to its share of `room`, rounded up while `room` suffices.
fn shorten(
    subsets: &mut [EndpointSubset],
    total: usize,
    room: usize,
    list: impl Fn(&mut EndpointSubset) -> &mut Vec<EndpointAddress>,
) {
    let mut left = room;
    for subset in subsets {
        let addresses = list(subset);
        let share = (addresses.len() * room).div_ceil(total.max(1)).min(left);
        addresses.truncate(share);
        left -= addresses.len();
    }
}

#[cfg(test)]
mod tests;
