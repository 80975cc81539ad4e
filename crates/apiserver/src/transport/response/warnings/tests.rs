use super::*;

fn sent(texts: &[&str]) -> Vec<String> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let text_of = |value: &HeaderValue| String::from_utf8(value.as_bytes().to_vec()).unwrap();
    values(&texts).iter().map(text_of).collect()
}

#[test]
fn sends_each_text_once() {
    let long = "x".repeat(2 * TRUNCATED_CHARACTERS_MAX);
    assert_eq!(
        sent(&[&long, "say \"b\"", "", &long, "naïve", "two\nlines"]),
        [
            format!("299 - \"{long}\""),
            r#"299 - "say \"b\"""#.to_owned(),
            r#"299 - "naïve""#.to_owned(),
        ]
    );
}

#[test]
fn truncates_texts_above_the_total_length() {
    let texts: Vec<String> = (100..200)
        .map(|number| format!("{number}{}", "x".repeat(500)))
        .collect();
    let values = values(&texts);
    assert_eq!(values.len(), CHARACTERS_MAX / TRUNCATED_CHARACTERS_MAX);
    assert!(
        values
            .iter()
            .all(|value| value.len() == TRUNCATED_CHARACTERS_MAX + 8)
    );
}
