//! The way from `kubectl apply`, which keeps what it applied in an annotation, to server-side apply.

use serde_json::Value;

use super::application::Application;
use super::check;
use super::compare::Comparison;
use super::conflict::Conflict;
use super::layout::fields_of;
use crate::tree::{child, clear, set, text_if_set};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that the annotation belongs to.
const KUBECTL: &str = "kubectl";

/// The conflicts that are left for kubectl: a field that it applied itself, and that still is as it applied it, is
/// its own.
pub(super) fn without_allowed(mut conflicts: Vec<Conflict>, application: &Application<'_>) -> Vec<Conflict> {
    if let Some(last) = last_applied(application)
        && check::faults(&last, application.author.kind).is_empty()
    {
        let comparison = Comparison::of(&last, application.live, application.layout);
        let changed = comparison.written().union(&comparison.removed);
        let allowed = fields_of(&last, application.layout).difference(&changed);
        conflicts.retain(|conflict| !conflict.fields.difference(&allowed).is_empty());
    }
    conflicts
}

/// Keeps the annotation true where there is one.
pub(super) fn renew(object: &mut Value, application: &Application<'_>, configuration: &Value) {
    if last_applied(application).is_none() || application.author.subresource.is_some() {
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

fn last_applied(application: &Application<'_>) -> Option<Value> {
    if application.author.manager != KUBECTL {
        return None;
    }
    let annotations = child(child(application.live, "metadata"), "annotations");
    serde_json::from_str(text_if_set(annotations, ANNOTATION)?).ok()
}
