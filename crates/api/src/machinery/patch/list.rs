//! Merge of lists in a strategic merge patch.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::PatchError;
use super::strategic::{PATCH, merge_object, unknown_directive};
use crate::machinery::schema::Shape;

/// Identity of a list item, as JSON text: the value of its merge key, or the item itself.
type Identity = String;

/// Merges the items of a patch into a list. Items of the patch, or of `order`, follow the order of the patch or of
/// `order`. The others keep their order. Both groups are interleaved by the previous positions.
pub(super) fn merge(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    order: Option<Vec<Value>>,
    merge_key: Option<&str>,
    shape: &Shape,
) -> Result<Vec<Value>, PatchError> {
    let key = element_key(original.iter().chain(&patch), merge_key)?;
    let Directives {
        items,
        deleted,
        replaces,
    } = extract_directives(patch, key)?;
    if replaces {
        return items
            .into_iter()
            .map(|item| merge_item(Value::Null, item, shape))
            .collect();
    }
    if !deleted.is_empty() {
        original.retain(|item| identity(item, key).is_none_or(|id| !deleted.contains_key(&id)));
    }
    let patched = identities(&items, key)?;
    let order = match order {
        None => patched,
        Some(order) => {
            let order = identities(&order, key)?;
            check_order(&patched, &order)?;
            order
        }
    };
    let previous = positions(original.iter().filter_map(|item| identity(item, key)));
    let list = merge_items(original, items, key, shape)?;
    Ok(arrange(list, &order, &previous, key))
}

/// Returns the merge key; `None` for lists of scalars. Objects need a merge key, and lists of lists are not
/// supported.
fn element_key<'k, 'v>(
    items: impl Iterator<Item = &'v Value>,
    merge_key: Option<&'k str>,
) -> Result<Option<&'k str>, PatchError> {
    let (mut has_objects, mut has_scalars) = (false, false);
    for item in items {
        match item {
            Value::Object(_) => has_objects = true,
            Value::Array(_) => {
                return Err(PatchError::DoesNotApply(
                    "lists of lists are not supported".into(),
                ));
            }
            _ => has_scalars = true,
        }
    }
    match (has_objects, has_scalars, merge_key) {
        (true, true, _) => Err(PatchError::Directive(
            "list element types are not identical".into(),
        )),
        (true, false, None) => Err(no_merge_key("")),
        (true, false, Some(key)) => Ok(Some(key)),
        (false, _, _) => Ok(None),
    }
}

/// A patch's list, split into items and directives.
struct Directives {
    items: Vec<Value>,
    deleted: HashMap<Identity, usize>,
    replaces: bool,
}

fn extract_directives(patch: Vec<Value>, key: Option<&str>) -> Result<Directives, PatchError> {
    let mut items = Vec::with_capacity(patch.len());
    let mut deleted = Vec::new();
    let mut replaces = false;
    for item in patch {
        match item.get(PATCH) {
            None => items.push(item),
            Some(Value::String(directive)) => match directive.as_str() {
                "delete" => deleted.push(required_identity(&item, key)?),
                "replace" => replaces = true,
                "merge" => {
                    return Err(PatchError::Directive(
                        "merging lists cannot yet be specified in the patch".into(),
                    ));
                }
                other => return Err(unknown_directive(other)),
            },
            Some(other) => return Err(unknown_directive(&other.to_string())),
        }
    }
    Ok(Directives {
        items,
        deleted: positions(deleted.into_iter()),
        replaces,
    })
}

fn merge_items(
    mut list: Vec<Value>,
    patch: Vec<Value>,
    key: Option<&str>,
    shape: &Shape,
) -> Result<Vec<Value>, PatchError> {
    if key.is_none() {
        // Scalars: the first occurrence stays.
        list.extend(patch);
        let mut seen = HashMap::new();
        list.retain(|item| seen.insert(item.to_string(), ()).is_none());
        return Ok(list);
    }
    let mut index: HashMap<Identity, usize> = HashMap::new();
    for (position, item) in list.iter().enumerate() {
        if let Some(id) = identity(item, key) {
            index.entry(id).or_insert(position);
        }
    }
    for item in patch {
        let id = required_identity(&item, key)?;
        match index.get(&id).and_then(|position| list.get_mut(*position)) {
            Some(slot) => *slot = merge_item(slot.take(), item, shape)?,
            None => {
                index.insert(id, list.len());
                list.push(merge_item(Value::Null, item, shape)?);
            }
        }
    }
    Ok(list)
}

/// Merges an item into its counterpart, or into nothing, which removes its directives.
fn merge_item(previous: Value, item: Value, shape: &Shape) -> Result<Value, PatchError> {
    match (previous, item) {
        (Value::Object(previous), Value::Object(item)) => {
            merge_object(previous, item, shape).map(Value::Object)
        }
        (_, Value::Object(item)) => merge_object(Map::new(), item, shape).map(Value::Object),
        (_, item) => Ok(item),
    }
}

/// Arranges the items of `order` in that order and the others in their previous order, interleaved by the previous
/// positions.
fn arrange(
    list: Vec<Value>,
    order: &[Identity],
    previous: &HashMap<Identity, usize>,
    key: Option<&str>,
) -> Vec<Value> {
    let order = positions(order.iter().cloned());
    let mut ordered = Vec::new();
    let mut rest = Vec::new();
    for item in list {
        let id = identity(&item, key);
        let previous = id.as_ref().and_then(|id| previous.get(id)).copied();
        match id.as_ref().and_then(|id| order.get(id)) {
            Some(position) => ordered.push((*position, previous, item)),
            None => rest.push((previous, item)),
        }
    }
    ordered.sort_by_key(|(position, ..)| *position);
    // As upstream: items with the same key stand together, at the position of the first one.
    rest.sort_by_key(|(previous, _)| *previous);
    let mut result = Vec::with_capacity(ordered.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for (_, previous, item) in ordered {
        while let Some((other, _)) = rest.peek()
            && matches!((other, previous), (Some(other), Some(previous)) if *other < previous)
        {
            result.extend(rest.next().map(|(_, item)| item));
        }
        result.push(item);
    }
    result.extend(rest.map(|(_, item)| item));
    result
}

/// Checks that the patch's items occur in the requested order.
fn check_order(patched: &[Identity], order: &[Identity]) -> Result<(), PatchError> {
    let mut rest = order.iter();
    if patched.iter().all(|id| rest.any(|other| other == id)) {
        return Ok(());
    }
    Err(PatchError::Directive(
        "invalid patch format of setElementOrder list: expected the items of the patch in the same order"
            .into(),
    ))
}

fn identity(item: &Value, key: Option<&str>) -> Option<Identity> {
    match key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}

fn required_identity(item: &Value, key: Option<&str>) -> Result<Identity, PatchError> {
    identity(item, key).ok_or_else(|| no_merge_key(key.unwrap_or_default()))
}

fn identities(items: &[Value], key: Option<&str>) -> Result<Vec<Identity>, PatchError> {
    items.iter().map(|item| required_identity(item, key)).collect()
}

/// Returns the first position of each identity.
fn positions(ids: impl Iterator<Item = Identity>) -> HashMap<Identity, usize> {
    let mut positions = HashMap::new();
    for (position, id) in ids.enumerate() {
        positions.entry(id).or_insert(position);
    }
    positions
}

fn no_merge_key(key: &str) -> PatchError {
    PatchError::DoesNotApply(format!("map does not contain declared merge key: {key}"))
}
