use super::*;

fn said(texts: &[&str]) -> Vec<String> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let text_of = |value: &HeaderValue| String::from_utf8(value.as_bytes().to_vec()).unwrap();
    values(&texts).iter().map(text_of).collect()
}

#[test]
fn each_text_is_said_once_and_whole() {
    let long = "x".repeat(2 * CUT_CHARS_MAX);
    assert_eq!(
        said(&[&long, "say \"b\"", "", &long, "naïve", "two\nlines"]),
        [
            format!("299 - \"{long}\""),
            r#"299 - "say \"b\"""#.to_owned(),
            r#"299 - "naïve""#.to_owned(),
        ]
    );
}

#[test]
fn texts_are_cut_where_all_of_them_are_too_long() {
    let texts: Vec<String> = (100..200)
        .map(|number| format!("{number}{}", "x".repeat(500)))
        .collect();
    let values = values(&texts);
    assert_eq!(values.len(), CHARS_MAX / CUT_CHARS_MAX);
    assert!(values.iter().all(|value| value.len() == CUT_CHARS_MAX + 8));
}
