use std::collections::HashMap;

use super::*;

fn of(endpoints: std::ops::Range<u32>) -> Vec<u32> {
    table(endpoints.collect(), |endpoint| endpoint.to_be_bytes().to_vec())
}

#[test]
fn every_place_is_taken_and_shares_are_even() {
    for count in [1, 2, 3, 10, 100] {
        let table = of(0..count);
        assert_eq!(table.len(), PLACES as usize);
        let mut shares: HashMap<u32, usize> = HashMap::new();
        for endpoint in table {
            *shares.entry(endpoint).or_default() += 1;
        }
        assert_eq!(shares.len(), count as usize);
        let (least, most) = (shares.values().min(), shares.values().max());
        assert!(
            most.zip(least).is_some_and(|(most, least)| most - least <= 1),
            "{count}"
        );
    }
    assert!(of(0..0).is_empty());
    assert_eq!(of(0..2_000).len(), PLACES as usize);
}

#[test]
fn the_order_of_endpoints_does_not_matter() {
    let backwards = table((0..10).rev().collect(), |endpoint: &u32| {
        endpoint.to_be_bytes().to_vec()
    });
    assert_eq!(backwards, of(0..10));
}

#[test]
fn an_endpoint_that_leaves_moves_few_others() {
    let (before, after) = (of(0..10), of(0..9));
    let moved = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| **before != 9 && before != after)
        .count();
    assert!(moved < PLACES as usize / 5, "{moved} places of others have moved");
}
