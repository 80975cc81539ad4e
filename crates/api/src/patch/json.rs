//! JSON patch, with bounds on the work.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use super::PatchError;

/// Operations in one patch; the bound is Kubernetes' own.
const OPERATIONS_MAX: usize = 10_000;

/// Values that all `copy` operations of a patch may make together: without a bound, copies of copies would double
/// the object with each operation.
const COPIED_VALUES_MAX: usize = 100_000;

pub(super) fn apply(mut object: Value, patch: Value) -> Result<Value, PatchError> {
    let operations = patch.as_array().map_or(0, Vec::len);
    if operations > OPERATIONS_MAX {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {operations}"
        )));
    }
    let is_list_of_objects = patch
        .as_array()
        .is_some_and(|list| list.iter().all(Value::is_object));
    let Patch(operations) = serde_json::from_value(patch).map_err(|e| match is_list_of_objects {
        // Kubernetes looks at what an operation says only when it carries it out.
        true => PatchError::DoesNotApply(format!("the server rejected our request: {e}")),
        false => PatchError::Syntax(e.to_string()),
    })?;
    let mut copied_values = 0;
    for operation in operations {
        if let PatchOperation::Copy(copy) = &operation {
            copied_values += object.pointer(copy.from.as_str()).map_or(0, count);
            if copied_values > COPIED_VALUES_MAX {
                let text = "the copy operations of the patch make the object too large";
                return Err(PatchError::TooLarge(text.into()));
            }
        }
        // The copy is thrown away on failure, so that nothing need be undone.
        json_patch::patch_unsafe(&mut object, &[operation])
            .map_err(|e| PatchError::DoesNotApply(format!("the server rejected our request: {e}")))?;
    }
    Ok(object)
}

/// The number of values in a tree.
fn count(tree: &Value) -> usize {
    match tree {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        _ => 1,
    }
}
