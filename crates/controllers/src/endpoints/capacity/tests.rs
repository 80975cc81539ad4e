use api::object::{EndpointAddress, EndpointSubset};
use proptest::prelude::*;

use super::{ADDRESSES_MAX, truncate};

fn subset((ready, not_ready): (usize, usize)) -> EndpointSubset {
    let of = |count: usize| {
        (0..count).map(|number| EndpointAddress {
            ip: format!("10.0.{}.{}", number / 250, number % 250 + 1).into(),
            ..EndpointAddress::default()
        })
    };
    EndpointSubset {
        addresses: of(ready).collect(),
        not_ready_addresses: of(not_ready).collect(),
        ports: Vec::new(),
    }
}

/// Returns the expected numbers of ready and other addresses in each subset, from the numbers alone (EPC-11).
fn expected(subsets: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let ready: usize = subsets.iter().map(|(ready, _)| ready).sum();
    let not_ready: usize = subsets.iter().map(|(_, not_ready)| not_ready).sum();
    if ready + not_ready <= ADDRESSES_MAX {
        return subsets.to_vec();
    }
    let mut left = if ready > ADDRESSES_MAX {
        ADDRESSES_MAX
    } else {
        ADDRESSES_MAX - ready
    };
    let room = left;
    let mut share = |count: usize, total: usize| {
        let rounded_up = (0..=count).find(|share| share * total >= count * room);
        let share = rounded_up.unwrap_or(count).min(left);
        left -= share;
        share
    };
    let each = subsets.iter().map(|(ready_count, not_ready_count)| {
        if ready > ADDRESSES_MAX {
            (share(*ready_count, ready), 0)
        } else {
            (*ready_count, share(*not_ready_count, not_ready))
        }
    });
    each.filter(|kept| *kept != (0, 0)).collect()
}

proptest! {
    #[test]
    fn subsets_keep_their_share(counts in proptest::collection::vec((0usize..700, 0usize..700), 0..8)) {
        let counts: Vec<(usize, usize)> = counts.into_iter().filter(|count| *count != (0, 0)).collect();
        let mut subsets: Vec<EndpointSubset> = counts.iter().copied().map(subset).collect();
        let total: usize = counts.iter().map(|(ready, not_ready)| ready + not_ready).sum();
        prop_assert_eq!(truncate(&mut subsets), total > ADDRESSES_MAX);
        let kept: Vec<(usize, usize)> = subsets.iter()
            .map(|subset| (subset.addresses.len(), subset.not_ready_addresses.len())).collect();
        let in_all: usize = kept.iter().map(|(ready, not_ready)| ready + not_ready).sum();
        prop_assert_eq!(in_all, total.min(ADDRESSES_MAX), "no room is wasted");
        prop_assert_eq!(kept, expected(&counts));
        prop_assert!(!truncate(&mut subsets), "what was cut fits");
    }
}
