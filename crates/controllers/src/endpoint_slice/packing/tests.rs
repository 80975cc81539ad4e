//! Comparison with a model of EPS-12 and EPS-13 that counts writes by kind and the endpoints of each slice.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::endpoint_slice::SliceWrite;
use crate::endpoint_slice::tests::fixtures::{pod, service_with_selector, slices_after, writes};

/// The counts of the model.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    creates: usize,
    updates: usize,
    deletes: usize,
    /// Endpoints in each slice afterwards, sorted.
    lengths: Vec<usize>,
}

/// Counts the writes for slices of (Pod, ready), none of them empty, and the desired Pods with their
/// readiness.
fn expected(slices: &[Vec<(u16, bool)>], desired: &BTreeMap<u16, bool>, max: usize) -> Expected {
    let (mut changed, mut same, mut emptied) = (Vec::new(), Vec::new(), 0);
    let mut kept_of_all = 0;
    for slice in slices {
        let kept = slice.iter().filter(|(pod, _)| desired.contains_key(pod)).count();
        let is_same = slice.iter().all(|(pod, ready)| desired.get(pod) == Some(ready));
        kept_of_all += kept;
        match kept {
            0 => emptied += 1,
            kept if is_same => same.push(kept),
            kept => changed.push(kept),
        }
    }
    let mut left = desired.len() - kept_of_all;
    changed.sort_unstable_by(|a, b| b.cmp(a));
    for length in &mut changed {
        let filled = left.min(max - *length);
        *length += filled;
        left -= filled;
    }
    let mut created = vec![max; left / max];
    let remainder = left % max;
    let best = same
        .iter()
        .copied()
        .filter(|length| length + remainder <= max)
        .max();
    match (remainder, best) {
        (0, _) => {}
        (_, None) => created.push(remainder),
        (_, Some(best)) => {
            let place = same
                .iter()
                .position(|length| *length == best)
                .expect("the object");
            changed.push(same.swap_remove(place) + remainder);
        }
    }
    if desired.is_empty() {
        created.push(0);
    }
    let reused = emptied.min(created.len());
    let mut lengths = [changed.clone(), same, created.clone()].concat();
    lengths.sort_unstable();
    Expected {
        creates: created.len() - reused,
        updates: changed.len() + reused,
        deletes: emptied - reused,
        lengths,
    }
}

fn pods_of(pods: impl Iterator<Item = (u16, bool)>) -> Vec<api::object::Pod> {
    pods.map(|(number, ready)| pod(number, ready, 80)).collect()
}

/// Returns slices with these Pods, each from a reconciliation with only them.
fn slices_of(slices: &[Vec<(u16, bool)>], max: usize) -> Vec<api::object::EndpointSlice> {
    let each = slices.iter().enumerate().flat_map(|(round, slice)| {
        let pods = pods_of(slice.iter().copied());
        slices_after(&[], writes(&service_with_selector(), &pods, &[], max), round)
    });
    each.collect()
}

/// Generates Pods from 0 to 40, each in one slice or none, up to the size of a slice.
fn slices(max: usize) -> impl Strategy<Value = Vec<Vec<(u16, bool)>>> {
    proptest::collection::vec((0usize..9, any::<bool>()), 40).prop_map(move |free| {
        let mut slices = vec![Vec::new(); 8];
        for (number, (place, ready)) in (0u16..).zip(free) {
            if let Some(slice) = slices.get_mut(place).filter(|slice| slice.len() < max) {
                slice.push((number, ready));
            }
        }
        slices.retain(|slice| !slice.is_empty());
        slices
    })
}

fn case() -> impl Strategy<Value = (usize, Vec<Vec<(u16, bool)>>, BTreeMap<u16, bool>)> {
    (1usize..9).prop_flat_map(|max| {
        // Most Pods stay unchanged, so that unchanged slices are common.
        let changes = proptest::collection::btree_map(0u16..60, 0u8..3, 0..25);
        (Just(max), slices(max), changes).prop_map(|(max, slices, changes)| {
            let mut desired: BTreeMap<u16, bool> = slices.iter().flatten().copied().collect();
            for (number, change) in changes {
                match change {
                    0 => desired.remove(&number),
                    change => desired.insert(number, change == 1),
                };
            }
            (max, slices, desired)
        })
    })
}

proptest! {
    #[test]
    fn writes_and_slices_match_the_model((max, before, desired) in case()) {
        let slices = slices_of(&before, max);
        let pods = pods_of(desired.iter().map(|(number, ready)| (*number, *ready)));
        let writes = writes(&service_with_selector(), &pods, &slices, max);
        let mut found = Expected::default();
        for write in &writes {
            match write {
                SliceWrite::Create(_) => found.creates += 1,
                SliceWrite::Update(_) => found.updates += 1,
                SliceWrite::Delete(_) => found.deletes += 1,
            }
        }
        let after = slices_after(&slices, writes, 100);
        found.lengths = after.iter().map(|slice| slice.endpoints.len()).collect();
        found.lengths.sort_unstable();
        prop_assert_eq!(found, expected(&before, &desired, max));
    }

    /// A write cannot hold more endpoints than a slice, which bounds the number of writes from below.
    #[test]
    fn writes_are_minimal_beyond_changed_slices((max, before, desired) in case()) {
        let slices = slices_of(&before, max);
        let pods = pods_of(desired.iter().map(|(number, ready)| (*number, *ready)));
        let stays = |slice: &&Vec<(u16, bool)>| slice.iter().all(|(pod, ready)| desired.get(pod) == Some(ready));
        let kept = |slice: &Vec<(u16, bool)>| slice.iter().filter(|(pod, _)| desired.contains_key(pod)).count();
        let forced = before.iter().filter(|slice| !stays(slice)).count();
        let room: usize = before.iter().filter(|slice| !stays(slice)).map(kept).filter(|kept| *kept > 0).map(|kept| max - kept).sum();
        let new = desired.len() - before.iter().map(kept).sum::<usize>();
        let least = if desired.is_empty() { usize::from(before.is_empty()) } else { new.saturating_sub(room).div_ceil(max) };
        let written = writes(&service_with_selector(), &pods, &slices, max).len();
        prop_assert!(written <= forced + least, "{} writes, {} forced and {} more", written, forced, least);
    }
}
