//! Query parameters, read into typed options; the errors are those of Kubernetes.

mod options;

pub(crate) use options::{
    DeleteOptions, FieldValidation, ListOptions, Propagation, VersionMatch, WriteOptions, parse_version,
};

use std::borrow::Cow;

/// The parameters of a request's query, decoded.
#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Reads the part of a URL behind `?`.
    pub(crate) fn parse(text: &'a str) -> Query<'a> {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decode_form(name), decode_form(value))
            })
            .collect();
        Query { pairs }
    }

    /// The first value of a parameter, "" if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.pairs
            .iter()
            .find(|(n, _)| n == name)
            .map_or("", |(_, value)| value)
    }

    /// All values of a parameter.
    pub(crate) fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.pairs
            .iter()
            .filter(move |(n, _)| n == name)
            .map(|(_, value)| &**value)
    }

    /// Whether a parameter is there, with a value or without.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(n, _)| n == name)
    }

    /// A flag; like Kubernetes, a parameter without a value is true, and what is no boolean is not.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let (_, value) = self.pairs.iter().find(|(n, _)| n == name)?;
        Some(!matches!(&**value, "0" | "f" | "F" | "false" | "False" | "FALSE"))
    }
}

/// Decodes one segment of a path.
pub(crate) fn decode_segment(text: &str) -> Cow<'_, str> {
    decode(text, false)
}

fn decode_form(text: &str) -> Cow<'_, str> {
    decode(text, true)
}

/// Percent decoding. What is no valid escape stays as it is; what is no UTF-8 then reads as replacement characters.
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
