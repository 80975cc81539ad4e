use super::*;

const MIB: usize = 1 << 20;

#[test]
fn large_pods_of_a_namespace_take_turns_after_a_burst() {
    let (pace, now) = (StatusPace::default(), Instant::now());
    for _ in 0..9 {
        assert_eq!(pace.reserve("a", MIB, now), now);
    }
    assert_eq!(pace.reserve("a", MIB, now), now + Duration::from_secs(4));
    assert_eq!(pace.reserve("a", MIB, now), now + Duration::from_secs(8));
    assert_eq!(pace.reserve("a", LARGE_BYTES - 1, now), now);
    assert_eq!(pace.reserve("b", MIB, now), now);
    let later = now + Duration::from_secs(60);
    assert_eq!(pace.reserve("a", MIB, later), later);
    assert_eq!(pace.0.lock().unwrap().len(), 1, "b is forgotten");
}
