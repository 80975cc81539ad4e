//! The Pods that terms of an affinity and topology spread constraints select.

use api::object::Labels;
use serde_json::Value;

use super::affinity::{Namespaces, PodTerm, SpreadConstraint};
use super::cached_pod::PlacementFacts;
use crate::owned_objects::selects;

impl PodTerm {
    /// Returns true if the term of `owner` selects `pod`.
    pub(crate) fn selects(
        &self,
        owner: &PlacementFacts,
        pod: &PlacementFacts,
        namespaces: &Namespaces,
    ) -> bool {
        let namespace = pod.namespace();
        let selects_namespace = if self.namespaces.is_empty() && self.namespace_selector.is_null() {
            owner.namespace() == namespace
        } else {
            let labels = namespaces.get(namespace);
            self.namespaces.iter().any(|name| name == namespace)
                || (!self.namespace_selector.is_null()
                    && labels.is_some_and(|labels| matches(&self.namespace_selector, labels)))
        };
        let (own, other) = (owner.labels(), pod.labels());
        let is_shared = |key: &String| own.get(key).is_none_or(|value| other.get(key) == Some(value));
        let is_different = |key: &String| own.get(key).is_none_or(|value| other.get(key) != Some(value));
        selects_namespace
            && matches(&self.label_selector, other)
            && self.match_label_keys.iter().all(is_shared)
            && self.mismatch_label_keys.iter().all(is_different)
    }
}

impl SpreadConstraint {
    /// Returns true if the constraint excludes Nodes.
    pub(crate) fn is_required(&self) -> bool {
        self.when_unsatisfiable == "DoNotSchedule"
    }

    /// Returns true if the constraint of `owner` counts `pod`.
    pub(crate) fn counts(&self, owner: &PlacementFacts, pod: &PlacementFacts) -> bool {
        let (own, other) = (owner.labels(), pod.labels());
        let is_shared = |key: &String| own.get(key).is_none_or(|value| other.get(key) == Some(value));
        owner.namespace() == pod.namespace()
            && matches(&self.label_selector, other)
            && self.match_label_keys.iter().all(is_shared)
    }
}

/// Returns true if a selector matches labels. An absent or invalid selector matches no labels; an empty one matches all
/// labels.
fn matches(selector: &Value, labels: &Labels) -> bool {
    if selector.is_null() {
        return false;
    }
    let path = api::field::Path::new("labelSelector");
    let selector = api::selector::LabelSelector::from_object(&path, selector);
    selector.is_ok_and(|selector| selects(&selector, labels))
}
