use super::*;

#[test]
fn a_certificate_is_renewed_after_most_of_its_life() {
    let time = |text: &str| text.parse::<Timestamp>().expect("a time");
    let kept = Kept {
        user: "system:node:n1".to_owned(),
        not_before: time("2026-01-01T00:00:00Z"),
        not_after: time("2026-01-01T10:00:00Z"),
    };
    assert_eq!(kept.renewal(0.0), time("2026-01-01T07:00:00Z"));
    assert_eq!(kept.renewal(1.0), time("2026-01-01T09:00:00Z"));
    assert!(kept.renewal(7.0) <= time("2026-01-01T09:00:00Z"));
    assert!(!kept.is_over(time("2026-01-01T09:59:59Z")) && kept.is_over(time("2026-01-01T10:00:00Z")));
}
