//! Merging lists of a strategic merge patch.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::PatchError;
use super::strategic::{PATCH, merge_object, unknown_directive};
use crate::machinery::schema::Shape;

/// What an item is told apart by: its merge key's value, or itself; as JSON text.
type Identity = String;

/// Merges the items of a patch into a list. The items of the patch (or those that `order` names) come out in its
/// order, the others in the order they had, and both are interleaved by where they stood before.
pub(super) fn merge(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    order: Option<Vec<Value>>,
    merge_key: Option<&str>,
    shape: &Shape,
) -> Result<Vec<Value>, PatchError> {
    let key = element_key(original.iter().chain(&patch), merge_key)?;
    let Directed {
        items,
        deleted,
        replaces,
    } = directed(patch, key)?;
    if replaces {
        return items
            .into_iter()
            .map(|item| merged(Value::Null, item, shape))
            .collect();
    }
    if !deleted.is_empty() {
        original.retain(|item| identity(item, key).is_none_or(|id| !deleted.contains_key(&id)));
    }
    let patched = identities(&items, key)?;
    let wanted = match order {
        None => patched,
        Some(order) => {
            let wanted = identities(&order, key)?;
            check_order(&patched, &wanted)?;
            wanted
        }
    };
    let before = positions(original.iter().filter_map(|item| identity(item, key)));
    let list = merge_items(original, items, key, shape)?;
    Ok(arrange(list, &wanted, &before, key))
}

/// The key that tells items apart: none for plain values. Objects need one, and lists in lists have none.
fn element_key<'k, 'v>(
    items: impl Iterator<Item = &'v Value>,
    merge_key: Option<&'k str>,
) -> Result<Option<&'k str>, PatchError> {
    let (mut objects, mut plain) = (false, false);
    for item in items {
        match item {
            Value::Object(_) => objects = true,
            Value::Array(_) => {
                return Err(PatchError::DoesNotApply(
                    "lists of lists are not supported".into(),
                ));
            }
            _ => plain = true,
        }
    }
    match (objects, plain, merge_key) {
        (true, true, _) => Err(PatchError::Directive(
            "list element types are not identical".into(),
        )),
        (true, false, None) => Err(no_merge_key("")),
        (true, false, Some(key)) => Ok(Some(key)),
        (false, _, _) => Ok(None),
    }
}

/// A patch's list after its items with directives were taken out.
struct Directed {
    items: Vec<Value>,
    deleted: HashMap<Identity, usize>,
    replaces: bool,
}

fn directed(patch: Vec<Value>, key: Option<&str>) -> Result<Directed, PatchError> {
    let mut items = Vec::with_capacity(patch.len());
    let mut deleted = Vec::new();
    let mut replaces = false;
    for item in patch {
        match item.get(PATCH) {
            None => items.push(item),
            Some(Value::String(word)) => match word.as_str() {
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
    Ok(Directed {
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
        // Plain values: each stays once, where it first stood.
        list.extend(patch);
        let mut seen = HashMap::new();
        list.retain(|item| seen.insert(item.to_string(), ()).is_none());
        return Ok(list);
    }
    let mut at: HashMap<Identity, usize> = HashMap::new();
    for (position, item) in list.iter().enumerate() {
        if let Some(id) = identity(item, key) {
            at.entry(id).or_insert(position);
        }
    }
    for item in patch {
        let id = required_identity(&item, key)?;
        match at.get(&id).and_then(|position| list.get_mut(*position)) {
            Some(slot) => *slot = merged(slot.take(), item, shape)?,
            None => {
                at.insert(id, list.len());
                list.push(merged(Value::Null, item, shape)?);
            }
        }
    }
    Ok(list)
}

/// An item merged into its counterpart, or by itself, which takes its directives away.
fn merged(before: Value, item: Value, shape: &Shape) -> Result<Value, PatchError> {
    match (before, item) {
        (Value::Object(before), Value::Object(item)) => merge_object(before, item, shape).map(Value::Object),
        (_, Value::Object(item)) => merge_object(Map::new(), item, shape).map(Value::Object),
        (_, item) => Ok(item),
    }
}

/// The order: what is `wanted` in its order, the rest as `before`, interleaved.
fn arrange(
    list: Vec<Value>,
    wanted: &[Identity],
    before: &HashMap<Identity, usize>,
    key: Option<&str>,
) -> Vec<Value> {
    let wanted = positions(wanted.iter().cloned());
    let mut ordered = Vec::new();
    let mut rest = Vec::new();
    for item in list {
        let id = identity(&item, key);
        let stood = id.as_ref().and_then(|id| before.get(id)).copied();
        match id.as_ref().and_then(|id| wanted.get(id)) {
            Some(position) => ordered.push((*position, stood, item)),
            None => rest.push((stood, item)),
        }
    }
    ordered.sort_by_key(|(position, ..)| *position);
    let mut result = Vec::with_capacity(ordered.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for (_, stood, item) in ordered {
        while let Some((other, _)) = rest.peek()
            && matches!((other, stood), (Some(other), Some(stood)) if *other < stood)
        {
            result.extend(rest.next().map(|(_, item)| item));
        }
        result.push(item);
    }
    result.extend(rest.map(|(_, item)| item));
    result
}

/// The patch's items must all stand in the order it sets, in that order.
fn check_order(patched: &[Identity], wanted: &[Identity]) -> Result<(), PatchError> {
    let mut rest = wanted.iter();
    if patched.iter().all(|id| rest.any(|other| other == id)) {
        return Ok(());
    }
    Err(PatchError::Directive(
        "invalid patch format of setElementOrder list: the items of the patch must stand in it in the same order".into(),
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

/// Where each identity stands first.
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
