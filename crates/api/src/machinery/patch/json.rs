//! JSON patch (RFC 6902) with limits on work and result.
//!
//! Operations build on each other. Each `move` into a previously added value deepens the object, and each `copy` of a
//! copy doubles it. Therefore each operation is checked against the current object.

use std::io;

use serde_json::Value;

use super::PatchError;
use super::duplicate_fields::DuplicateFields;
use super::operation::{self, Action, Operation, Pointer};
use super::tree::{DEPTH_MAX, WorkingCopy, measure};
use crate::machinery::decode::VALUES_MAX;

/// Maximum size, as JSON, of all copied values: upstream's `JSONPatchMaxCopyBytes`.
const COPIED_BYTES_MAX: usize = 3 << 20;

/// Maximum number of values that a patch may measure or shift: some tens of milliseconds of work.
const STEPS_MAX: usize = 4_000_000;

/// Applies a JSON patch (RFC 6902). `duplicates` follows the values with duplicate fields.
pub(super) fn apply(
    object: Value,
    patch: Value,
    duplicates: &mut DuplicateFields,
) -> Result<Value, PatchError> {
    let operations = operation::parse(patch)?;
    let mut copy = WorkingCopy(object);
    let mut work = Work::default();
    for (at, operation) in operations.into_iter().enumerate() {
        let operation = operation.ok_or_else(|| rejected_request(&"Unexpected kind: unknown"))?;
        work.admit(&copy.0, &operation)?;
        duplicates.follow(at, &operation, &copy.0);
        // On failure the working copy is dropped, so operations are not undone.
        operation
            .apply(&mut copy.0)
            .map_err(|error| rejected_request(&error))?;
    }
    copy.finish().ok_or_else(too_deep)
}

/// Accumulated work of a patch.
#[derive(Default)]
struct Work {
    copied_bytes: usize,
    copied_values: usize,
    steps: usize,
}

impl Work {
    /// Checks an operation against the limits before it is applied. Missing values are ignored here, because the
    /// operation itself fails.
    fn admit(&mut self, object: &Value, operation: &Operation) -> Result<(), PatchError> {
        let path = &operation.path;
        match &operation.action {
            Action::Add(value) => {
                self.put(path, value)?;
                self.shift(object, path)
            }
            Action::Replace(value) => self.put(path, value).map(|_| ()),
            Action::Remove => self.remove(object, path),
            Action::Move(from) => {
                if let Some(source) = from.find(object) {
                    self.put(path, source)?;
                }
                self.remove(object, from)?;
                self.shift(object, path)
            }
            Action::Copy(from) => {
                if let Some(source) = from.find(object) {
                    let values = self.put(path, source)?;
                    self.copy(source, values)?;
                }
                self.shift(object, path)
            }
            // A comparison ends with the smaller side, which the size of the body bounds.
            Action::Test(_) => Ok(()),
        }
    }

    /// Checks the depth of a value at its new path, and counts its values. Returns their number.
    fn put(&mut self, path: &Pointer, value: &Value) -> Result<usize, PatchError> {
        let path_depth = path.depth();
        let steps_left = STEPS_MAX.saturating_sub(self.steps);
        let size = measure(value, steps_left).ok_or_else(too_much_work)?;
        if path_depth + size.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        self.steps += size.values;
        Ok(size.values)
    }

    fn copy(&mut self, source: &Value, values: usize) -> Result<(), PatchError> {
        self.copied_values += values;
        if self.copied_values > VALUES_MAX {
            let message = "the copy operations of the patch make the object too large";
            return Err(PatchError::TooLarge(message.into()));
        }
        let mut bytes = ByteCount(0);
        serde_json::to_writer(&mut bytes, source).map_err(|error| rejected_request(&error))?;
        self.copied_bytes += bytes.0;
        if self.copied_bytes > COPIED_BYTES_MAX {
            // Upstream's message and status (evanphx/json-patch).
            return Err(PatchError::DoesNotApply(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {COPIED_BYTES_MAX}",
                self.copied_bytes
            )));
        }
        Ok(())
    }

    /// Counts the list items or fields that a removal at `path` shifts. Fields keep their order, so the removal of the
    /// first one shifts all others.
    fn remove(&mut self, object: &Value, path: &Pointer) -> Result<(), PatchError> {
        self.steps += path.fields(object);
        if self.steps > STEPS_MAX {
            return Err(too_much_work());
        }
        self.shift(object, path)
    }

    /// Counts the list items that an insertion or removal at `path` shifts.
    fn shift(&mut self, object: &Value, path: &Pointer) -> Result<(), PatchError> {
        let Some((items, last)) = path.list(object) else {
            return Ok(());
        };
        let index = last.parse::<usize>().unwrap_or(items.len());
        self.steps += items.len().saturating_sub(index);
        if self.steps > STEPS_MAX {
            return Err(too_much_work());
        }
        Ok(())
    }
}

/// Writer that counts bytes.
struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn rejected_request(error: &dyn std::fmt::Display) -> PatchError {
    PatchError::DoesNotApply(format!("the server rejected our request: {error}"))
}

fn too_deep() -> PatchError {
    PatchError::DoesNotApply(format!(
        "the patch exceeds the maximum depth of {DEPTH_MAX} nested objects and lists"
    ))
}

fn too_much_work() -> PatchError {
    PatchError::TooLarge("the operations of the patch exceed the work limit of one request".into())
}
