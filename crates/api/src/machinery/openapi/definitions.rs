//! OpenAPI definitions, as lines of the generated text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use crate::kinds::kind::Kind;
use crate::machinery::schema::DEFINITIONS_TEXT;

const REFERENCE: &str = "\"$ref\":\"#/components/schemas/";

/// Definitions that all kinds use.
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// Returns the lines `"name":{…}` of all definitions that the kinds, their lists and the common requests refer to,
/// sorted by name.
pub(super) fn reachable_from(kinds: &[&Kind]) -> Vec<&'static str> {
    let lines = lines();
    let mut reachable = BTreeSet::new();
    let mut pending: Vec<String> = [DELETE_OPTIONS, PATCH, STATUS].map(str::to_owned).to_vec();
    for kind in kinds {
        pending.push(kind.definition.to_owned());
        if kind.is_stored() {
            pending.push(list_definition(kind));
        }
        let sent = kind
            .subresources
            .iter()
            .filter_map(|subresource| subresource.body_kind);
        pending.extend(sent.map(|kind| kind.definition.to_owned()));
    }
    while let Some(name) = pending.pop() {
        let Some((name, line)) = lines.get_key_value(name.as_str()) else {
            continue;
        };
        if reachable.insert(*name) {
            pending.extend(references(line).map(str::to_owned));
        }
    }
    reachable
        .iter()
        .filter_map(|name| lines.get(name).copied())
        .collect()
}

/// Returns the name of the list definition of a kind.
pub(super) fn list_definition(kind: &Kind) -> String {
    let package = kind.definition.strip_suffix(kind.kind).unwrap_or(kind.definition);
    format!("{package}{}", kind.list_kind)
}

/// Returns the lines by definition name. The generator writes one definition in each line, after a brace or a comma.
fn lines() -> &'static BTreeMap<&'static str, &'static str> {
    static LINES: OnceLock<BTreeMap<&'static str, &'static str>> = OnceLock::new();
    LINES.get_or_init(|| {
        DEFINITIONS_TEXT
            .lines()
            .filter_map(|line| line.strip_prefix(['{', ',']))
            .filter_map(|line| Some((line.strip_prefix('"')?.split('"').next()?, line)))
            .collect()
    })
}

fn references(line: &str) -> impl Iterator<Item = &str> {
    line.split(REFERENCE)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
}
