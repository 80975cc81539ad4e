//! `Warning` headers, as RFC 7234 5.5 has them and kubectl shows them.

use std::collections::HashSet;

use http::header::{HeaderValue, WARNING};

use super::ApiResponse;

/// Characters of all texts together up to which they are sent whole, upstream's bound; of more, each text is cut,
/// and so is the list of them.
const CHARS_MAX: usize = 4096;
/// Characters of one text where texts are cut.
const CUT_CHARS_MAX: usize = 256;

/// Adds a header for each text; one that was said already is not said again.
pub(crate) fn with_warnings(mut answer: ApiResponse, warnings: &[String]) -> ApiResponse {
    for value in values(warnings) {
        answer.headers_mut().append(WARNING, value);
    }
    answer
}

/// Adds the header that says that what was asked for is deprecated, before all others.
pub(crate) fn with_deprecation(mut answer: ApiResponse, text: &str) -> ApiResponse {
    let headers = answer.headers_mut();
    let others: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    for value in value(text, CUT_CHARS_MAX).into_iter().chain(others) {
        headers.append(WARNING, value);
    }
    answer
}

fn values(warnings: &[String]) -> Vec<HeaderValue> {
    let mut said = HashSet::new();
    let texts = warnings
        .iter()
        .filter(|text| !text.is_empty() && said.insert(text.as_str()));
    let texts: Vec<&String> = texts.collect();
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    if chars <= CHARS_MAX {
        return texts.iter().filter_map(|text| value(text, CHARS_MAX)).collect();
    }
    let mut chars = 0;
    let fitting = texts.iter().take_while(|text| {
        let has_room = chars < CHARS_MAX;
        chars += text.chars().take(CUT_CHARS_MAX).count();
        has_room
    });
    fitting.filter_map(|text| value(text, CUT_CHARS_MAX)).collect()
}

/// A text as a quoted string; one with control characters has no form in a header.
fn value(text: &str, chars_max: usize) -> Option<HeaderValue> {
    let mut value = String::with_capacity(text.len() + 8);
    value.push_str("299 - \"");
    for letter in text.chars().take(chars_max) {
        if matches!(letter, '"' | '\\') {
            value.push('\\');
        }
        value.push(letter);
    }
    value.push('"');
    HeaderValue::from_bytes(value.as_bytes()).ok()
}

#[cfg(test)]
mod tests;
