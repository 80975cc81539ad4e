//! Metadata that the server sets in a new object: UID, creation time, and a generated name.

use api::kind::Kind;
use api::tree::{clear, set, text};
use jiff::Timestamp;
use serde_json::Value;

use super::metadata_mut;

/// Letters of generated names, without vowels, so that names do not contain words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const GENERATED_LETTERS: usize = 5;
/// Maximum length of the prefix of a generated name. Longer prefixes are cut, so that the name stays a DNS label.
const PREFIX_BYTES_MAX: usize = 63 - GENERATED_LETTERS;

/// Sets the metadata that belongs to the server, and clears fields that a client may have copied from another
/// object.
pub(super) fn set_server_metadata(object: &mut Value, kind: &Kind) {
    let metadata = metadata_mut(object);
    for field in [
        "resourceVersion",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        clear(metadata, field);
    }
    if text(metadata, "name").is_empty() {
        let prefix = text(metadata, "generateName");
        if !prefix.is_empty() {
            let name = generate_name(prefix);
            set(metadata, "name", name);
        }
    }
    set(metadata, "uid", uuid::Uuid::new_v4().to_string());
    set(metadata, "creationTimestamp", now());
    if kind.has_generation {
        set(metadata, "generation", 1);
    }
}

/// Returns an object of the server's own with complete metadata.
pub(crate) fn new_server_object(kind: &Kind, mut object: Value) -> Value {
    set_server_metadata(&mut object, kind);
    object
}

/// Returns the current time as Kubernetes writes it: RFC 3339, whole seconds, UTC.
pub(super) fn now() -> String {
    format_time(Timestamp::now())
}

/// Returns the time that is `seconds` in the future.
pub(super) fn seconds_ahead(seconds: i64) -> String {
    let now = Timestamp::now();
    format_time(Timestamp::from_second(now.as_second().saturating_add(seconds)).unwrap_or(now))
}

fn format_time(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

/// Appends random letters to a prefix, as `metadata.generateName` requires. Names are not guaranteed to be unique.
pub(crate) fn generate_name(prefix: &str) -> String {
    let cut = (0..=PREFIX_BYTES_MAX.min(prefix.len()))
        .rev()
        .find(|&at| prefix.is_char_boundary(at));
    let mut name = prefix[..cut.unwrap_or(0)].to_owned();
    for _ in 0..GENERATED_LETTERS {
        name.push(char::from(LETTERS[fastrand::usize(..LETTERS.len())]));
    }
    name
}

#[cfg(test)]
mod tests;
