use super::*;

const DELAY: Duration = Duration::from_secs(60);

#[test]
fn failures_before_the_announced_retry_are_not_announced() {
    let mut retries = AnnouncedRetries::default();
    let start = Instant::now();
    assert!(retries.announce(&"a", start, DELAY));
    assert!(!retries.announce(&"a", start + DELAY / 2, DELAY));
    assert!(retries.announce(&"b", start + DELAY / 2, DELAY));
    // The early failure does not move the announced retry.
    assert!(retries.announce(&"a", start + DELAY, DELAY));
}

#[test]
fn failures_after_a_success_are_announced() {
    let mut retries = AnnouncedRetries::default();
    let start = Instant::now();
    assert!(retries.announce(&"a", start, DELAY));
    retries.forget(&"a");
    assert!(retries.announce(&"a", start, DELAY));
}
