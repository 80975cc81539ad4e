//! Merging a configuration into an object, and taking fields out of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::field_set::{FieldSet, PathElement};
use super::layout::Layout;

/// The object with everything set that the configuration sets.
pub(super) fn merged(live: Option<&Value>, applied: &Value, layout: Layout) -> Value {
    match (layout, live, applied) {
        (Layout::Object(_) | Layout::Map(_), Some(Value::Object(live)), Value::Object(applied)) => {
            let mut fields = live.clone();
            for (name, value) in applied {
                let below = layout.below(&PathElement::field(name));
                fields.insert(name.clone(), merged(live.get(name), value, below));
            }
            Value::Object(fields)
        }
        (Layout::Set | Layout::ListMap(..), Some(Value::Array(live)), Value::Array(applied)) => {
            Value::Array(merged_items(live, applied, layout))
        }
        // Nothing is taken away by setting a field that is made of others to null.
        (Layout::Leaf, ..) => applied.clone(),
        (_, Some(live), Value::Null) => live.clone(),
        _ => applied.clone(),
    }
}

/// Merges lists: items that both have stand in the order of the applied ones, the others where they stood.
fn merged_items(live: &[Value], applied: &[Value], layout: Layout) -> Vec<Value> {
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
            let Some(element) = element.as_ref().filter(|e| applied.by_element.contains_key(e)) else {
                items.push((*item).clone());
                from_live += 1;
                continue;
            };
            // A shared item waits for its turn; one that has been placed is done.
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
            items.push(live.merged_with(element.as_ref(), value, layout));
            placed.extend(element.as_ref());
            if element.is_some() && shared.peek().copied() == element.as_ref() {
                shared.next();
            }
            from_applied += 1;
        }
    }
    items
}

/// A list whose items can be found by what tells them apart.
struct Items<'v> {
    items: Vec<(Option<PathElement>, &'v Value)>,
    /// Where the items are; an item that stands more than once has no place that counts.
    by_element: BTreeMap<PathElement, Option<usize>>,
}

impl<'v> Items<'v> {
    fn new(values: &'v [Value], layout: Layout) -> Items<'v> {
        let mut by_element = BTreeMap::new();
        let mut items = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            let element = layout.element_of(value).ok();
            if let Some(element) = &element {
                by_element
                    .entry(element.clone())
                    .and_modify(|place| *place = None)
                    .or_insert(Some(at));
            }
            items.push((element, value));
        }
        Items { items, by_element }
    }

    /// An applied item, merged with the one of this list if there is exactly one.
    fn merged_with(&self, element: Option<&PathElement>, applied: &Value, layout: Layout) -> Value {
        let place = element.and_then(|e| self.by_element.get(e).copied().flatten());
        let before = place
            .and_then(|place| self.items.get(place))
            .map(|(_, item)| *item);
        let below = element.map_or(Layout::Leaf, |e| layout.below(e));
        merged(before, applied, below)
    }
}

/// The value without the fields of `set`; `null` if nothing is left.
pub(super) fn without(value: &Value, set: &FieldSet, layout: Layout) -> Value {
    let keep = |element: Option<PathElement>, value: &Value| {
        let Some(element) = element else {
            return Some(value.clone());
        };
        if set.members.contains(&element) {
            return None;
        }
        Some(match set.children.get(&element) {
            Some(below) => without(value, below, layout.below(&element)),
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
            match kept.is_empty() {
                true => Value::Null,
                false => Value::Object(kept),
            }
        }
        (Layout::Set | Layout::ListMap(..), Value::Array(items)) => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| keep(layout.element_of(item).ok(), item))
                .collect();
            match kept.is_empty() {
                true => Value::Null,
                false => Value::Array(kept),
            }
        }
        _ => value.clone(),
    }
}
