//! Strategic merge patch: a merge patch with directives, which merges lists where the schema specifies it.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::go_notation::{go_notation, string_notation};
use super::{PatchError, list};
use crate::kinds::kind::Kind;
use crate::machinery::schema::{Definition, PatchStrategy, Shape, schema};

/// `$patch: replace | delete | merge`, in an object or an item of a list.
pub(super) const PATCH: &str = "$patch";
/// `$retainKeys: [...]`: the only fields that remain.
const RETAIN_KEYS: &str = "$retainKeys";
/// `$setElementOrder/field: [...]`: the order of a merged list.
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
/// `$deleteFromPrimitiveList/field: [...]`: scalars to remove from a list.
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList/";

static FREE: Shape = Shape::Free;
static NO_STRATEGY: PatchStrategy = PatchStrategy {
    merges: false,
    merge_key: None,
    retains_keys: false,
};

/// Applies a strategic merge patch to an object of a kind.
pub(super) fn apply(object: Value, patch: Value, kind: &Kind) -> Result<Value, PatchError> {
    let shape = schema().shape(kind.definition).unwrap_or(Shape::Free);
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            let mut patched = merge_object(object, patch, &shape)?;
            // As upstream, which decodes the result as an object of the known kind.
            let identity = [("apiVersion", kind.api_version()), ("kind", kind.kind.to_owned())];
            for (field, value) in identity {
                if patched.get(field).is_some_and(Value::is_string) {
                    patched.insert(field.to_owned(), value.into());
                }
            }
            Ok(Value::Object(patched))
        }
        (object, _) => Ok(object),
    }
}

/// Merges a patch into an object of `shape`.
pub(super) fn merge_object(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    shape: &Shape,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.shift_remove(PATCH) {
        match directive.as_str() {
            // The rest of the patch becomes the new value.
            Some("replace") => original = Map::new(),
            Some("delete") => return Ok(Map::new()),
            _ => {
                patch.insert(PATCH.to_owned(), directive);
                return Err(unknown_directive(&Value::Object(patch)));
            }
        }
    }
    if let Some(keys) = patch.shift_remove(RETAIN_KEYS) {
        retain(&mut original, &patch, &keys)?;
    }
    let orders = take_orders(&mut patch)?;
    let deletions = take_prefixed(&mut patch, DELETE_FROM_PRIMITIVE_LIST);
    merge_ordered_lists(&mut original, &mut patch, orders, shape)?;
    for (name, values) in deletions {
        match (original.get_mut(&name), values) {
            (Some(Value::Array(items)), Value::Array(values)) => {
                let values: HashSet<String> = values.iter().map(Value::to_string).collect();
                items.retain(|item| !values.contains(&item.to_string()));
            }
            // As upstream: `null` removes the list, and other types have no effect.
            (Some(_), Value::Null) => {
                patch.entry(name).or_insert(Value::Null);
            }
            _ => {}
        }
    }
    remove_null_fields(&mut original, &mut patch);
    for (name, value) in patch {
        merge_field(&mut original, name, value, shape)?;
    }
    Ok(original)
}

/// Merges the lists whose order the patch specifies (`$setElementOrder`), and removes them from the patch.
fn merge_ordered_lists(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    orders: Vec<(String, Vec<Value>)>,
    shape: &Shape,
) -> Result<(), PatchError> {
    for (name, order) in orders {
        if let Some(definition) = shape.definition(schema())
            && definition.field(&name).is_none()
        {
            return Err(unknown_field(definition, &name));
        }
        let (inner, strategy) = field_strategy(shape, &name);
        if !strategy.merges {
            continue;
        }
        let items_to_merge = match patch.shift_remove(&name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            // `null` clears the list; other types replace it.
            Some(other) => {
                patch.insert(name, other);
                continue;
            }
        };
        match original.get_mut(&name) {
            Some(Value::Array(items)) => {
                *items = list::merge(
                    std::mem::take(items),
                    items_to_merge,
                    Some(order),
                    strategy.merge_key,
                    item(inner),
                )?;
            }
            _ if items_to_merge.is_empty() => {}
            _ => {
                let items = list::merge(
                    Vec::new(),
                    items_to_merge,
                    Some(order),
                    strategy.merge_key,
                    item(inner),
                )?;
                original.insert(name, Value::Array(items));
            }
        }
    }
    Ok(())
}

/// Removes the fields that the patch sets to `null` from both maps. One pass suffices; single removals would shift
/// the remaining fields each time.
fn remove_null_fields(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) {
    if patch.values().any(Value::is_null) {
        original.retain(|name, _| patch.get(name).is_none_or(|value| !value.is_null()));
        patch.retain(|_, value| !value.is_null());
    }
}

