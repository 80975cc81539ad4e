//! Terms of a Pod that are evaluated for many Pods: parsed once, and of bounded size.

use std::ops::Deref;

use api::field::Path;
use api::selector::LabelSelector;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Largest total size of the terms of one kind in a Pod. The anti-affinity of each Pod on a Node is evaluated for
/// each Pod to schedule, also of other namespaces. An object has room for tens of thousands of terms, so that a few
/// Pods could stop the scheduler.
pub(crate) const TERMS_SIZE_MAX: usize = 256;

/// Largest total size of the node affinity terms of a Pod. They are evaluated for each Node, and can list Nodes by name.
pub(crate) const NODE_TERMS_SIZE_MAX: usize = 4_096;

/// Size of a term, in requirements and values.
pub(crate) trait TermSize {
    /// Largest total size of the terms of a Pod.
    const TOTAL_MAX: usize = TERMS_SIZE_MAX;

    /// Returns the number of comparisons that the evaluation of the term takes at most.
    fn size(&self) -> usize;
}

/// The terms of a Pod, or none if their total size is larger than [`TermSize::TOTAL_MAX`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundedTerms<T> {
    terms: Vec<T>,
    is_excessive: bool,
}

impl<T> BoundedTerms<T> {
    /// Returns true if the terms were too large. The Pod cannot be scheduled then, and its terms do not affect other
    /// Pods.
    pub(crate) fn is_excessive(&self) -> bool {
        self.is_excessive
    }
}

impl<T> Default for BoundedTerms<T> {
    fn default() -> Self {
        Self {
            terms: Vec::new(),
            is_excessive: false,
        }
    }
}

impl<T> Deref for BoundedTerms<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.terms
    }
}

impl<'de, T: TermSize + Deserialize<'de>> Deserialize<'de> for BoundedTerms<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut terms = Vec::<T>::deserialize(deserializer)?;
        let is_excessive = terms.iter().map(TermSize::size).sum::<usize>() > T::TOTAL_MAX;
        if is_excessive {
            terms = Vec::new();
        }
        Ok(Self { terms, is_excessive })
    }
}

/// A `LabelSelector` of a term. An absent or invalid one matches no labels; an empty one matches all labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TermSelector {
    is_present: bool,
    selector: Option<LabelSelector>,
}

impl TermSelector {
    /// Returns true if the term has no selector.
    pub(crate) fn is_absent(&self) -> bool {
        !self.is_present
    }

    /// Returns true if the selector matches the labels of an object. `label` returns the value of a key.
    pub(crate) fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let selector = self.selector.as_ref();
        selector.is_some_and(|selector| selector.matches(label))
    }

    /// Returns the number of requirements and values.
    pub(crate) fn size(&self) -> usize {
        let requirements = self.selector.iter().flat_map(LabelSelector::requirements);
        requirements.map(|requirement| 1 + requirement.values.len()).sum()
    }
}

impl<'de> Deserialize<'de> for TermSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let selector = Value::deserialize(deserializer)?;
        if selector.is_null() {
            return Ok(Self::default());
        }
        Ok(Self {
            is_present: true,
            selector: LabelSelector::from_object(&Path::new("labelSelector"), &selector).ok(),
        })
    }
}
