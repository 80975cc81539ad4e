//! Timestamps as text: for serde's `with`, and in the form of the API.

use jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Serializes a timestamp.
///
/// # Errors
/// Errors of the serializer.
pub(crate) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

/// Deserializes a timestamp.
///
/// # Errors
/// Errors of the deserializer, and for text that is not a timestamp.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)
}

/// Formats a timestamp as the API does, in whole seconds.
pub(crate) fn whole_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}
