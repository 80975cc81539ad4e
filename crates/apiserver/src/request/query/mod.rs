//! Query parameters, and the typed options that they form. Errors are those of Kubernetes.

mod options;

pub(crate) use options::{
    DeleteOptions, FieldValidation, ListOptions, Propagation, VersionMatch, WriteOptions, parse_version,
};

use std::borrow::Cow;
use std::ops::Range;

/// Decoded parameters of a URL's query. They share one buffer, so that a query costs two allocations.
#[derive(Debug, Default)]
pub(crate) struct Query {
    /// Names and values, in the order of the URL.
    text: String,
    parameters: Vec<Parameter>,
}

/// Ranges of a name and its value in [`Query::text`].
#[derive(Debug)]
struct Parameter {
    name: Range<usize>,
    value: Range<usize>,
}

impl Query {
    /// Parses the part of a URL behind `?`.
    pub(crate) fn parse(encoded: &str) -> Query {
        let mut text = String::with_capacity(encoded.len());
        let mut append = |part: &str| {
            let start = text.len();
            text.push_str(&decode(part, true));
            start..text.len()
        };
        let pairs = encoded.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Parameter {
                    name: append(name),
                    value: append(value),
                }
            })
            .collect();
        Query { text, parameters }
    }

    /// First value of a parameter, "" if it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.first(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub(crate) fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let named = self
            .parameters
            .iter()
            .filter(move |parameter| &self.text[parameter.name.clone()] == name);
        named.map(|parameter| &self.text[parameter.value.clone()])
    }

    /// True if a parameter is present, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// Boolean parameter. As in Kubernetes, every value is true except `0`, `f` and `false`.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let value = self.first(name)?;
        Some(!matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE"))
    }

    fn first(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let first = parameters.find(|parameter| &self.text[parameter.name.clone()] == name)?;
        Some(&self.text[first.value.clone()])
    }
}

/// Decodes one segment of a path.
pub(crate) fn decode_segment(text: &str) -> Cow<'_, str> {
    decode(text, false)
}

/// Percent decoding. Invalid escapes stay as they are; invalid UTF-8 becomes replacement characters.
fn decode(text: &str, plus_is_space: bool) -> Cow<'_, str> {
    if !text.bytes().any(|b| b == b'%' || (plus_is_space && b == b'+')) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            (b'+', _) if plus_is_space => out.push(b' '),
            (byte, _) => out.push(*byte),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests;
