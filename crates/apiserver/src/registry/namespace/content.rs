//! What is left in a Namespace that is being deleted, and how its conditions say so.

use std::collections::BTreeMap;

use api::kind::Kind;
use api::object::ObjectMeta;
use api::tree::{child, items, object_mut, text};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use store::Entry;

/// What is left.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Objects by resource and group.
    resources: BTreeMap<String, usize>,
    /// Objects by the finalizer that they wait for.
    finalizers: BTreeMap<String, usize>,
    /// Why kinds could not be deleted.
    pub(super) failures: Vec<String>,
}

impl Content {
    /// Counts the objects of a kind that are left.
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

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.failures.is_empty()
    }

    /// The Namespace with conditions that say what is left; `None` if they do already.
    pub(super) fn told(&self, namespace: &Value, now: Timestamp) -> Option<Value> {
        let before = items(child(namespace, "status"), "conditions");
        let conditions: Vec<Value> = self.conditions(before, now);
        if conditions == before {
            return None;
        }
        let mut told = namespace.clone();
        object_mut(&mut told, "status").insert("conditions".to_owned(), conditions.into());
        Some(told)
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
        let said = |text: &str| text.to_owned();
        let failed = condition(
            "NamespaceDeletionContentFailure",
            !self.failures.is_empty(),
            if self.failures.is_empty() {
                "ContentDeleted"
            } else {
                "ContentDeletionFailed"
            },
            match self.failures.as_slice() {
                [] => said("All content successfully deleted, may be waiting on finalization"),
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
                said("All content successfully removed"),
            ),
            Some(listed) => {
                let message = format!("Some resources are remaining: {listed}");
                condition("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
            }
        };
        let finalizers = match listed(&self.finalizers, "in") {
            None => {
                let message = said("All content-preserving finalizers finished");
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
        // All kinds are known here without asking anybody.
        let discovered = said("All resources successfully discovered");
        let parsed = said("All legacy kube types successfully parsed");
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

/// Names with their counts; `None` if there are none.
fn listed(counts: &BTreeMap<String, usize>, word: &str) -> Option<String> {
    let each: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} {word} {count} resource instances"))
        .collect();
    (!each.is_empty()).then(|| each.join(", "))
}

#[cfg(test)]
mod tests;
