//! Merge of lists in a strategic merge patch.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::PatchError;
use super::go_notation::{go_notation, list_notation};
use super::strategic::{PATCH, merge_object, unknown_directive};
use crate::machinery::schema::Shape;

/// Maximum number of items of a patch that are merged into one item. Each of them can take the time of a long list within it.
const MERGES_MAX: usize = 100;

/// Identity of a list item, as JSON text: the value of its merge key, or the item itself.
type Identity = String;

/// Merges the items of a patch into a list. Items of the patch, or of `order`, follow the order of the patch or of
/// `order`. The others keep their order. The previous positions determine the order of both groups together.
pub(super) fn merge(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    order: Option<Vec<Value>>,
    merge_key: Option<&str>,
    shape: &Shape,
) -> Result<Vec<Value>, PatchError> {
    let key = element_key(&original, &patch, merge_key)?;
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
            let identities = identities(&order, key)?;
            if !has_order(&patched, &identities) {
                return Err(other_order(&items, &order));
            }
            identities
        }
    };
    let previous = positions(original.iter().filter_map(|item| identity(item, key)));
    let list = merge_items(original, items, key, shape)?;
    Ok(arrange(list, &order, &previous, key))
}

/// Returns the merge key; `None` for lists of scalars. Objects need a merge key, and lists of lists are not
/// supported.
fn element_key<'k>(
    original: &[Value],
    patch: &[Value],
    merge_key: Option<&'k str>,
) -> Result<Option<&'k str>, PatchError> {
    let (mut has_objects, mut has_lists, mut has_scalars) = (false, false, false);
    for item in original.iter().chain(patch) {
        match item {
            Value::Object(_) => has_objects = true,
            Value::Array(_) => has_lists = true,
            _ => has_scalars = true,
        }
    }
    match (has_objects, has_lists || has_scalars, merge_key) {
        (true, true, _) => Err(PatchError::Unhandled(format!(
            "list element types are not identical: [{} {}]",
            list_notation(original),
            list_notation(patch)
        ))),
        (true, false, None) => Err(PatchError::Unhandled(
            "expected a list whose items have a merge key".into(),
        )),
        (true, false, Some(key)) => Ok(Some(key)),
        (false, ..) if has_lists => Err(PatchError::DoesNotApply(
            "lists of lists are not supported".into(),
        )),
        (false, ..) => Ok(None),
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
                    return Err(PatchError::Unhandled(
                        "merging lists cannot yet be specified in the patch".into(),
                    ));
                }
                _ => return Err(unknown_directive(&item)),
            },
            Some(_) => return Err(unknown_directive(&item)),
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
    let mut merges: HashMap<usize, usize> = HashMap::new();
    for item in patch {
        let id = required_identity(&item, key)?;
        if let Some(position) = index.get(&id).copied()
            && let Some(slot) = list.get_mut(position)
        {
            let count = merges.entry(position).or_default();
            *count += 1;
            if *count > MERGES_MAX {
                return Err(PatchError::TooLarge(format!(
                    "the patch has more than {MERGES_MAX} items with the same merge key"
                )));
            }
            *slot = merge_item(slot.take(), item, shape)?;
        } else {
            index.insert(id, list.len());
            list.push(merge_item(Value::Null, item, shape)?);
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

/// Returns true if the patch's items occur in the requested order.
fn has_order(patched: &[Identity], order: &[Identity]) -> bool {
    let mut rest = order.iter();
    patched.iter().all(|id| rest.any(|other| other == id))
}

fn other_order(patch: &[Value], order: &[Value]) -> PatchError {
    PatchError::Unhandled(format!(
        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
        list_notation(patch),
        list_notation(order)
    ))
}

fn identity(item: &Value, key: Option<&str>) -> Option<Identity> {
    match key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}

fn required_identity(item: &Value, key: Option<&str>) -> Result<Identity, PatchError> {
    identity(item, key).ok_or_else(|| {
        let (item, key) = (go_notation(item), key.unwrap_or_default());
        PatchError::Unhandled(format!("map: {item} does not contain declared merge key: {key}"))
    })
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
