//! Node selector and required node affinity of a Pod.

use api::object::Node;
use serde::Deserialize;

use super::bounded_terms::{NODE_TERMS_SIZE_MAX, TermSize};
use super::pod::SchedulePodSpec;

/// A term of a node affinity. A Node matches a term if it matches all its requirements.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeTerm {
    /// Requirements on labels.
    pub match_expressions: Vec<NodeRequirement>,
    /// Requirements on fields; the only one is `metadata.name`.
    pub match_fields: Vec<NodeRequirement>,
}

/// A requirement of a term.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NodeRequirement {
    /// Label or field.
    pub key: String,
    /// In, NotIn, Exists, DoesNotExist, Gt or Lt.
    pub operator: String,
    /// Values.
    pub values: Vec<String>,
}

impl NodeTerm {
    fn matches(&self, node: &Node) -> bool {
        let is_empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        let labels = &node.metadata.labels;
        let mut expressions = self.match_expressions.iter();
        let mut fields = self.match_fields.iter();
        !is_empty
            && expressions
                .all(|requirement| requirement.matches(labels.get(&requirement.key).map(String::as_str)))
            && fields.all(|requirement| {
                requirement.key == "metadata.name" && requirement.matches(Some(&node.metadata.name))
            })
    }
}

impl TermSize for NodeTerm {
    const TOTAL_MAX: usize = NODE_TERMS_SIZE_MAX;

    fn size(&self) -> usize {
        let requirements = self.match_expressions.iter().chain(&self.match_fields);
        let sizes = requirements.map(|requirement| 1 + requirement.values.len());
        1 + sizes.sum::<usize>()
    }
}

impl NodeRequirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let contains = |value: &str| self.values.iter().any(|other| other == value);
        let compare = |is_met: fn(&i64, &i64) -> bool| {
            let number = value.and_then(|value| value.parse().ok());
            let bound = self.values.first().and_then(|value| value.parse().ok());
            number
                .zip(bound)
                .is_some_and(|(number, bound)| is_met(&number, &bound))
        };
        match &*self.operator {
            "In" => value.is_some_and(contains),
            "NotIn" => !value.is_some_and(contains),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compare(i64::gt),
            "Lt" => compare(i64::lt),
            _ => false,
        }
    }
}

/// Returns true if the terms of the required node affinity are too large. They match no Node then.
pub(crate) fn is_node_affinity_excessive(spec: &SchedulePodSpec) -> bool {
    let required = spec.affinity.node_affinity.required.as_ref();
    required.is_some_and(|required| required.node_selector_terms.is_excessive())
}

/// Returns true if a Node has the labels of the node selector and matches the required node affinity.
pub(crate) fn matches_node_affinity(spec: &SchedulePodSpec, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let mut selector = spec.node_selector.iter();
    let is_selected = selector.all(|(key, value)| labels.get(key) == Some(value));
    let required = &spec.affinity.node_affinity.required;
    let is_required = required.as_ref().is_none_or(|required| {
        let mut terms = required.node_selector_terms.iter();
        terms.any(|term| term.matches(node))
    });
    is_selected && is_required
}

#[cfg(test)]
mod tests;
