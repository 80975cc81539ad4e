//! Whether a delete removes an object now, marks it, or changes nothing. Pure but for the time of the mark.

use api::kind::Kind;
use api::object::is_final_phase;
use api::tree::{child, is_set, items, number, object_mut, set, set_or_clear, text};
use serde_json::Value;

use super::{birth, metadata_mut};
use crate::request::query::{DeleteOptions, Propagation};

/// Time that a Pod gets which does not say how much it needs.
const POD_GRACE_SECONDS_DEFAULT: i64 = 30;

/// What a delete does.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// The object goes.
    Remove,
    /// It stays, marked as being deleted.
    Mark(Value),
    /// It is marked already; nothing changes.
    Pending,
}

/// Judges a delete of `object`.
pub(super) fn judge(kind: &Kind, object: &Value, options: &DeleteOptions) -> Verdict {
    let metadata = child(object, "metadata");
    let grace_seconds = grace_seconds(kind, object, options);
    let finalizers = finalizers_for(metadata, options.propagation);
    let held_back = !finalizers.is_empty() || !items(child(object, "spec"), "finalizers").is_empty();
    if grace_seconds == 0 && !held_back {
        return Verdict::Remove;
    }
    if is_set(metadata, "deletionTimestamp") {
        // A delete that goes on can only be shortened.
        let is_shorter = grace_seconds < number(metadata, "deletionGracePeriodSeconds");
        if !is_shorter && finalizers == items(metadata, "finalizers") {
            return Verdict::Pending;
        }
    }
    Verdict::Mark(marked(kind, object, grace_seconds, finalizers))
}

fn marked(kind: &Kind, object: &Value, grace_seconds: i64, finalizers: Vec<Value>) -> Value {
    let mut marked = object.clone();
    let is_first = !is_set(child(object, "metadata"), "deletionTimestamp");
    let metadata = metadata_mut(&mut marked);
    let earlier = number(metadata, "deletionGracePeriodSeconds");
    if is_first || grace_seconds < earlier {
        set(metadata, "deletionTimestamp", birth::seconds_ahead(grace_seconds));
        set(metadata, "deletionGracePeriodSeconds", grace_seconds);
    }
    let generation = number(metadata, "generation");
    if is_first && generation > 0 {
        set(metadata, "generation", generation + 1);
    }
    let finalizers = (!finalizers.is_empty()).then_some(Value::Array(finalizers));
    set_or_clear(metadata, "finalizers", finalizers);
    if kind.kind == "Namespace" {
        object_mut(&mut marked, "status").insert("phase".to_owned(), "Terminating".into());
    }
    marked
}

/// The time that the object gets: only Pods that run somewhere need any.
fn grace_seconds(kind: &Kind, object: &Value, options: &DeleteOptions) -> i64 {
    if kind.kind != "Pod" {
        return 0;
    }
    let (spec, status) = (child(object, "spec"), child(object, "status"));
    if text(spec, "nodeName").is_empty() || is_final_phase(text(status, "phase")) {
        return 0;
    }
    let own = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    options
        .grace_period_seconds
        .or(own)
        .unwrap_or(POD_GRACE_SECONDS_DEFAULT)
        .max(0)
}

/// The finalizers with those that the propagation asks for.
fn finalizers_for(metadata: &Value, propagation: Option<Propagation>) -> Vec<Value> {
    let mut finalizers = items(metadata, "finalizers").to_vec();
    let wanted = match propagation {
        None => return finalizers,
        Some(Propagation::Background) => None,
        Some(Propagation::Orphan) => Some("orphan"),
        Some(Propagation::Foreground) => Some("foregroundDeletion"),
    };
    finalizers.retain(|finalizer| finalizer != "orphan" && finalizer != "foregroundDeletion");
    finalizers.extend(wanted.map(Value::from));
    finalizers
}

#[cfg(test)]
mod tests;
