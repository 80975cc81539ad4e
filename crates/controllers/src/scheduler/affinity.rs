//! Affinity, anti-affinity and topology spread constraints of a Pod, as the API has them.

use api::object::Labels;
use serde::Deserialize;

use super::bounded_terms::{BoundedTerms, TermSelector, TermSize};
use super::node_affinity::NodeTerm;

/// `affinity` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Affinity {
    /// Affinity to Nodes.
    pub node_affinity: NodeAffinity,
    /// Pods in whose domain the Pod has to run.
    pub pod_affinity: PodTerms,
    /// Pods in whose domain the Pod must not run.
    pub pod_anti_affinity: PodTerms,
}

/// `nodeAffinity` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAffinity {
    /// Required terms.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeTerms>,
}

/// Terms of a node affinity, of which one has to match.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeTerms {
    /// The terms.
    pub node_selector_terms: BoundedTerms<NodeTerm>,
}

/// Required terms of an affinity or anti-affinity to Pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PodTerms {
    /// Required terms.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: BoundedTerms<PodTerm>,
}

/// A term of an affinity to Pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodTerm {
    /// Label of Nodes that defines a domain.
    pub topology_key: String,
    /// Selector of the Pods; absent selects none.
    pub label_selector: TermSelector,
    /// Namespaces of the Pods; if absent together with the selector, the namespace of the Pod with the term.
    pub namespaces: Vec<String>,
    /// Selector of the namespaces of the Pods; empty selects all.
    pub namespace_selector: TermSelector,
    /// Labels whose values the Pods share with the Pod that has the term.
    pub match_label_keys: Vec<String>,
    /// Labels whose values the Pods do not share with the Pod that has the term.
    pub mismatch_label_keys: Vec<String>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpreadConstraint {
    /// Largest difference of the numbers of Pods in two domains.
    pub max_skew: i64,
    /// Label of Nodes that defines a domain.
    pub topology_key: String,
    /// DoNotSchedule or ScheduleAnyway.
    pub when_unsatisfiable: String,
    /// Selector of the Pods; absent selects none.
    pub label_selector: TermSelector,
    /// Labels whose values the Pods share with the Pod that has the constraint.
    pub match_label_keys: Vec<String>,
    /// With fewer domains, the smallest number of Pods counts as 0.
    pub min_domains: Option<i64>,
    /// Ignore to count Nodes that the node affinity excludes.
    pub node_affinity_policy: String,
    /// Honor to leave out Nodes with taints that the Pod does not tolerate.
    pub node_taints_policy: String,
}

/// Labels of the namespaces by name.
pub(super) type Namespaces = std::collections::BTreeMap<String, Labels>;

impl SpreadConstraint {
    /// Returns true if the constraint excludes Nodes.
    pub(crate) fn is_required(&self) -> bool {
        self.when_unsatisfiable == "DoNotSchedule"
    }
}

impl TermSize for PodTerm {
    fn size(&self) -> usize {
        let selectors = self.label_selector.size() + self.namespace_selector.size();
        let keys = self.match_label_keys.len() + self.mismatch_label_keys.len();
        1 + selectors + self.namespaces.len() + keys
    }
}

impl TermSize for SpreadConstraint {
    /// Constraints that exclude no Node are not evaluated.
    fn size(&self) -> usize {
        if self.is_required() {
            1 + self.label_selector.size() + self.match_label_keys.len()
        } else {
            0
        }
    }
}
