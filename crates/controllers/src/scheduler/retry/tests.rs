use super::*;

#[test]
fn delay_doubles_up_to_its_maximum() {
    let mut now = Instant::now();
    let mut attempts = None;
    let mut delays = Vec::new();
    for _ in 0..40 {
        let next = Attempts::failed(attempts, now);
        delays.push(next.not_before - now);
        now = next.not_before;
        attempts = Some(next);
    }
    assert_eq!(delays[..2], [Duration::from_millis(5), Duration::from_millis(10)]);
    assert!(delays.is_sorted());
    assert_eq!(delays.last(), Some(&Duration::from_secs(10)));
}

#[test]
fn attempts_during_the_delay_do_not_prolong_it() {
    let now = Instant::now();
    let first = Attempts::failed(None, now);
    assert_eq!(
        Attempts::failed(Some(first), now + Duration::from_millis(4)),
        first
    );
}
