//! Equality of objects apart from the times of managed fields.

use serde_json::Value;

use super::creation::managed_fields;
use super::managers::{self, Manager};

/// Returns true if two versions of an object differ at most in the times of managed fields.
pub fn is_same_except_times(new: &Value, old: &Value) -> bool {
    let (new_records, old_records) = (managed_fields(new), managed_fields(old));
    if !is_same_except_managed_fields(new, old) {
        return false;
    }
    if new_records.is_null() || old_records.is_null() || new_records == old_records {
        return new_records == old_records;
    }
    let timeless = |records: &Value| -> Vec<Manager> {
        let mut managers = managers::parse(records).unwrap_or_default();
        managers.iter_mut().for_each(|manager| manager.time.clear());
        managers.sort_by(|a, b| {
            (a.operation, &a.name, &a.subresource).cmp(&(b.operation, &b.name, &b.subresource))
        });
        managers
    };
    timeless(new_records) == timeless(old_records)
}

fn is_same_except_managed_fields(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return new == old;
    };
    new.len() == old.len()
        && new
            .iter()
            .all(|(name, value)| match (name.as_str(), old.get(name)) {
                ("metadata", Some(before)) => is_same_except(value, before, "managedFields"),
                (_, before) => before == Some(value),
            })
}

/// Returns true if two objects are equal except for the field `excluded`.
fn is_same_except(new: &Value, old: &Value, excluded: &str) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return new == old;
    };
    let length =
        |fields: &serde_json::Map<String, Value>| fields.len() - usize::from(fields.contains_key(excluded));
    length(new) == length(old)
        && new
            .iter()
            .all(|(name, value)| name == excluded || old.get(name) == Some(value))
}
