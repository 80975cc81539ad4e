//! Query parameters, and the typed options that they form. Errors are those of Kubernetes.

mod options;

pub(crate) use options::{
    DeleteOptions, FieldValidation, ListOptions, Propagation, VersionMatch, WriteOptions, parse_version,
    version_of_query,
};

use std::borrow::Cow;
use std::ops::Range;

/// Parameters that verbs and health checks read, sorted.
const KNOWN_PARAMETERS: [&str; 38] = [
    "allowWatchBookmarks",
    "client",
    "container",
    "continue",
    "dryRun",
    "exclude",
    "export",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "force",
    "from",
    "gracePeriodSeconds",
    "hash",
    "includeObject",
    "intervalMilliseconds",
    "labelSelector",
    "limit",
    "limitBytes",
    "namespace",
    "orphanDependents",
    "pretty",
    "probe",
    "propagationPolicy",
    "protocol",
    "resourceVersion",
    "resourceVersionMatch",
    "rows",
    "sendInitialEvents",
    "service",
    "sinceSeconds",
    "sinceTime",
    "stream",
    "tailLines",
    "timeoutSeconds",
    "uid",
    "verbose",
    "watch",
];
/// Parameters with several values. Of the others, the first value counts.
const REPEATED_PARAMETERS: [&str; 2] = ["dryRun", "exclude"];
/// Maximum number of values of a repeated parameter that are kept.
const REPEATED_VALUES_MAX: usize = 64;

/// Decoded parameters of a URL's query, without unknown ones. They share one buffer, so that a query needs two
/// allocations.
///
/// A query lives as long as its request waits, so its size has a bound. Many short parameters would take several times
/// the memory of the URL.
#[derive(Debug, Default)]
pub(crate) struct Query {
    /// Values, in the order of the URL.
    text: String,
    parameters: Vec<Parameter>,
}

/// Name of a parameter, and the range of its value in [`Query::text`].
#[derive(Debug)]
struct Parameter {
    name: &'static str,
    value: Range<usize>,
}

impl Query {
    /// Parses the part of a URL behind `?`.
    pub(crate) fn parse(encoded: &str) -> Query {
        let mut query = Query::default();
        for pair in encoded.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let Ok(index) = KNOWN_PARAMETERS.binary_search(&&*decode(name, true)) {
                query.push(KNOWN_PARAMETERS[index], value);
            }
        }
        query
    }

    /// Keeps a value, unless it has no effect.
    fn push(&mut self, name: &'static str, encoded_value: &str) {
        let present = self
            .parameters
            .iter()
            .filter(|parameter| parameter.name == name)
            .count();
        let values_max = if REPEATED_PARAMETERS.contains(&name) {
            REPEATED_VALUES_MAX
        } else {
            1
        };
        if present < values_max {
            let start = self.text.len();
            self.text.push_str(&decode(encoded_value, true));
            let value = start..self.text.len();
            self.parameters.push(Parameter { name, value });
        }
    }

    /// Returns the first value of a parameter, "" if it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.first(name).unwrap_or_default()
    }

    /// Returns all values of a parameter.
    pub(crate) fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let named = self
            .parameters
            .iter()
            .filter(move |parameter| parameter.name == name);
        named.map(|parameter| &self.text[parameter.value.clone()])
    }

    /// Returns true if a parameter is present, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// Returns the boolean parameter. As in Kubernetes, every value is true except `0`, `f` and `false`.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let value = self.first(name)?;
        Some(!matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE"))
    }

    fn first(&self, name: &str) -> Option<&str> {
        debug_assert!(
            KNOWN_PARAMETERS.contains(&name),
            "{name} is in the list of known parameters"
        );
        let first = self.parameters.iter().find(|parameter| parameter.name == name)?;
        Some(&self.text[first.value.clone()])
    }
}

/// Decodes one segment of a path.
pub(crate) fn decode_segment(text: &str) -> Cow<'_, str> {
    decode(text, false)
}

/// Decodes percent-encoding. Invalid escapes stay as they are; invalid UTF-8 becomes replacement characters.
fn decode(text: &str, plus_is_space: bool) -> Cow<'_, str> {
    if !text
        .bytes()
        .any(|byte| byte == b'%' || (plus_is_space && byte == b'+'))
    {
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
