//! Parser of the generated definitions.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Definition, DefinitionId, Field, ListType, PatchStrategy, Schema, Shape};

/// The parts of a definition or field that are parsed; descriptions are skipped.
#[derive(Deserialize)]
struct Source<'t> {
    #[serde(rename = "type")]
    kind: Option<&'t str>,
    format: Option<&'t str>,
    #[serde(rename = "$ref")]
    reference: Option<&'t str>,
    #[serde(rename = "allOf", default, borrow)]
    all_of: Vec<Source<'t>>,
    #[serde(borrow)]
    items: Option<Box<Source<'t>>>,
    #[serde(rename = "additionalProperties", borrow)]
    values: Option<Box<Source<'t>>>,
    #[serde(default, borrow)]
    properties: BTreeMap<&'t str, Source<'t>>,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: Option<&'t str>,
    #[serde(rename = "x-kubernetes-list-map-keys", default, borrow)]
    list_map_keys: Vec<&'t str>,
    #[serde(rename = "x-kubernetes-map-type")]
    map_type: Option<&'t str>,
    #[serde(rename = "x-kubernetes-patch-strategy", default)]
    patch_strategy: &'t str,
    #[serde(rename = "x-kubernetes-patch-merge-key")]
    patch_merge_key: Option<&'t str>,
    default: Option<&'t str>,
}

/// Parses the definitions.
///
/// # Panics
/// Panics if the embedded text is not the generator's output; a test parses it.
pub(super) fn load(text: &'static str) -> Schema {
    let sources: BTreeMap<&'static str, Source<'static>> =
        serde_json::from_str(text).expect("generated definitions");
    let names = Names {
        sorted: sources.keys().copied().collect(),
        free: sources
            .iter()
            .filter(|(_, source)| source.kind == Some("object") && source.properties.is_empty())
            .map(|(name, _)| *name)
            .collect(),
    };
    let definitions = sources
        .iter()
        .map(|(name, source)| Definition {
            name,
            is_atomic: source.map_type == Some("atomic"),
            fields: source
                .properties
                .iter()
                .map(|(name, source)| field(name, source, &names))
                .collect(),
        })
        .collect();
    Schema { definitions }
}

/// Names of all definitions, sorted, and of those without fields (free-form JSON).
struct Names {
    sorted: Vec<&'static str>,
    free: Vec<&'static str>,
}

fn field(name: &'static str, source: &Source<'static>, names: &Names) -> Field {
    Field {
        name,
        shape: shape(source, names),
        list: match source.list_type {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(source.list_map_keys.clone()),
            _ => ListType::Atomic,
        },
        is_atomic: source.map_type == Some("atomic"),
        patch: PatchStrategy {
            merges: source.patch_strategy.split(',').any(|option| option == "merge"),
            merge_key: source.patch_merge_key,
            retains_keys: source
                .patch_strategy
                .split(',')
                .any(|option| option == "retainKeys"),
        },
        default: source.default,
    }
}

fn shape(source: &Source<'static>, names: &Names) -> Shape {
    if let Some(reference) = source.reference.or_else(|| source.all_of.first()?.reference) {
        return resolve_reference(reference, names);
    }
    match (source.kind, source.format) {
        (Some("string"), Some("byte")) => Shape::Bytes,
        (Some("string"), _) => Shape::String,
        (Some("integer"), Some("int64")) => Shape::Int64,
        (Some("integer"), _) => Shape::Int32,
        (Some("number"), _) => Shape::Number,
        (Some("boolean"), _) => Shape::Boolean,
        (Some("array"), _) => Shape::List(Box::new(shape_or_free(source.items.as_deref(), names))),
        (Some("object"), _) if source.values.is_some() => {
            Shape::Map(Box::new(shape_or_free(source.values.as_deref(), names)))
        }
        _ => Shape::Free,
    }
}

fn shape_or_free(source: Option<&Source<'static>>, names: &Names) -> Shape {
    source.map_or(Shape::Free, |source| shape(source, names))
}

fn resolve_reference(reference: &str, names: &Names) -> Shape {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    match name {
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Shape::Time,
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Shape::MicroTime,
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Shape::Quantity,
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Shape::IntOrString,
        name if names.free.contains(&name) => Shape::Free,
        name => names
            .sorted
            .binary_search(&name)
            .ok()
            .and_then(|index| u16::try_from(index).ok())
            .map_or(Shape::Free, |index| Shape::Object(DefinitionId(index))),
    }
}
