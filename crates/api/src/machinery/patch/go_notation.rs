//! Values in the notation of Go's `%v`, which upstream's messages about patches have.

use serde_json::Value;

/// Formats a value as Go's `%v` does. The parser limits the depth.
pub fn go_notation(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => list_notation(items),
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", go_notation(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// Formats a list as Go's `%v` does.
pub(super) fn list_notation(items: &[Value]) -> String {
    let items: Vec<String> = items.iter().map(go_notation).collect();
    format!("[{}]", items.join(" "))
}

/// Formats a value as Go's `%s` does, which names the types of values that are not strings.
pub(super) fn string_notation(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(flag) => format!("%!s(bool={flag})"),
        Value::Number(number) if number.is_f64() => format!("%!s(float64={number})"),
        Value::Number(number) => format!("%!s(int64={number})"),
        other => go_notation(other),
    }
}
