//! Constraints that depend on the Pods of other Nodes: required affinity and anti-affinity to Pods, and topology
//! spread.

use std::collections::{BTreeMap, BTreeSet};

use api::object::{Node, Taint};

use super::affinity::{Namespaces, PodTerm, SpreadConstraint};
use super::cached_pod::PlacementFacts;
use super::filter::Refusal;
use super::node_affinity::matches_node_affinity;
use super::pod::SchedulePod;

/// A Node with its Pods.
pub(super) type NodeWithPods<'a> = (&'a Node, Vec<&'a PlacementFacts>);

/// Domain: a label of Nodes and its value.
type Domain<'a> = (&'a str, &'a str);

/// The constraints of one Pod, evaluated over all Nodes.
#[derive(Debug, Default)]
pub(super) struct Constraints<'a> {
    /// True if the terms of the Pod are too large, so that they were not read.
    are_terms_excessive: bool,
    spreads: Vec<SpreadCounts<'a>>,
    /// For each required affinity term, its label and the domains with a Pod that all terms select.
    affinities: Vec<(&'a str, BTreeSet<&'a str>)>,
    /// True if all terms select no Pod, and the Pod selects itself. The first Pod of a group is then feasible.
    may_be_first: bool,
    /// Domains that the anti-affinity of the Pod excludes.
    own_exclusions: BTreeSet<Domain<'a>>,
    /// Labels that a Node has to have for the anti-affinity of other Pods to apply, with the excluded values.
    other_exclusions: BTreeSet<Domain<'a>>,
}

/// A topology spread constraint with the Pods in each domain.
#[derive(Debug)]
struct SpreadCounts<'a> {
    constraint: &'a SpreadConstraint,
    pods: BTreeMap<&'a str, i64>,
    counts_itself: bool,
}

/// A Node with the labels of all topology spread constraints.
#[derive(Debug)]
struct SpreadNode<'a, 'b> {
    node: &'a Node,
    pods: &'b [&'a PlacementFacts],
    /// True if the Node matches the node affinity of the Pod.
    matches_affinity: bool,
    /// True if the Pod tolerates the taints of the Node.
    is_tolerated: bool,
}

impl<'a> Constraints<'a> {
    /// Evaluates the constraints of a Pod, whose facts are `own`, and those of the Pods on the Nodes.
    pub(super) fn of(
        pod: &'a SchedulePod,
        own: &PlacementFacts,
        nodes: &[NodeWithPods<'a>],
        namespaces: &Namespaces,
    ) -> Self {
        let affinity = &pod.spec.affinity;
        let terms = &affinity.pod_affinity.required;
        // As upstream, a Pod counts for an affinity only if all terms select it.
        let is_selected =
            |other: &PlacementFacts| terms.iter().all(|term| term.selects(own, other, namespaces));
        // Evaluated once for all terms, because a Pod can have hundreds of them.
        let selected_nodes = nodes_with(nodes, is_selected);
        let affinities: Vec<_> = terms
            .iter()
            .map(|term| {
                (
                    &*term.topology_key,
                    domains_of(&term.topology_key, &selected_nodes),
                )
            })
            .collect();
        let anti_terms = affinity.pod_anti_affinity.required.iter();
        let own_exclusions = anti_terms.flat_map(|term: &'a PodTerm| {
            let selects = |other: &PlacementFacts| term.selects(own, other, namespaces);
            let domains = domains_of(&term.topology_key, &nodes_with(nodes, selects));
            domains.into_iter().map(move |value| (&*term.topology_key, value))
        });
        let constraints = pod.spec.topology_spread_constraints.iter();
        let required: Vec<&SpreadConstraint> = constraints
            .filter(|constraint| constraint.is_required())
            .collect();
        let has_labels = |(node, _): &&NodeWithPods<'a>| {
            let labels = &node.metadata.labels;
            let mut keys = required.iter().map(|constraint| &constraint.topology_key);
            keys.all(|key| labels.contains_key(key))
        };
        // Evaluated once for all constraints, as above.
        let mut labelled = Vec::new();
        if !required.is_empty() {
            let counted = nodes.iter().filter(has_labels);
            labelled.extend(counted.map(|with_pods| SpreadNode::of(with_pods, pod)));
        }
        Self {
            are_terms_excessive: terms.is_excessive()
                || affinity.pod_anti_affinity.required.is_excessive()
                || pod.spec.topology_spread_constraints.is_excessive(),
            spreads: required
                .iter()
                .map(|constraint| SpreadCounts::of(constraint, own, &labelled))
                .collect(),
            may_be_first: affinities.iter().all(|(_, domains)| domains.is_empty())
                && terms.iter().all(|term| term.selects(own, own, namespaces)),
            affinities,
            own_exclusions: own_exclusions.collect(),
            other_exclusions: exclusions_of_others(own, nodes, namespaces),
        }
    }

    /// Returns the reason that the Node cannot run the Pod.
    pub(super) fn refusal(&self, node: &Node) -> Option<Refusal> {
        if self.are_terms_excessive {
            return Some(Refusal::ExcessiveTerms);
        }
        let label = |key: &str| node.metadata.labels.get(key).map(String::as_str);
        for spread in &self.spreads {
            let Some(value) = label(&spread.constraint.topology_key) else {
                return Some(Refusal::SpreadLabelMissing);
            };
            if spread.skew(value) > spread.constraint.max_skew {
                return Some(Refusal::Spread);
            }
        }
        let is_near = |(key, domains): &(&str, BTreeSet<&str>)| {
            label(key).is_some_and(|value| self.may_be_first || domains.contains(value))
        };
        if !self.affinities.iter().all(is_near) {
            return Some(Refusal::Affinity);
        }
        let is_in =
            |domains: &BTreeSet<Domain<'_>>| domains.iter().any(|(key, value)| label(key) == Some(*value));
        if is_in(&self.own_exclusions) {
            return Some(Refusal::AntiAffinity);
        }
        is_in(&self.other_exclusions).then_some(Refusal::AntiAffinityOfOthers)
    }
}

