//! `Warning` headers (RFC 7234, section 5.5), which kubectl prints.

use std::collections::HashSet;

use http::header::{HeaderValue, WARNING};

use super::ApiResponse;

/// Total length in characters above which texts are truncated, and the list of them too (upstream's bound).
const CHARACTERS_MAX: usize = 4096;
/// Length in characters to which a text is truncated.
const TRUNCATED_CHARACTERS_MAX: usize = 256;

/// Adds a header for each distinct text.
pub(crate) fn with_warnings(mut response: ApiResponse, warnings: &[String]) -> ApiResponse {
    for value in values(warnings) {
        response.headers_mut().append(WARNING, value);
    }
    response
}

/// Adds the warning that the requested kind is deprecated, before all others.
pub(crate) fn with_deprecation(mut response: ApiResponse, text: &str) -> ApiResponse {
    let headers = response.headers_mut();
    let others: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    for value in value(text, TRUNCATED_CHARACTERS_MAX).into_iter().chain(others) {
        headers.append(WARNING, value);
    }
    response
}

fn values(warnings: &[String]) -> Vec<HeaderValue> {
    let mut seen = HashSet::new();
    let texts = warnings
        .iter()
        .filter(|text| !text.is_empty() && seen.insert(text.as_str()));
    let texts: Vec<&String> = texts.collect();
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    if chars <= CHARACTERS_MAX {
        return texts
            .iter()
            .filter_map(|text| value(text, CHARACTERS_MAX))
            .collect();
    }
    let mut chars = 0;
    let fitting = texts.iter().take_while(|text| {
        let has_room = chars < CHARACTERS_MAX;
        chars += text.chars().take(TRUNCATED_CHARACTERS_MAX).count();
        has_room
    });
    fitting
        .filter_map(|text| value(text, TRUNCATED_CHARACTERS_MAX))
        .collect()
}

/// Returns the text as a quoted string; `None` if it has control characters, which a header must not contain.
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
