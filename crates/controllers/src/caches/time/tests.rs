use super::*;

const TEXTS: [&str; 7] = [
    "-009999-01-02T01:59:59Z",
    "1969-12-31T23:59:59.999999Z",
    "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:00.000001Z",
    "2026-01-01T00:00:07.5Z",
    "2026-01-01T00:00:08Z",
    "9999-12-30T22:00:00.999999Z",
];

#[test]
fn times_equal_their_text_and_keep_their_order() {
    let times = TEXTS.map(|text| Time::parse(text).expect("a time"));
    assert_eq!(times.map(|time| time.timestamp().to_string()), TEXTS);
    assert!(times.is_sorted());
}

#[test]
fn other_texts_are_no_times() {
    assert_eq!(Time::parse(""), None);
    assert_eq!(Time::parse("2026"), None);
}

#[test]
fn optional_time_takes_eight_bytes() {
    assert_eq!(size_of::<Option<Time>>(), 8);
}
