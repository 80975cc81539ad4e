//! Challenges of registries: the header `WWW-Authenticate` (RFC 9110, section 11.6.1).

use std::collections::BTreeMap;

/// Parameters of a challenge, at most. Registries send four.
const PARAMETERS_MAX: usize = 16;

/// Challenge that the client can meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// Parses one header. Returns `None` for other schemes and forms.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut parameters = parameters(rest)?;
        Some(Self::Bearer {
            realm: parameters.remove("realm")?,
            service: parameters.remove("service"),
        })
    }
}

/// Parses `name=value` and `name="value"`, separated by commas.
fn parameters(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut parameters = BTreeMap::new();
    while !text.trim_start_matches([' ', ',']).is_empty() && parameters.len() < PARAMETERS_MAX {
        text = text.trim_start_matches([' ', ',']);
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find([',', ' ']).unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        parameters.insert(name.trim().to_ascii_lowercase(), value);
        text = rest;
    }
    Some(parameters)
}

/// Reads up to the closing quotation mark. A backslash quotes the next character.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}
