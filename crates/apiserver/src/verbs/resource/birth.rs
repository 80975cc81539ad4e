//! What the server gives to a new object: identity and time, and a name if the client wants one made.

use api::kind::Kind;
use api::tree::{clear, set, text};
use jiff::Timestamp;
use serde_json::Value;

use super::metadata_mut;

/// Letters of generated names: no vowels, so that no words come about.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const GENERATED_LETTERS: usize = 5;
/// The prefix is cut so that the name stays a DNS label.
const PREFIX_BYTES_MAX: usize = 63 - GENERATED_LETTERS;

/// Sets what is the server's to set, and removes what a client may have copied from another object.
pub(super) fn bear(object: &mut Value, kind: &Kind) {
    let metadata = metadata_mut(object);
    for field in [
        "resourceVersion",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        clear(metadata, field);
    }
    if text(metadata, "name").is_empty() {
        let prefix = text(metadata, "generateName");
        if !prefix.is_empty() {
            let name = generated_name(prefix);
            set(metadata, "name", name);
        }
    }
    set(metadata, "uid", uuid::Uuid::new_v4().to_string());
    set(metadata, "creationTimestamp", now());
    if kind.has_generation {
        set(metadata, "generation", 1);
    }
}

/// A new object that the server makes of its own accord, complete.
pub(crate) fn newborn(kind: &Kind, mut object: Value) -> Value {
    bear(&mut object, kind);
    object
}

/// The time, as Kubernetes writes it: RFC 3339, whole seconds, UTC.
pub(super) fn now() -> String {
    at(Timestamp::now())
}

/// A time that lies some seconds ahead.
pub(super) fn seconds_ahead(seconds: i64) -> String {
    let now = Timestamp::now();
    at(Timestamp::from_second(now.as_second().saturating_add(seconds)).unwrap_or(now))
}

fn at(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

/// A name that begins with a prefix and that nobody has, most likely.
pub(crate) fn generated_name(prefix: &str) -> String {
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
