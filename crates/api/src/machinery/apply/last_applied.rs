//! Migration from client-side `kubectl apply`, which stores its configuration in an annotation.

use serde_json::Value;

use super::application::Application;
use super::compare::Comparison;
use super::conflict::Conflict;
use super::field_set::FieldSet;
use super::layout::{Layout, fields_of};
use super::{WriteAuthor, check};
use crate::kinds::kind::Kind;
use crate::machinery::tree::{child, clear, set, text_if_set};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Manager that owns the annotation.
const KUBECTL: &str = "kubectl";

/// Returns the conflicts that remain for kubectl: a field that it applied itself, and that has not changed since, does
/// not conflict.
pub(super) fn without_allowed(mut conflicts: Vec<Conflict>, application: &Application<'_>) -> Vec<Conflict> {
    if application.author.manager == KUBECTL
        && let Some(allowed) = unchanged_fields(application.live, application.author.kind)
    {
        conflicts.retain(|conflict| !conflict.fields.difference(&allowed).is_empty());
    }
    conflicts
}

/// Returns the fields that equal the annotation; `None` without a valid annotation.
fn unchanged_fields(live: &Value, kind: &Kind) -> Option<FieldSet> {
    let last = last_applied(live).filter(|last| check::errors(last, kind).is_empty())?;
    let layout = Layout::of_kind(kind);
    let comparison = Comparison::of(&last, live, layout);
    let changed = comparison.written().union(&comparison.removed);
    Some(fields_of(&last, layout).difference(&changed))
}

/// Updates an existing annotation.
pub(super) fn renew(object: &mut Value, application: &Application<'_>, configuration: &Value) {
    let WriteAuthor {
        manager, subresource, ..
    } = application.author;
    if manager != KUBECTL || subresource.is_some() || last_applied(application.live).is_none() {
        return;
    }
    let mut applied = configuration.clone();
    if let Some(metadata) = applied.get_mut("metadata") {
        if let Some(annotations) = metadata.get_mut("annotations") {
            clear(annotations, ANNOTATION);
        }
        clear(metadata, "managedFields");
    }
    applied.sort_all_objects();
    let annotations = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations {
        set(annotations, ANNOTATION, format!("{applied}\n"));
    }
}

fn last_applied(live: &Value) -> Option<Value> {
    let annotations = child(child(live, "metadata"), "annotations");
    serde_json::from_str(text_if_set(annotations, ANNOTATION)?).ok()
}
