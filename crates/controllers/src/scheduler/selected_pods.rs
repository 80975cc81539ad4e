//! The Pods that terms of an affinity and topology spread constraints select.

use super::affinity::{Namespaces, PodTerm, SpreadConstraint};
use super::cached_pod::PlacementFacts;

impl PodTerm {
    /// Returns true if the term of `owner` selects `pod`.
    pub(crate) fn selects(
        &self,
        owner: &PlacementFacts,
        pod: &PlacementFacts,
        namespaces: &Namespaces,
    ) -> bool {
        let namespace = pod.namespace();
        let selects_namespace = if self.namespaces.is_empty() && self.namespace_selector.is_absent() {
            owner.namespace() == namespace
        } else {
            let labels = namespaces.get(namespace);
            self.namespaces.iter().any(|name| name == namespace)
                || labels.is_some_and(|labels| {
                    self.namespace_selector
                        .matches(|key| labels.get(key).map(String::as_str))
                })
        };
        let (own, other) = (owner.labels(), pod.labels());
        let is_shared = |key: &String| own.get(key).is_none_or(|value| other.get(key) == Some(value));
        let is_different = |key: &String| own.get(key).is_none_or(|value| other.get(key) != Some(value));
        selects_namespace
            && self.label_selector.matches(|key| other.get(key))
            && self.match_label_keys.iter().all(is_shared)
            && self.mismatch_label_keys.iter().all(is_different)
    }
}

impl SpreadConstraint {
    /// Returns true if the constraint of `owner` counts `pod`.
    pub(crate) fn counts(&self, owner: &PlacementFacts, pod: &PlacementFacts) -> bool {
        let (own, other) = (owner.labels(), pod.labels());
        let is_shared = |key: &String| own.get(key).is_none_or(|value| other.get(key) == Some(value));
        owner.namespace() == pod.namespace()
            && self.label_selector.matches(|key| other.get(key))
            && self.match_label_keys.iter().all(is_shared)
    }
}
