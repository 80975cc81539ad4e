use super::*;

#[test]
fn the_last_time_counts() {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let old = br#"{"metadata":{"creationTimestamp":"2026-01-01T10:00:00Z"}}"#;
    assert!(is_old(old, now));
    let again = br#"{"metadata":{"creationTimestamp":"2026-01-01T10:00:00Z"},"lastTimestamp":"2026-01-01T11:30:00Z"}"#;
    assert!(!is_old(again, now));
    assert!(is_old(b"{}", now));
}
