//! Access to the fields of nested values. Invalid fields read as absent.

use serde_json::Value;

/// Returns the protocol of a port; TCP is the default.
pub(super) fn protocol(port: &Value) -> &str {
    port["protocol"]
        .as_str()
        .filter(|name| !name.is_empty())
        .unwrap_or("TCP")
}

/// Returns the port number at a field; `None` if it is absent, 0 or out of range.
pub(super) fn port_number(port: &Value, field: &str) -> Option<u16> {
    let number = u16::try_from(port[field].as_i64()?).ok()?;
    (number != 0).then_some(number)
}

/// Returns the string at a field, or "".
pub(crate) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Returns the list at a field, or an empty one.
pub(crate) fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}
