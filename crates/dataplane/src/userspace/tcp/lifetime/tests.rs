use super::*;

#[test]
fn connection_ends_at_most_a_tenth_before_its_maximum_age() {
    let start = Instant::now();
    let limit = Arc::new(AgeLimit::default());
    let [latest, earliest] = [0, u16::MAX].map(|jitter| Lifetime::start(limit.clone(), start, jitter));
    let at = |seconds| start + Duration::from_secs(seconds);
    assert!(!latest.is_over(at(1_000_000)), "there is no limit");
    limit.set(Some(100));
    assert!(!earliest.is_over(at(89)));
    assert!(earliest.is_over(at(91)));
    assert!(!latest.is_over(at(99)));
    assert!(latest.is_over(at(100)));
    limit.set(None);
    assert!(!latest.is_over(at(100)));
}
