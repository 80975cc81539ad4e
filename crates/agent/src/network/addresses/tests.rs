use proptest::prelude::*;

use super::*;

fn pool(ranges: &[&str]) -> AddressPool {
    AddressPool::new(ranges.iter().map(|range| range.parse().unwrap()).collect()).unwrap()
}

fn texts_of(addresses: &[IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn addresses_of_both_families_have_the_same_index() {
    let mut pool = pool(&["10.244.1.0/24", "fd00:244:1::/64"]);
    assert_eq!(texts_of(&pool.gateways()), ["10.244.1.1", "fd00:244:1::1"]);
    assert_eq!(
        texts_of(&pool.allocate().unwrap()),
        ["10.244.1.2", "fd00:244:1::2"]
    );
    assert_eq!(
        texts_of(&pool.allocate().unwrap()),
        ["10.244.1.3", "fd00:244:1::3"]
    );
}

#[test]
fn small_range_is_exhausted_and_reused() {
    let mut pool = pool(&["10.0.0.0/29"]);
    let all: Vec<_> = (0..5).map(|_| pool.allocate().unwrap()).collect();
    assert_eq!(texts_of(&all[4]), ["10.0.0.6"]);
    assert!(matches!(pool.allocate(), Err(AddressError::Exhausted { .. })));
    pool.release(&all[1]);
    pool.release(&all[0]);
    assert_eq!(pool.allocate().unwrap(), all[0]);
}

#[test]
fn released_address_is_reused_late() {
    let mut pool = pool(&["10.0.0.0/24"]);
    let first = pool.allocate().unwrap();
    pool.release(&first);
    assert_ne!(pool.allocate().unwrap(), first);
}

#[test]
fn reserves_only_free_addresses_of_the_ranges() {
    let mut pool = pool(&["10.0.0.0/24", "fd00::/64"]);
    let ips = |list: &[&str]| {
        list.iter()
            .map(|text| text.parse().unwrap())
            .collect::<Vec<IpAddr>>()
    };
    assert!(pool.reserve(&ips(&["10.0.0.2", "fd00::2"])));
    assert!(!pool.reserve(&ips(&["10.0.0.2", "fd00::2"])));
    for other in [
        &["10.0.0.3"][..],
        &["10.0.0.3", "fd00::4"],
        &["10.9.0.3", "fd00::3"],
        &["10.0.0.1", "fd00::1"],
        &[],
    ] {
        assert!(!pool.reserve(&ips(other)), "{other:?}");
    }
    assert_eq!(texts_of(&pool.allocate().unwrap())[0], "10.0.0.3");
}

#[test]
fn rejects_invalid_ranges() {
    for invalid in [
        &[][..],
        &["10.0.0.0/24", "10.0.1.0/24"],
        &["10.0.0.0/31"],
        &["10.0.0.0/32"],
        &["fd00::/127"],
    ] {
        let ranges = invalid.iter().map(|range| range.parse().unwrap()).collect();
        assert!(AddressPool::new(ranges).is_err(), "{invalid:?}");
    }
    assert!(AddressPool::new(vec!["10.0.0.0/0".parse().unwrap()]).is_ok());
    assert!(AddressPool::new(vec!["::/0".parse().unwrap()]).is_ok());
}

proptest! {
    /// Two Pods never share an address, all addresses are in the ranges, and released ones are reused.
    #[test]
    fn allocated_addresses_are_unique(steps in proptest::collection::vec(any::<Option<u8>>(), 1..300)) {
        let mut pool = pool(&["10.0.0.0/26", "fd00::/64"]);
        let mut held: Vec<Vec<IpAddr>> = Vec::new();
        for step in steps {
            match step {
                Some(index) if !held.is_empty() => {
                    let given_back = held.remove(usize::from(index) % held.len());
                    pool.release(&given_back);
                }
                _ => match pool.allocate() {
                    Ok(addresses) => {
                        prop_assert!(!held.contains(&addresses));
                        prop_assert!(pool.ranges.iter().zip(&addresses).all(|(range, address)| range.contains(address)));
                        held.push(addresses);
                    }
                    Err(_) => prop_assert_eq!(held.len(), 61),
                },
            }
        }
    }
}
