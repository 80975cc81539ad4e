use super::*;

#[test]
fn renewal_is_due_after_70_to_90_percent_of_the_lifetime() {
    let time = |text: &str| text.parse::<Timestamp>().expect("a time");
    let certificate = StoredCertificate {
        user: "system:node:n1".to_owned(),
        not_before: time("2026-01-01T00:00:00Z"),
        not_after: time("2026-01-01T10:00:00Z"),
    };
    assert_eq!(certificate.renewal_time(0.0), time("2026-01-01T07:00:00Z"));
    assert_eq!(certificate.renewal_time(1.0), time("2026-01-01T09:00:00Z"));
    assert!(certificate.renewal_time(7.0) <= time("2026-01-01T09:00:00Z"));
    assert!(!certificate.is_expired(time("2026-01-01T09:59:59Z")));
    assert!(certificate.is_expired(time("2026-01-01T10:00:00Z")));
}
