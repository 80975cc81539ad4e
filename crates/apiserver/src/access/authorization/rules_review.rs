//! SelfSubjectRulesReview: all rights of a user in a namespace, as `kubectl auth can-i --list` shows them.

use api::rbac::PolicyRule;
use api::tree::{child, set, text};
use serde_json::{Value, json};

use super::{AuthorizationMode, Authorizer, node};
use crate::access::authentication::Identity;
use crate::failure::Failure;

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
        let (path_rules, resource_rules): (Vec<&PolicyRule>, Vec<&PolicyRule>) = rules
            .into_iter()
            .partition(|rule| !rule.non_resource_urls.is_empty());
        let mut status = json!({
            "resourceRules": distinct(resource_rules),
            "nonResourceRules": distinct(path_rules),
            "incomplete": is_incomplete || !missing.is_empty(),
        });
        if !missing.is_empty() {
            let missing: Vec<&str> = missing.iter().map(AsRef::as_ref).collect();
            status["evaluationError"] = missing.join(", ").into();
        }
        status
    }
}

/// Returns the rules without duplicates.
fn distinct(rules: Vec<&PolicyRule>) -> Vec<&PolicyRule> {
    let mut seen = std::collections::HashSet::new();
    rules.into_iter().filter(|rule| seen.insert(*rule)).collect()
}
