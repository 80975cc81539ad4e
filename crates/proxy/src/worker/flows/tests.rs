use super::*;

#[test]
fn requests_wait_for_responses_within_bounds() {
    let start = Instant::now();
    let spared = SparedRequests::merge(None, CleanupScope::default(), start);
    assert_eq!(spared.at(), start + RESPONSE_TIME);
    let later = start + Duration::from_millis(500);
    let spared = SparedRequests::merge(Some(spared), CleanupScope::default(), later);
    assert_eq!(spared.at(), later + RESPONSE_TIME);
    let late = start + Duration::from_millis(4_900);
    let spared = SparedRequests::merge(Some(spared), CleanupScope::default(), late);
    assert_eq!(spared.at(), start + RESPONSE_TIME_MAX);
}
