//! Decides if a delete removes an object, marks it, or has no effect. Pure except for the time of the mark.

use api::kind::Kind;
use api::object::is_final_phase;
use api::tree::{child, is_set, items, number, object_mut, set, set_or_clear, text};
use serde_json::Value;

use super::{metadata_mut, new_object};
use crate::request::query::{DeleteOptions, Propagation};

/// Grace period of a Pod without `terminationGracePeriodSeconds`.
const POD_GRACE_SECONDS_DEFAULT: i64 = 30;

/// The effect of a delete.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// The object is removed.
    Remove,
    /// The object is stored with this deletion mark.
    Mark(Value),
    /// The object is marked already and does not change.
    Pending,
}

/// Decides about a delete of `object`.
pub(super) fn decide(kind: &Kind, object: &Value, options: &DeleteOptions) -> Decision {
    let metadata = child(object, "metadata");
    let grace_seconds = grace_seconds(kind, object, options);
    let finalizers = finalizers_for(kind, metadata, options.propagation);
    let has_finalizers = !finalizers.is_empty() || !items(child(object, "spec"), "finalizers").is_empty();
    if grace_seconds == 0 && !has_finalizers {
        return Decision::Remove;
    }
    if is_set(metadata, "deletionTimestamp") {
        // A further delete can only shorten the grace period.
        let is_shorter = grace_seconds < number(metadata, "deletionGracePeriodSeconds");
        if !is_shorter && finalizers == items(metadata, "finalizers") {
            return Decision::Pending;
        }
    }
    Decision::Mark(marked_for_deletion(kind, object, grace_seconds, finalizers))
}

/// Returns the last state of a removed object, for the response and for watches; `None` if that is the stored state. The
/// last state of a Pod has the mark of a deletion without grace period (upstream's `BeforeDelete`).
pub(super) fn removed_state(kind: &Kind, object: &Value) -> Option<Value> {
    (kind.kind == "Pod").then(|| marked_for_deletion(kind, object, 0, Vec::new()))
}

fn marked_for_deletion(kind: &Kind, object: &Value, grace_seconds: i64, finalizers: Vec<Value>) -> Value {
    let mut marked = object.clone();
    let is_first = !is_set(child(object, "metadata"), "deletionTimestamp");
    let metadata = metadata_mut(&mut marked);
    let earlier = number(metadata, "deletionGracePeriodSeconds");
    if is_first || grace_seconds < earlier {
        set(
            metadata,
            "deletionTimestamp",
            new_object::seconds_ahead(grace_seconds),
        );
        // As upstream: Namespaces have no grace period.
        if kind.kind != "Namespace" {
            set(metadata, "deletionGracePeriodSeconds", grace_seconds);
        }
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

/// Returns the grace period. Only Pods that were scheduled and have not finished have one.
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

/// Returns true if the dependents of an object stay after a delete without a propagation policy (upstream's
/// `DefaultGarbageCollectionPolicy`).
fn orphans_dependents(kind: &Kind) -> bool {
    matches!(kind.kind, "Job" | "ReplicationController")
}

/// Returns the finalizers, including the one that the propagation policy requires.
fn finalizers_for(kind: &Kind, metadata: &Value, propagation: Option<Propagation>) -> Vec<Value> {
    let mut finalizers = items(metadata, "finalizers").to_vec();
    let has_policy = finalizers
        .iter()
        .any(|finalizer| finalizer == "orphan" || finalizer == "foregroundDeletion");
    let policy_finalizer = match propagation {
        None if has_policy || !orphans_dependents(kind) => return finalizers,
        Some(Propagation::Background) => None,
        None | Some(Propagation::Orphan) => Some("orphan"),
        Some(Propagation::Foreground) => Some("foregroundDeletion"),
    };
    finalizers.retain(|finalizer| finalizer != "orphan" && finalizer != "foregroundDeletion");
    finalizers.extend(policy_finalizer.map(Value::from));
    finalizers
}

#[cfg(test)]
mod tests;
