//! Texts of registries and archives in messages.

/// Maximum characters of untrusted text in an error.
const LENGTH_MAX: usize = 256;

/// Returns the foreign text, without control characters, and shortened.
pub(crate) fn printable(text: &str) -> String {
    let printable = |character: char| {
        if character.is_control() { ' ' } else { character }
    };
    text.chars().take(LENGTH_MAX).map(printable).collect()
}
