//! Measures and takedown of trees of any depth, without recursion.

use serde_json::Value;

/// Containers in each other that a tree may have: `serde_json` reads no more (its limit of recursion is 128), so that a
/// deeper object could be stored but never read. Decoders, validation and the drop of a tree recurse this deep.
pub(super) const DEPTH_MAX: usize = 127;

/// Size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Containers in each other; 0 for a plain value.
    pub(super) depth: usize,
    /// Values of all kinds, containers included.
    pub(super) values: usize,
}

/// Measures a tree, but counts no more than `values_max` values: `None` if there are more.
pub(super) fn measure(tree: &Value, values_max: usize) -> Option<Size> {
    let mut size = Size::default();
    let mut open = vec![(tree, 0)];
    while let Some((value, outer)) = open.pop() {
        size.values += 1;
        if size.values > values_max {
            return None;
        }
        match value {
            Value::Array(items) => {
                size.depth = size.depth.max(outer + 1);
                open.extend(items.iter().map(|item| (item, outer + 1)));
            }
            Value::Object(fields) => {
                size.depth = size.depth.max(outer + 1);
                open.extend(fields.values().map(|value| (value, outer + 1)));
            }
            _ => {}
        }
    }
    Some(size)
}

/// A tree under change. However deep it grows, its end does not overflow the stack.
pub(super) struct WorkingCopy(pub(super) Value);

impl WorkingCopy {
    /// The tree if its depth is allowed.
    pub(super) fn finish(mut self) -> Option<Value> {
        let size = measure(&self.0, usize::MAX)?;
        (size.depth <= DEPTH_MAX).then(|| self.0.take())
    }
}

impl Drop for WorkingCopy {
    fn drop(&mut self) {
        dismantle(self.0.take());
    }
}

/// Drops a tree level by level.
fn dismantle(tree: Value) {
    let mut open = vec![tree];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}
