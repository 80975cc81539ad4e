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

    /// True if no objects remain and no kind failed.
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
        let condition = |kind: &str, holds: bool, reason: &str, message: String| {
            let status = if holds { "True" } else { "False" };
            let known = before.iter().find(|condition| text(condition, "type") == kind);
            let since = known.filter(|known| text(known, "status") == status);
            let since = since.map_or(&*time, |known| text(known, "lastTransitionTime"));
            json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
        };
        let owned = |text: &str| text.to_owned();
        let failed = condition(
            "NamespaceDeletionContentFailure",
            !self.failures.is_empty(),
            if self.failures.is_empty() {
                "ContentDeleted"
            } else {
                "ContentDeletionFailed"
            },
            match self.failures.as_slice() {
                [] => owned("All content successfully deleted, may be waiting on finalization"),
                failures => format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    failures.len(),
                    failures.join("; ")
                ),
            },
        );
        let remaining = match listed(&self.resources, "has") {
            None => condition(
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                owned("All content successfully removed"),
            ),
            Some(listed) => {
                let message = format!("Some resources are remaining: {listed}");
                condition("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
            }
        };
        let finalizers = match listed(&self.finalizers, "in") {
            None => {
                let message = owned("All content-preserving finalizers finished");
                condition(
                    "NamespaceFinalizersRemaining",
                    false,
                    "ContentHasNoFinalizers",
                    message,
                )
            }
            Some(listed) => {
                let message = format!("Some content in the namespace has finalizers remaining: {listed}");
                condition(
                    "NamespaceFinalizersRemaining",
                    true,
                    "SomeFinalizersRemain",
                    message,
                )
            }
        };
        // Discovery cannot fail: the server has all kinds itself.
        let discovered = owned("All resources successfully discovered");
        let parsed = owned("All legacy kube types successfully parsed");
        vec![
            condition(
                "NamespaceDeletionDiscoveryFailure",
                false,
                "ResourcesDiscovered",
                discovered,
            ),
            condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                false,
                "ParsedGroupVersions",
                parsed,
            ),
            failed,
            remaining,
            finalizers,
        ]
    }
}

/// Returns names with their counts; `None` without names.
fn listed(counts: &BTreeMap<String, usize>, word: &str) -> Option<String> {
    let each: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} {word} {count} resource instances"))
        .collect();
    (!each.is_empty()).then(|| each.join(", "))
}

#[cfg(test)]
mod tests;