impl<'a, 'b> SpreadNode<'a, 'b> {
    fn of((node, pods): &'b NodeWithPods<'a>, pod: &SchedulePod) -> Self {
        let tolerates =
            |taint: &Taint| !matches!(&*taint.effect, "NoSchedule" | "NoExecute") || pod.tolerates(taint);
        Self {
            node: *node,
            pods,
            matches_affinity: matches_node_affinity(&pod.spec, node),
            is_tolerated: node.spec.taints.iter().all(tolerates),
        }
    }

    /// Returns true if the constraint counts the Pods of the Node.
    fn is_counted(&self, constraint: &SpreadConstraint) -> bool {
        (constraint.node_affinity_policy == "Ignore" || self.matches_affinity)
            && (constraint.node_taints_policy != "Honor" || self.is_tolerated)
    }
}

impl<'a> SpreadCounts<'a> {
    /// Counts the Pods on `nodes`, which have the labels of all constraints.
    fn of(constraint: &'a SpreadConstraint, own: &PlacementFacts, nodes: &[SpreadNode<'a, '_>]) -> Self {
        let mut pods = BTreeMap::new();
        for spread_node in nodes.iter().filter(|node| node.is_counted(constraint)) {
            let labels = &spread_node.node.metadata.labels;
            let Some(value) = labels.get(&constraint.topology_key) else {
                continue;
            };
            let live = spread_node.pods.iter().filter(|other| !other.is_terminating());
            let counted = live.filter(|other| constraint.counts(own, other)).count();
            *pods.entry(&**value).or_insert(0) += i64::try_from(counted).unwrap_or(i64::MAX);
        }
        Self {
            constraint,
            pods,
            counts_itself: constraint.counts(own, own),
        }
    }

    /// Returns the difference to the domain with the fewest Pods after the Pod is added to the domain `value`.
    fn skew(&self, value: &str) -> i64 {
        let domains = i64::try_from(self.pods.len()).unwrap_or(i64::MAX);
        let has_enough = self.constraint.min_domains.is_none_or(|min| domains >= min);
        let fewest = self
            .pods
            .values()
            .min()
            .copied()
            .filter(|_| has_enough)
            .unwrap_or(0);
        let here = self.pods.get(value).copied().unwrap_or(0);
        here + i64::from(self.counts_itself) - fewest
    }
}

/// Returns the Nodes with a selected Pod.
fn nodes_with<'a>(
    nodes: &[NodeWithPods<'a>],
    is_selected: impl Fn(&PlacementFacts) -> bool,
) -> Vec<&'a Node> {
    let has_selected = |(_, pods): &&NodeWithPods<'a>| pods.iter().any(|pod| is_selected(pod));
    let nodes = nodes.iter().filter(has_selected);
    nodes.map(|(node, _)| *node).collect()
}

/// Returns the domains of a label with one of the Nodes.
fn domains_of<'a>(topology_key: &str, nodes: &[&'a Node]) -> BTreeSet<&'a str> {
    let values = nodes
        .iter()
        .filter_map(|node| node.metadata.labels.get(topology_key));
    values.map(String::as_str).collect()
}

/// Returns the domains that the anti-affinity of Pods on Nodes excludes for a Pod.
fn exclusions_of_others<'a>(
    pod: &PlacementFacts,
    nodes: &[NodeWithPods<'a>],
    namespaces: &Namespaces,
) -> BTreeSet<Domain<'a>> {
    let mut excluded = BTreeSet::new();
    for (node, pods) in nodes {
        for other in pods.iter().copied() {
            for term in other.anti_affinity() {
                let value = node.metadata.labels.get(&term.topology_key);
                if let Some(value) = value.filter(|_| term.selects(other, pod, namespaces)) {
                    excluded.insert((&*term.topology_key, &**value));
                }
            }
        }
    }
    excluded
}

#[cfg(test)]
mod tests;
