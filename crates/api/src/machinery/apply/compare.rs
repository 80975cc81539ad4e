//! Comparison of two versions of an object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field_set::{FieldSet, PathElement};
use super::layout::{Layout, Part};

/// Fields that differ between two versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
    /// True if a time of `null` is a field, see [`Comparison::of_objects`].
    has_null_times: bool,
}

impl Comparison {
    /// Compares two versions. As upstream, `null` in the new version is a value: it differs from absence, and an emptied
    /// object or list is not removed. See `compareWalker` in `structured-merge-diff/typed/compare.go`.
    pub(super) fn of(old: &Value, new: &Value, layout: Layout) -> Comparison {
        let mut comparison = Comparison::default();
        comparison.visit(&mut Vec::new(), layout, Some(old), Some(new));
        comparison
    }

    /// Compares two versions with their defaults. As upstream, which serializes unknown times as `null`, such a time is a
    /// field. Other `null` is equal to absence.
    pub(super) fn of_objects(old: &Value, new: &Value, layout: Layout) -> Comparison {
        let mut comparison = Comparison {
            has_null_times: true,
            ..Comparison::default()
        };
        comparison.visit(&mut Vec::new(), layout, Some(old), Some(new));
        comparison
    }

    /// Returns the fields that the new version sets.
    pub(super) fn written(&self) -> FieldSet {
        self.added.clone().union(&self.modified)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Removes the field at a path of field names, and the fields below it, from the comparison.
    pub(super) fn exclude(&mut self, path: &[&str]) {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            set.remove_tree(path);
        }
    }

    fn visit(
        &mut self,
        path: &mut Vec<PathElement>,
        layout: Layout,
        old: Option<&Value>,
        new: Option<&Value>,
    ) {
        let keeps_null = self.has_null_times && path.last().is_some_and(is_time);
        let ignores_null = !keeps_null && (self.has_null_times || old.is_some_and(Value::is_null));
        let (old, new) = if ignores_null {
            (without_null(old), without_null(new))
        } else {
            (old, new)
        };
        let (Some(old_parts), Some(new_parts)) = (parts(layout, old), parts(layout, new)) else {
            return self.record_difference(path, old, new, old != new);
        };
        if old_parts.is_empty() && new_parts.is_empty() {
            return self.record_difference(path, old, new, old != new);
        }
        let mut pairs: BTreeMap<PathElement, (Layout, Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for part in old_parts {
            let pair = pairs
                .entry(part.element)
                .or_insert((part.layout, Vec::new(), Vec::new()));
            pair.1.push(part.value);
        }
        for part in new_parts {
            let pair = pairs
                .entry(part.element)
                .or_insert((part.layout, Vec::new(), Vec::new()));
            pair.2.push(part.value);
        }
        for (element, (layout, old, new)) in pairs {
            path.push(element);
            if old.len() > 1 || new.len() > 1 {
                let differs = old != new;
                self.record_difference(path, old.first().copied(), new.first().copied(), differs);
            } else {
                self.visit(path, layout, old.first().copied(), new.first().copied());
            }
            path.pop();
        }
        if old.is_none() || new.is_none() {
            self.record_difference(path, old, new, true);
        }
    }

    fn record_difference(
        &mut self,
        path: &[PathElement],
        old: Option<&Value>,
        new: Option<&Value>,
        differs: bool,
    ) {
        match (old, new) {
            (Some(_), Some(_)) if differs => self.modified.insert(path),
            (None, Some(_)) => self.added.insert(path),
            (Some(_), None) => self.removed.insert(path),
            _ => {}
        }
    }
}

/// Returns true for the name of a time, for example `lastTransitionTime`.
fn is_time(element: &PathElement) -> bool {
    matches!(element, PathElement::Field(name) if name.ends_with("Time"))
}

fn without_null(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

/// Returns the parts of a value; an absent value and `null` have no parts.
fn parts(layout: Layout, value: Option<&Value>) -> Option<Vec<Part<'_>>> {
    match (layout, value) {
        (Layout::Leaf, _) => None,
        (_, None | Some(Value::Null)) => Some(Vec::new()),
        (layout, Some(value)) => layout.parts(value),
    }
}
