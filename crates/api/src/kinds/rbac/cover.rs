//! Whether rules cover others: nobody may grant what they do not have.

use std::collections::{BTreeMap, HashSet};

use super::PolicyRule;
use super::rule::{ALL, covers_path};

/// Most single rights that rules are taken apart into. A rule with some hundred words in each list would be taken
/// apart into millions; what lies behind counts as not covered.
const RIGHTS_MAX: usize = 100_000;

/// What of `wanted` the rules in `owned` do not cover, taken apart into single rights.
pub fn uncovered<'r>(
    owned: &[&PolicyRule],
    wanted: impl IntoIterator<Item = &'r PolicyRule>,
) -> Vec<PolicyRule> {
    let mut missing = Vec::new();
    let mut seen = 0;
    for rule in wanted {
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

/// Rights with the verbs on the same thing brought together.
pub fn compacted(rights: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut by_thing: BTreeMap<String, (PolicyRule, HashSet<String>)> = BTreeMap::new();
    for mut right in rights {
        let verbs = std::mem::take(&mut right.verbs);
        let (known, seen) = by_thing
            .entry(right.to_string())
            .or_insert_with(|| (right, HashSet::new()));
        known
            .verbs
            .extend(verbs.into_iter().filter(|verb| seen.insert(verb.clone())));
    }
    by_thing.into_values().map(|(known, _)| known).collect()
}

/// The single rights of a rule: one verb on one thing each.
fn rights(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> {
    let one = |word: &String| vec![word.clone()];
    // A rule without names is one with the empty list of names.
    let names: Vec<Vec<String>> = match rule.resource_names.is_empty() {
        true => vec![Vec::new()],
        false => rule.resource_names.iter().map(one).collect(),
    };
    let of_resources = rule.api_groups.iter().flat_map(move |group| {
        let names = names.clone();
        rule.resources.iter().flat_map(move |resource| {
            let names = names.clone();
            rule.verbs.iter().flat_map(move |verb| {
                names.clone().into_iter().map(move |resource_names| PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names,
                    non_resource_urls: Vec::new(),
                })
            })
        })
    });
    let of_paths = rule.non_resource_urls.iter().flat_map(move |path| {
        rule.verbs.iter().map(move |verb| PolicyRule {
            verbs: one(verb),
            non_resource_urls: one(path),
            ..PolicyRule::default()
        })
    });
    of_resources.chain(of_paths)
}

/// Whether a rule covers a single right.
fn covers(owner: &PolicyRule, right: &PolicyRule) -> bool {
    let in_list = |owned: &[String], wanted: &[String]| {
        owned.iter().any(|word| word == ALL) || wanted.iter().all(|word| owned.contains(word))
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

fn covers_resource(owned: &[String], wanted: &str) -> bool {
    owned.iter().any(|word| {
        word == ALL
            || word == wanted
            || match (word.split_once('/'), wanted.split_once('/')) {
                (Some((ALL, owned)), Some((_, wanted))) => owned == wanted,
                _ => false,
            }
    })
}
