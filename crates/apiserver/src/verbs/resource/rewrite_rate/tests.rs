use std::time::Duration;

use super::*;

const MIB: usize = 1 << 20;

#[test]
fn one_namespace_rewrites_half_of_the_history_at_once() {
    let (rates, now) = (RewriteRates::default(), Instant::now());
    let taken = (0..100).filter(|_| rates.take("a", MIB, now)).count();
    assert_eq!(taken, 16);
    assert!(rates.take("b", MIB, now));
    assert!(!rates.take("a", 1, now));
}

#[test]
fn large_object_is_paid_for_afterwards() {
    let (rates, now) = (RewriteRates::default(), Instant::now());
    assert!(rates.take("a", 17 * MIB, now));
    let after = |seconds| now + Duration::from_secs(seconds);
    assert!(!rates.take("a", 1, after(4)));
    assert!(rates.take("a", 1, after(5)));
}

#[test]
fn table_of_namespaces_is_bounded() {
    let (rates, now) = (RewriteRates::default(), Instant::now());
    for number in 0..NAMESPACES_MAX {
        assert!(rates.take(&number.to_string(), 1, now));
    }
    assert!(!rates.take("one more", 1, now));
    assert!(rates.take("0", 1, now));
    assert!(rates.take("one more", 1, now + Duration::from_secs(1)));
}
