//! Escalation check: comparison of rules with the rules that a user has.

use std::collections::{BTreeMap, HashSet};

use super::PolicyRule;
use super::rule::{ALL, covers_path};

/// Maximum number of single rights into which rules are split. Rules with hundreds of entries in each list would
/// yield millions; the rest counts as uncovered.
const RIGHTS_MAX: usize = 100_000;

/// Returns the parts of `requested` that the rules in `owned` do not cover, split into single rights.
pub fn uncovered<'r>(
    owned: &[&PolicyRule],
    requested: impl IntoIterator<Item = &'r PolicyRule>,
) -> Vec<PolicyRule> {
    let mut missing = Vec::new();
    let mut seen = 0;
    for rule in requested {
        for right in rights(rule) {
            seen += 1;
            if seen > RIGHTS_MAX || !owned.iter().any(|owner| covers(owner, &right)) {
                missing.push(right);
            }
            if seen > RIGHTS_MAX {
                return missing;
            }
        }
    }
    missing
}

/// Merges the verbs of rights to the same objects.
pub fn compact(rights: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut by_objects: BTreeMap<String, (PolicyRule, HashSet<String>)> = BTreeMap::new();
    for mut right in rights {
        let verbs = std::mem::take(&mut right.verbs);
        let (merged, seen) = by_objects
            .entry(right.to_string())
            .or_insert_with(|| (right, HashSet::new()));
        merged
            .verbs
            .extend(verbs.into_iter().filter(|verb| seen.insert(verb.clone())));
    }
    by_objects.into_values().map(|(merged, _)| merged).collect()
}

/// Splits a rule into single rights: one verb on one resource or path each.
fn rights(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> {
    let single = |value: &String| vec![value.clone()];
    // A rule without resource names yields rights without names.
    let names: Vec<Vec<String>> = if rule.resource_names.is_empty() {
        vec![Vec::new()]
    } else {
        rule.resource_names.iter().map(single).collect()
    };
    let resource_rights = rule.api_groups.iter().flat_map(move |group| {
        let names = names.clone();
        rule.resources.iter().flat_map(move |resource| {
            let names = names.clone();
            rule.verbs.iter().flat_map(move |verb| {
                names.clone().into_iter().map(move |resource_names| PolicyRule {
                    verbs: single(verb),
                    api_groups: single(group),
                    resources: single(resource),
                    resource_names,
                    non_resource_urls: Vec::new(),
                })
            })
        })
    });
    let path_rights = rule.non_resource_urls.iter().flat_map(move |path| {
        rule.verbs.iter().map(move |verb| PolicyRule {
            verbs: single(verb),
            non_resource_urls: single(path),
            ..PolicyRule::default()
        })
    });
    resource_rights.chain(path_rights)
}

/// Returns true if a rule covers a single right.
fn covers(owner: &PolicyRule, right: &PolicyRule) -> bool {
    let in_list = |owned: &[String], requested: &[String]| {
        owned.iter().any(|value| value == ALL) || requested.iter().all(|value| owned.contains(value))
    };
    let names = owner.resource_names.is_empty()
        || !right.resource_names.is_empty()
            && right
                .resource_names
                .iter()
                .all(|name| owner.resource_names.contains(name));
    let paths = right
        .non_resource_urls
        .iter()
        .all(|path| owner.non_resource_urls.iter().any(|rule| covers_path(rule, path)));
    in_list(&owner.verbs, &right.verbs)
        && in_list(&owner.api_groups, &right.api_groups)
        && right
            .resources
            .iter()
            .all(|resource| covers_resource(&owner.resources, resource))
        && names
        && paths
}

fn covers_resource(owned: &[String], requested: &str) -> bool {
    owned.iter().any(|value| {
        value == ALL
            || value == requested
            || match (value.split_once('/'), requested.split_once('/')) {
                (Some((ALL, owned)), Some((_, requested))) => owned == requested,
                _ => false,
            }
    })
}
