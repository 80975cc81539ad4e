use std::time::Duration;

use super::*;

#[test]
fn holders_have_separate_rates() {
    let mut rates = Rates::new(10);
    let (ann, bob) = (1, 2);
    let begin = Instant::now();
    assert!(rates.has_token(ann, begin));
    assert_eq!((0..100).filter(|_| rates.take_token(ann, begin)).count(), 20);
    assert!(!rates.has_token(ann, begin));
    assert!(rates.take_token(bob, begin));
    let later = begin + Duration::from_secs(1);
    assert_eq!((0..100).filter(|_| rates.take_token(ann, later)).count(), 10);
}

#[test]
fn rates_without_a_limit_keep_no_buckets() {
    let mut rates = Rates::new(0);
    assert!((0..1_000).all(|holder| rates.take_token(holder, Instant::now())));
    assert!(rates.buckets.is_empty());
}

#[test]
fn drops_full_buckets_at_the_limit() {
    let mut rates = Rates::new(1);
    let begin = Instant::now();
    for number in 0..BUCKETS_MAX {
        assert!(rates.take_token(number, begin));
    }
    assert!(rates.take_token(usize::MAX, begin + Duration::from_secs(10)));
    assert_eq!(rates.buckets.len(), 1);
}
