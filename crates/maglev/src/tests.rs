use std::collections::HashMap;

use super::*;

fn of(backends: std::ops::Range<u32>) -> Vec<u32> {
    lookup_table(backends.collect(), |backend| backend.to_be_bytes().to_vec())
}

#[test]
fn fills_every_entry_with_even_shares() {
    for count in [1, 2, 3, 10, 100] {
        let table = of(0..count);
        assert_eq!(table.len(), TABLE_SIZE as usize);
        let mut shares: HashMap<u32, usize> = HashMap::new();
        for backend in table {
            *shares.entry(backend).or_default() += 1;
        }
        assert_eq!(shares.len(), count as usize);
        let (least, most) = (shares.values().min(), shares.values().max());
        assert!(
            most.zip(least).is_some_and(|(most, least)| most - least <= 1),
            "{count}"
        );
    }
    assert!(of(0..0).is_empty());
    assert_eq!(of(0..2_000).len(), TABLE_SIZE as usize);
}

#[test]
fn ignores_the_order_of_backends() {
    let backwards = lookup_table((0..10).rev().collect(), |backend: &u32| {
        backend.to_be_bytes().to_vec()
    });
    assert_eq!(backwards, of(0..10));
}

#[test]
fn keeps_most_entries_when_a_backend_leaves() {
    let (before, after) = (of(0..10), of(0..9));
    let moved = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| **before != 9 && before != after)
        .count();
    assert!(
        moved < TABLE_SIZE as usize / 5,
        "{moved} entries of other backends changed"
    );
}
