use super::*;

#[test]
fn events_expire_after_their_last_occurrence() {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let single = br#"{"metadata":{"creationTimestamp":"2026-01-01T10:00:00Z"}}"#;
    assert!(is_expired(single, now));
    let repeated = br#"{"metadata":{"creationTimestamp":"2026-01-01T10:00:00Z"},"lastTimestamp":"2026-01-01T11:30:00Z"}"#;
    assert!(!is_expired(repeated, now));
    assert!(is_expired(b"{}", now));
}

#[test]
fn times_far_in_the_future_do_not_keep_events() {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    for field in ["lastTimestamp", "eventTime"] {
        let event = |time: &str| {
            format!(r#"{{"metadata":{{"creationTimestamp":"2026-01-01T10:00:00Z"}},"{field}":"{time}"}}"#)
        };
        assert!(is_expired(event("9999-01-01T00:00:00Z").as_bytes(), now));
        assert!(!is_expired(event("2026-01-01T12:05:00Z").as_bytes(), now));
    }
}
