//! Merge patches (RFC 7386), and strategic merge patches of conditions by type.

use serde_json::Value;

/// Returns the object with the patch applied.
pub(crate) fn patched(mut object: Value, patch: &Value, is_strategic: bool) -> Value {
    merge(&mut object, patch, is_strategic);
    object
}

fn merge(target: &mut Value, patch: &Value, is_strategic: bool) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Default::default());
    }
    for (field, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(field);
        } else if is_strategic && field == "conditions" {
            merge_conditions(&mut target[field], value);
        } else {
            merge(&mut target[field], value, is_strategic);
        }
    }
}

fn merge_conditions(target: &mut Value, patch: &Value) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let conditions = target.as_array_mut().expect("an array");
    for condition in patch.as_array().into_iter().flatten() {
        match conditions
            .iter_mut()
            .find(|known| known["type"] == condition["type"])
        {
            Some(known) => merge(known, condition, true),
            None => conditions.push(condition.clone()),
        }
    }
}
