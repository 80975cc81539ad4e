use super::*;

#[test]
fn offset_is_measured_in_the_middle_of_the_exchange() {
    let before: Timestamp = "2026-11-23T10:00:10Z".parse().expect("a time");
    let date = "Mon, 23 Nov 2026 10:00:00 GMT";
    let offset = difference(before, Duration::from_secs(1), date);
    assert_eq!(offset, Some(10.0));
    let equal = difference(before, Duration::ZERO, "Mon, 23 Nov 2026 10:00:10 GMT");
    assert_eq!(equal, Some(-0.5));
    for date in ["", "now", "Mon, 99 Nov 2026 10:00:00 GMT"] {
        assert_eq!(difference(before, Duration::ZERO, date), None, "{date}");
    }
}
