//! Measurement and drop of deep trees without recursion.

use serde_json::Value;

/// Maximum number of nested containers. `serde_json` parses no more (its recursion limit is 128), so a deeper object
/// could be stored but not read. Decoding, validation and the drop of a tree recurse to this depth.
pub(super) const DEPTH_MAX: usize = 127;

/// Size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Nesting depth of containers; 0 for a scalar.
    pub(super) depth: usize,
    /// Number of values, containers included.
    pub(super) values: usize,
}

/// Measures a tree of at most `values_max` values; `None` if there are more.
pub(super) fn measure(tree: &Value, values_max: usize) -> Option<Size> {
    let mut size = Size::default();
    let mut pending = vec![(tree, 0)];
    while let Some((value, depth)) = pending.pop() {
        size.values += 1;
        if size.values > values_max {
            return None;
        }
        match value {
            Value::Array(items) => {
                size.depth = size.depth.max(depth + 1);
                pending.extend(items.iter().map(|item| (item, depth + 1)));
            }
            Value::Object(fields) => {
                size.depth = size.depth.max(depth + 1);
                pending.extend(fields.values().map(|value| (value, depth + 1)));
            }
            _ => {}
        }
    }
    Some(size)
}

/// A tree during a patch. Its drop does not overflow the stack at any depth.
pub(super) struct WorkingCopy(pub(super) Value);

impl WorkingCopy {
    /// Returns the tree, or `None` if it is too deep.
    pub(super) fn finish(mut self) -> Option<Value> {
        let size = measure(&self.0, usize::MAX)?;
        (size.depth <= DEPTH_MAX).then(|| self.0.take())
    }
}

impl Drop for WorkingCopy {
    fn drop(&mut self) {
        drop_iteratively(self.0.take());
    }
}

/// Drops a tree level by level.
fn drop_iteratively(tree: Value) {
    let mut pending = vec![tree];
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}