fn merge_field(
    original: &mut Map<String, Value>,
    name: String,
    patch: Value,
    shape: &Shape,
) -> Result<(), PatchError> {
    let (inner, strategy) = field_strategy(shape, &name);
    let merged = match (original.get_mut(&name), patch) {
        // As upstream: a field that the object lacks is taken from the patch as it is, without `null` and directives.
        (None, mut patch) => {
            drop_directives(&mut patch);
            patch
        }
        (Some(Value::Object(previous)), Value::Object(patch)) => {
            Value::Object(merge_object(std::mem::take(previous), patch, inner)?)
        }
        (Some(Value::Array(previous)), Value::Array(patch)) if strategy.merges => {
            let (previous, key) = (std::mem::take(previous), strategy.merge_key);
            Value::Array(list::merge(previous, patch, None, key, item(inner))?)
        }
        // Replaced as a whole. Directives within have no effect, and the schema check drops them.
        (Some(_), other) => other,
    };
    original.insert(name, merged);
    Ok(())
}

/// Drops `null` fields, directives, and list items that are directives, level by level.
fn drop_directives(value: &mut Value) {
    let is_directive = |name: &str| {
        [PATCH, RETAIN_KEYS].contains(&name)
            || [SET_ELEMENT_ORDER, DELETE_FROM_PRIMITIVE_LIST]
                .iter()
                .any(|prefix| name.starts_with(prefix))
    };
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| !value.is_null() && !is_directive(name));
                pending.extend(fields.values_mut());
            }
            Value::Array(items) => {
                items.retain(|item| {
                    !matches!(
                        item.get(PATCH).and_then(Value::as_str),
                        Some("delete" | "replace")
                    )
                });
                pending.extend(items);
            }
            _ => {}
        }
    }
}

/// Returns shape and patch strategy of a field of `shape`.
fn field_strategy<'s>(shape: &'s Shape, name: &str) -> (&'s Shape, &'s PatchStrategy) {
    let field = shape
        .definition(schema())
        .and_then(|definition| definition.field(name));
    match (field, shape) {
        (Some(field), _) => (&field.shape, &field.patch),
        (None, Shape::Map(inner)) => (inner, &NO_STRATEGY),
        (None, _) => (&FREE, &NO_STRATEGY),
    }
}

fn item(shape: &Shape) -> &Shape {
    match shape {
        Shape::List(inner) => inner,
        _ => &FREE,
    }
}

/// Clears the fields that `$retainKeys` does not list. The patch may not set such fields.
fn retain(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    keys: &Value,
) -> Result<(), PatchError> {
    let invalid = || PatchError::Directive("invalid patch format of retainKeys".into());
    let keys: Option<HashSet<&str>> = keys
        .as_array()
        .ok_or_else(invalid)?
        .iter()
        .map(Value::as_str)
        .collect();
    let keys = keys.ok_or_else(invalid)?;
    let sets_others = patch
        .iter()
        .any(|(name, value)| !name.starts_with('$') && !value.is_null() && !keys.contains(name.as_str()));
    if sets_others {
        return Err(invalid());
    }
    original.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// Removes the directives with `prefix` from the patch. Returns the field and the value of each.
fn take_prefixed(patch: &mut Map<String, Value>, prefix: &str) -> Vec<(String, Value)> {
    if !patch.keys().any(|name| name.starts_with(prefix)) {
        return Vec::new();
    }
    let (directives, fields): (Map<_, _>, Map<_, _>) = std::mem::take(patch)
        .into_iter()
        .partition(|(name, _)| name.starts_with(prefix));
    *patch = fields;
    let without_prefix = |(name, value): (String, Value)| (name[prefix.len()..].to_owned(), value);
    directives.into_iter().map(without_prefix).collect()
}

/// Removes the orders of lists from the patch. Each is a list.
fn take_orders(patch: &mut Map<String, Value>) -> Result<Vec<(String, Vec<Value>)>, PatchError> {
    let parse = |(name, order): (String, Value)| match order {
        Value::Array(items) => Ok((name, items)),
        _ => Err(PatchError::Directive(format!(
            "invalid patch format of {SET_ELEMENT_ORDER}{name}: expected a list"
        ))),
    };
    let orders = take_prefixed(patch, SET_ELEMENT_ORDER);
    orders.into_iter().map(parse).collect()
}

/// Returns the error for the order of a list that the type lacks.
fn unknown_field(definition: &Definition, name: &str) -> PatchError {
    let owner = definition.short_name();
    PatchError::Unhandled(format!(
        "unable to find api field in struct {owner} for the json field {name:?}"
    ))
}

/// Returns the error for an unknown value of `$patch` in an object of a patch.
pub(super) fn unknown_directive(object: &Value) -> PatchError {
    let directive = string_notation(object.get(PATCH).unwrap_or(&Value::Null));
    let object = go_notation(object);
    PatchError::Unhandled(format!("unknown patch type: {directive} in map: {object}"))
}
