//! Merge of a configuration into an object, and removal of fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::field_set::{FieldSet, PathElement};
use super::layout::Layout;

/// Returns the live value with all fields of the applied value.
pub(super) fn merge(live: Option<&Value>, applied: &Value, layout: Layout) -> Value {
    match (layout, live, applied) {
        (Layout::Object(_) | Layout::Map(_), Some(Value::Object(live)), Value::Object(applied)) => {
            let mut fields = live.clone();
            for (name, value) in applied {
                let child = layout.child(&PathElement::field(name));
                fields.insert(name.clone(), merge(live.get(name), value, child));
            }
            Value::Object(fields)
        }
        (Layout::Set | Layout::ListMap(..), Some(Value::Array(live)), Value::Array(applied)) => {
            Value::Array(merge_lists(live, applied, layout))
        }
        // `null` for a composite field removes nothing.
        (Layout::Leaf, ..) => applied.clone(),
        (_, Some(live), Value::Null) => live.clone(),
        _ => applied.clone(),
    }
}

/// Merges lists: shared items follow the applied order, the others keep their live positions.
fn merge_lists(live: &[Value], applied: &[Value], layout: Layout) -> Vec<Value> {
    let (live, applied) = (Items::new(live, layout), Items::new(applied, layout));
    let mut shared = applied
        .items
        .iter()
        .filter_map(|(element, _)| element.as_ref())
        .filter(|element| live.by_element.contains_key(element))
        .peekable();
    let mut placed: BTreeSet<&PathElement> = BTreeSet::new();
    let mut items = Vec::with_capacity(live.items.len() + applied.items.len());
    let (mut from_live, mut from_applied) = (0, 0);
    while from_live < live.items.len() || from_applied < applied.items.len() {
        let next_applied = applied.items.get(from_applied);
        if let Some((element, item)) = live.items.get(from_live) {
            let Some(element) = element
                .as_ref()
                .filter(|element| applied.by_element.contains_key(element))
            else {
                items.push((*item).clone());
                from_live += 1;
                continue;
            };
            // A shared item waits for its position in the applied order; placed items are skipped.
            let is_next = shared.peek() == Some(&element);
            if placed.contains(element) || (next_applied.is_some() && !is_next) {
                from_live += 1;
                continue;
            }
            if next_applied.is_some_and(|(next, _)| next.as_ref() == Some(element)) {
                from_live += 1;
            }
        }
        if let Some((element, value)) = next_applied {
            items.push(live.merge_item(element.as_ref(), value, layout));
            placed.extend(element.as_ref());
            if element.is_some() && shared.peek().copied() == element.as_ref() {
                shared.next();
            }
            from_applied += 1;
        }
    }
    items
}

/// A list with an index of its items.
struct Items<'v> {
    items: Vec<(Option<PathElement>, &'v Value)>,
    /// Positions of items; `None` for duplicate items.
    by_element: BTreeMap<PathElement, Option<usize>>,
}

impl<'v> Items<'v> {
    fn new(values: &'v [Value], layout: Layout) -> Items<'v> {
        let mut by_element = BTreeMap::new();
        let mut items = Vec::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            let element = layout.element_of(value).ok();
            if let Some(element) = &element {
                by_element
                    .entry(element.clone())
                    .and_modify(|position| *position = None)
                    .or_insert(Some(index));
            }
            items.push((element, value));
        }
        Items { items, by_element }
    }

    /// Merges an applied item with its counterpart in this list, if there is exactly one.
    fn merge_item(&self, element: Option<&PathElement>, applied: &Value, layout: Layout) -> Value {
        let position = element.and_then(|element| self.by_element.get(element).copied().flatten());
        let live = position
            .and_then(|position| self.items.get(position))
            .map(|(_, item)| *item);
        let child = element.map_or(Layout::Leaf, |element| layout.child(element));
        merge(live, applied, child)
    }
}

/// Returns the value without the fields of `set`; `null` if nothing remains.
pub(super) fn without_fields(value: &Value, set: &FieldSet, layout: Layout) -> Value {
    let keep = |element: Option<PathElement>, value: &Value| {
        let Some(element) = element else {
            return Some(value.clone());
        };
        if set.members.contains(&element) {
            return None;
        }
        Some(match set.children.get(&element) {
            Some(child) => without_fields(value, child, layout.child(&element)),
            None => value.clone(),
        })
    };
    match (layout, value) {
        (Layout::Object(_) | Layout::Map(_), Value::Object(fields)) => {
            let kept: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, value)| {
                    Some((name.clone(), keep(Some(PathElement::field(name)), value)?))
                })
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        (Layout::Set | Layout::ListMap(..), Value::Array(items)) => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| keep(layout.element_of(item).ok(), item))
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        _ => value.clone(),
    }
}
