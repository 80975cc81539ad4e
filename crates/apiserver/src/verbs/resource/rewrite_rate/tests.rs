use std::time::Duration;

use super::*;

const MIB: usize = 1 << 20;

fn take(rates: &RewriteRates, name: &str, bytes: usize, now: Instant) -> bool {
    rates.take(name, USER_BYTES_PER_SECOND, bytes, now)
}

#[test]
fn one_namespace_rewrites_half_of_the_history_at_once() {
    let (rates, now) = (RewriteRates::default(), Instant::now());
    let taken = (0..100).filter(|_| take(&rates, "a", MIB, now)).count();
    assert_eq!(taken, 16);
    assert!(take(&rates, "b", MIB, now));
    assert!(!take(&rates, "a", 1, now));
}

#[test]
fn large_object_is_paid_for_afterwards() {
    let (rates, now) = (RewriteRates::default(), Instant::now());
    assert!(take(&rates, "a", 17 * MIB, now));
    let after = |seconds| now + Duration::from_secs(seconds);
    assert!(!take(&rates, "a", 1, after(4)));
    assert!(take(&rates, "a", 1, after(5)));
}

#[test]
fn table_of_buckets_is_bounded() {
    let (rates, now) = (RewriteRates::default(), Instant::now());
    for number in 0..BUCKETS_MAX {
        assert!(take(&rates, &number.to_string(), 1, now));
    }
    assert!(!take(&rates, "one more", 1, now));
    assert!(take(&rates, "0", 1, now));
    assert!(take(&rates, "one more", 1, now + Duration::from_secs(1)));
}

#[test]
fn node_rewrites_a_megabyte_in_a_second_after_its_burst() {
    let (rates, now) = (RewriteRates::default(), Instant::now());
    let take = |seconds| {
        let now = now + Duration::from_secs(seconds);
        rates.take("node-1/pods", NODE_BYTES_PER_SECOND, MIB, now)
    };
    assert_eq!((0..100).filter(|_| take(0)).count(), 16);
    assert_eq!((1..=60).filter(|seconds| take(*seconds)).count(), 60);
    assert!(rates.take("node-1/leases", NODE_BYTES_PER_SECOND, MIB, now));
}
