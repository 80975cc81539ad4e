//! Escapes of texts. Names and addresses come from objects, so each may contain markup of the format.

/// Replacement of characters that a format cannot have.
const REPLACEMENT: char = '\u{fffd}';

/// Returns true for characters that are invisible, or change the direction of what follows.
fn is_hidden(character: char) -> bool {
    let is_format = matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    character.is_control() || is_format || matches!(character, '\u{fffe}' | '\u{ffff}')
}

/// Returns a text in one line with at most `characters` characters. The last one is `…` if more follow.
pub(super) fn shorten(text: &str, characters: usize) -> String {
    let visible = |character: char| {
        if is_hidden(character) {
            REPLACEMENT
        } else {
            character
        }
    };
    let mut rest = text.chars();
    let mut short: String = rest.by_ref().take(characters).map(visible).collect();
    if rest.next().is_some() {
        short.pop();
        short.push('…');
    }
    short
}

/// Escapes a text for the content and the attributes of XML.
pub(super) fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character if is_hidden(character) => escaped.push(REPLACEMENT),
            character => escaped.push(character),
        }
    }
    escaped
}

/// Escapes a text for a quoted identifier of DOT.
pub(super) fn dot(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            character if is_hidden(character) => escaped.push(REPLACEMENT),
            character => escaped.push(character),
        }
    }
    escaped
}

/// Escapes a text for a quoted label of Mermaid, which decodes `#NUMBER;`.
pub(super) fn mermaid(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        let is_plain = character.is_alphanumeric() || " -_./:,()+·@↔●▲✕○…".contains(character);
        match character {
            character if is_hidden(character) => escaped.push(REPLACEMENT),
            character if is_plain => escaped.push(character),
            character => escaped.push_str(&format!("#{};", u32::from(character))),
        }
    }
    escaped
}
