//! Remaining content of a Namespace that is being deleted, and the conditions that report it.

use std::collections::BTreeMap;

use api::kind::Kind;
use api::object::ObjectMeta;
use api::tree::{child, items, object_mut, text};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use store::Entry;

/// Counts of remaining objects.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Remaining objects by `RESOURCE.GROUP`.
    resources: BTreeMap<String, usize>,
    /// Remaining objects by finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Errors of kinds whose objects could not be deleted.
    pub(super) failures: Vec<String>,
}

impl Content {
    /// Adds the remaining objects of a kind.
    pub(super) fn add(&mut self, kind: &Kind, entries: &[Entry]) {
        #[derive(Deserialize)]
        struct Object {
            metadata: ObjectMeta,
        }
        if entries.is_empty() {
            return;
        }
        let resource = format!("{}.{}", kind.plural, kind.group);
        self.resources.insert(resource, entries.len());
        for entry in entries {
            let object = serde_json::from_slice::<Object>(&entry.value);
            for finalizer in object.into_iter().flat_map(|object| object.metadata.finalizers) {
                *self.finalizers.entry(finalizer).or_default() += 1;
            }
        }
    }

    /// Returns true if no objects remain and no kind failed.
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.failures.is_empty()
    }

    /// Returns the Namespace with conditions that report the content; `None` if they are unchanged.
    pub(super) fn with_conditions(&self, namespace: &Value, now: Timestamp) -> Option<Value> {
        let before = items(child(namespace, "status"), "conditions");
        let conditions: Vec<Value> = self.conditions(before, now);
        if conditions == before {
            return None;
        }
        let mut changed = namespace.clone();
        object_mut(&mut changed, "status").insert("conditions".to_owned(), conditions.into());
        Some(changed)
    }

    fn conditions(&self, before: &[Value], now: Timestamp) -> Vec<Value> {
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let states = [
            // Discovery cannot fail: the server has all kinds itself.
            Condition::new_false(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            Condition::new_false(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            self.deletion_failure(),
            self.remaining_content(),
            self.remaining_finalizers(),
        ];
        let to_json = |condition: Condition| condition.into_json(before, &time);
        states.into_iter().map(to_json).collect()
    }

    fn deletion_failure(&self) -> Condition {
        const TYPE: &str = "NamespaceDeletionContentFailure";
        let failures = &self.failures;
        if failures.is_empty() {
            let message = "All content successfully deleted, may be waiting on finalization";
            return Condition::new_false(TYPE, "ContentDeleted", message);
        }
        let message = format!(
            "Failed to delete all resource types, {} remaining: {}",
            failures.len(),
            failures.join("; ")
        );
        Condition::new_true(TYPE, "ContentDeletionFailed", message)
    }

    fn remaining_content(&self) -> Condition {
        const TYPE: &str = "NamespaceContentRemaining";
        match list_with_counts(&self.resources, "has") {
            None => Condition::new_false(TYPE, "ContentRemoved", "All content successfully removed"),
            Some(listed) => {
                let message = format!("Some resources are remaining: {listed}");
                Condition::new_true(TYPE, "SomeResourcesRemain", message)
            }
        }
    }

    fn remaining_finalizers(&self) -> Condition {
        const TYPE: &str = "NamespaceFinalizersRemaining";
        match list_with_counts(&self.finalizers, "in") {
            None => {
                let message = "All content-preserving finalizers finished";
                Condition::new_false(TYPE, "ContentHasNoFinalizers", message)
            }
            Some(listed) => {
                let message = format!("Some content in the namespace has finalizers remaining: {listed}");
                Condition::new_true(TYPE, "SomeFinalizersRemain", message)
            }
        }
    }
}

/// An entry of `status.conditions`, with upstream's reasons and messages.
struct Condition {
    condition_type: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn new_true(condition_type: &'static str, reason: &'static str, message: String) -> Condition {
        Condition {
            condition_type,
            status: "True",
            reason,
            message,
        }
    }

    fn new_false(condition_type: &'static str, reason: &'static str, message: &str) -> Condition {
        Condition {
            condition_type,
            status: "False",
            reason,
            message: message.to_owned(),
        }
    }

    /// Encodes the condition. The transition time of `before` is kept if the status is the same.
    fn into_json(self, before: &[Value], now: &str) -> Value {
        let mut earlier = before.iter();
        let earlier = earlier.find(|condition| text(condition, "type") == self.condition_type);
        let unchanged = earlier.filter(|earlier| text(earlier, "status") == self.status);
        let since = unchanged.map_or(now, |earlier| text(earlier, "lastTransitionTime"));
        json!({
            "type": self.condition_type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since,
        })
    }
}

/// Returns names with their counts; `None` without names.
fn list_with_counts(counts: &BTreeMap<String, usize>, word: &str) -> Option<String> {
    let each: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} {word} {count} resource instances"))
        .collect();
    (!each.is_empty()).then(|| each.join(", "))
}

#[cfg(test)]
mod tests;
