//! Duplicate fields in the values of a JSON patch.
//!
//! Upstream keeps a value as text until an operation changes a part of it. It therefore reports duplicate fields twice: in
//! the patch, and in the patched object (`applyPatchToCurrentObject` in
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`).

use serde_json::Value;

use super::operation::{Action, Operation, Pointer};
use crate::kinds::kind::Kind;
use crate::machinery::decode::conform;

/// The duplicate fields of a patch, and the places of those that are in the object.
pub(super) struct DuplicateFields {
    of_patch: Vec<DuplicateField>,
    of_object: Vec<DuplicateObjectField>,
}

/// A duplicate field of the value of an operation.
struct DuplicateField {
    operation: usize,
    /// Path below the value, as in the strict error: `.labels.a"`.
    rest: String,
}

/// A duplicate field of the object.
struct DuplicateObjectField {
    pointer: Pointer,
    error: String,
}

impl DuplicateFields {
    /// Reads the strict errors of a decoded patch, such as `duplicate field "[0].value.labels.a"`.
    pub(super) fn of(strict_errors: &[String]) -> Self {
        let of_patch = strict_errors.iter().filter_map(|error| {
            let (operation, rest) = error.strip_prefix("duplicate field \"[")?.split_once(']')?;
            // A second `value` of the operation is no field of the value.
            let rest = rest.strip_prefix(".value")?;
            rest.starts_with(['.', '[']).then_some(DuplicateField {
                operation: operation.parse().ok()?,
                rest: rest.to_owned(),
            })
        });
        Self {
            of_patch: of_patch.collect(),
            of_object: Vec::new(),
        }
    }

    /// Follows the operation number `at`, which is about to be applied to `document`.
    pub(super) fn follow(&mut self, at: usize, operation: &Operation, document: &Value) {
        let path = &operation.path;
        let source = match &operation.action {
            Action::Move(from) | Action::Copy(from) => Some(from),
            _ => None,
        };
        self.of_object.retain(|placed| {
            let is_parsed = |pointer: &Pointer| placed.pointer.is_same_or_above(pointer);
            !is_parsed(path) && !source.is_some_and(is_parsed) && !path.is_same_or_above(&placed.pointer)
        });
        if !matches!(operation.action, Action::Add(_) | Action::Replace(_)) {
            return;
        }
        let fields = self.of_patch.iter().filter(|field| field.operation == at);
        self.of_object.extend(fields.filter_map(|field| {
            let location = format!("{:?}", path.field_path(document)?);
            Some(DuplicateObjectField {
                pointer: path.clone(),
                error: format!("duplicate field {}{}", location.strip_suffix('"')?, field.rest),
            })
        }));
    }

    /// Returns the strict errors of the patched object. Unknown fields have none.
    pub(super) fn strict_errors(self, patched: &Value, kind: &Kind) -> Vec<String> {
        if self.of_object.is_empty() {
            return Vec::new();
        }
        let Ok(decoded) = conform(patched.clone(), kind) else {
            // The patch fails with another error.
            return Vec::new();
        };
        let known = self.of_object.into_iter();
        let known = known.filter(|placed| placed.pointer.is_in(&decoded.object));
        known.map(|placed| placed.error).collect()
    }
}
