//! Attributes of HTML tags that contain links.

use super::links::Links;

/// Elements and their attributes with links, as upstream's `atomsToAttrs`.
const LINK_ATTRIBUTES: [(&str, &[&str]); 25] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Returns the name of the element of a start tag in lower case; "" for an end tag.
pub(super) fn element(tag: &str) -> String {
    let name = tag.trim_start_matches('<');
    let end = name.find(is_end_of_name).unwrap_or(name.len());
    name.get(..end).unwrap_or_default().to_ascii_lowercase()
}

/// Returns a start tag, from `<` to `>`, with rewritten links.
pub(super) fn rewritten_tag(tag: &str, links: &Links) -> String {
    let element = element(tag);
    let attributes = LINK_ATTRIBUTES.iter().find(|(name, _)| *name == element);
    let Some((_, attributes)) = attributes else {
        return tag.to_owned();
    };
    let mut out = String::with_capacity(tag.len());
    let (name, mut rest) = split(tag, element.len() + 1);
    out.push_str(name);
    while !rest.is_empty() {
        // Between attributes: spaces, a slash, or the end of the tag.
        let (between, behind) = split(rest, rest.find(is_of_name).unwrap_or(rest.len()));
        let (name, behind) = split(behind, behind.find(is_end_of_name).unwrap_or(behind.len()));
        out.push_str(between);
        out.push_str(name);
        let Some(value) = Value::parse(behind) else {
            rest = behind;
            continue;
        };
        out.push_str(value.before);
        let lower = name.to_ascii_lowercase();
        if attributes.contains(&lower.as_str()) {
            out.push_str(&rewritten_value(value.text, links));
        } else {
            out.push_str(value.text);
        }
        rest = value.rest;
    }
    out
}

/// Value of an attribute in its tag.
struct Value<'t> {
    /// Equals sign, spaces and opening quote.
    before: &'t str,
    /// Value without quotes.
    text: &'t str,
    /// Closing quote and the following text.
    rest: &'t str,
}

impl<'t> Value<'t> {
    /// Returns the value behind an attribute's name; `None` if the attribute has none.
    fn parse(behind: &'t str) -> Option<Self> {
        let sign = behind.trim_start().strip_prefix('=')?;
        let value = sign.trim_start();
        let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
        let text = quote.map_or(value, |_| split(value, 1).1);
        let end = match quote {
            Some(quote) => text.find(quote),
            None => text.find(|character: char| character.is_ascii_whitespace() || character == '>'),
        };
        let (before, _) = split(behind, behind.len() - text.len());
        let (text, rest) = split(text, end.unwrap_or(text.len()));
        Some(Self { before, text, rest })
    }
}

fn rewritten_value(value: &str, links: &Links) -> String {
    let trimmed = value.trim();
    let rewritten = links.rewritten(trimmed);
    if rewritten == trimmed {
        return value.to_owned();
    }
    // The prefix is a path of the client's request: a quote in it must not end the value.
    let Some(path) = rewritten.strip_prefix(links.prefix.as_str()) else {
        return rewritten;
    };
    let mut out = String::with_capacity(rewritten.len());
    for character in links.prefix.chars() {
        match character {
            '"' => out.push_str("%22"),
            '\'' => out.push_str("%27"),
            '<' => out.push_str("%3C"),
            '>' => out.push_str("%3E"),
            '&' => out.push_str("&amp;"),
            other => out.push(other),
        }
    }
    out.push_str(path);
    out
}

/// Splits at a byte offset on a character boundary.
fn split(text: &str, at: usize) -> (&str, &str) {
    text.split_at_checked(at).unwrap_or((text, ""))
}

fn is_end_of_name(character: char) -> bool {
    character.is_ascii_whitespace() || matches!(character, '/' | '>' | '=')
}

fn is_of_name(character: char) -> bool {
    !is_end_of_name(character) && !matches!(character, '"' | '\'')
}
