//! SelfSubjectRulesReview: all rights of a user in a namespace, as `kubectl auth can-i --list` shows them.

use api::rbac::PolicyRule;
use api::tree::{child, set, text};
use serde_json::{Value, json};

use super::{AuthorizationMode, Authorizer, node};
use crate::access::authentication::Identity;
use crate::failure::Failure;

/// Maximum size of the rules of a review in memory. An administrator of a namespace can bind itself to any number of large
/// roles. All default roles together have less than a tenth of it.
const RULES_BYTES_MAX: usize = 16 << 20;
/// Size of a text of a rule besides its characters.
const TEXT_OVERHEAD_BYTES: usize = 64;
/// Error of a review that does not list all rules.
const TOO_LARGE: &str = "some rules are not listed: the rules of the user are too large for one review";

/// Completes a SelfSubjectRulesReview.
pub(crate) fn review_rules(
    mut review: Value,
    authorizer: &Authorizer,
    requester: &Identity,
) -> Result<Value, Failure> {
    let namespace = text(child(&review, "spec"), "namespace");
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let status = authorizer.rules_status(requester, namespace);
    // As upstream, the response has an empty spec.
    set(&mut review, "spec", json!({}));
    set(&mut review, "status", status);
    Ok(review)
}

impl Authorizer {
    /// Returns the status of a SelfSubjectRulesReview.
    fn rules_status(&self, user: &Identity, namespace: &str) -> Value {
        let all_resources = PolicyRule {
            verbs: vec!["*".to_owned()],
            api_groups: vec!["*".to_owned()],
            resources: vec!["*".to_owned()],
            ..PolicyRule::default()
        };
        let all_paths = PolicyRule {
            verbs: vec!["*".to_owned()],
            non_resource_urls: vec!["*".to_owned()],
            ..PolicyRule::default()
        };
        let policy = self.policy();
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        if user.is_privileged() || self.allows_everything() {
            rules.extend([&all_resources, &all_paths]);
        }
        let mut is_incomplete = false;
        for mode in &self.modes {
            match mode {
                AuthorizationMode::Rbac => {
                    let (more, not_found) = policy.rules_of(user, namespace);
                    rules.extend(more);
                    missing.extend(not_found);
                }
                // The rights of a node depend on its Pods; rules cannot express them.
                AuthorizationMode::Node if user.node_name().is_some() => {
                    rules.extend(node::rules());
                    is_incomplete = true;
                }
                _ => {}
            }
        }
        let rules = distinct_rules(rules);
        let listed = within_bound(&rules);
        let mut errors: Vec<&str> = missing.iter().map(AsRef::as_ref).collect();
        errors.extend((listed.len() < rules.len()).then_some(TOO_LARGE));
        let (path_rules, resource_rules): (Vec<&PolicyRule>, Vec<&PolicyRule>) = listed
            .iter()
            .copied()
            .partition(|rule| !rule.non_resource_urls.is_empty());
        let mut status = json!({
            "resourceRules": resource_rules,
            "nonResourceRules": path_rules,
            "incomplete": is_incomplete || !errors.is_empty(),
        });
        if !errors.is_empty() {
            status["evaluationError"] = errors.join(", ").into();
        }
        status
    }
}

/// Returns the first rules, as far as they are within the bound of a review.
fn within_bound<'r, 'p>(rules: &'r [&'p PolicyRule]) -> &'r [&'p PolicyRule] {
    let mut left_bytes = RULES_BYTES_MAX;
    let listed = rules.iter().take_while(|rule| {
        let left = left_bytes.checked_sub(size_bytes(rule));
        left_bytes = left.unwrap_or(0);
        left.is_some()
    });
    let listed = listed.count();
    &rules[..listed]
}

/// Returns the size of a rule in memory.
fn size_bytes(rule: &PolicyRule) -> usize {
    let lists = [
        &rule.verbs,
        &rule.api_groups,
        &rule.resources,
        &rule.resource_names,
        &rule.non_resource_urls,
    ];
    let texts = lists.into_iter().flatten();
    texts.map(|text| TEXT_OVERHEAD_BYTES + text.len()).sum()
}

/// Returns the rules without duplicates.
fn distinct_rules(rules: Vec<&PolicyRule>) -> Vec<&PolicyRule> {
    let mut seen = std::collections::HashSet::new();
    rules.into_iter().filter(|rule| seen.insert(*rule)).collect()
}

#[cfg(test)]
mod tests;
