//! Lenient parsing of values that other programs wrote.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a value; an invalid one reads as absent. A list with an invalid entry reads as absent, because findings depend on
/// the absence of entries.
pub(super) fn valid<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).ok())
}
