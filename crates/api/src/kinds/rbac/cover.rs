//! Escalation check: comparison of rules with the rules that a user has.

use std::collections::{BTreeMap, HashSet};

use super::PolicyRule;
use super::rule::{ALL, covers_path};

/// Maximum number of single rights into which rules are split. Rules with hundreds of entries in each list would
/// yield millions; the rest counts as uncovered.
const RIGHTS_MAX: usize = 100_000;
/// Maximum number of comparisons of a right with a rule. The rest counts as uncovered.
const COMPARISONS_MAX: usize = 5_000_000;
/// Bytes of a right whose comparison counts as a further one.
const COMPARED_BYTES: usize = 64;
/// Maximum number of uncovered rights in the result.
const MISSING_MAX: usize = 10_000;
/// Maximum bytes of uncovered rights in the result. Each right repeats its verb, group, resource and name, so that the
/// rights of one rule can have a hundred thousand times its size.
const MISSING_BYTES_MAX: usize = 512 << 10;

/// Returns parts of `requested` that the rules in `owned` do not cover, split into single rights. Their number and size are
/// bounded. The result is empty only if all parts are covered.
pub fn uncovered_rights<'r>(
    owned: &[&PolicyRule],
    requested: impl IntoIterator<Item = &'r PolicyRule>,
) -> Vec<PolicyRule> {
    let owners: Vec<Owner<'_>> = owned.iter().map(|rule| Owner::new(rule)).collect();
    let mut missing = Vec::new();
    let (mut seen, mut missing_bytes) = (0, 0);
    let mut comparisons = COMPARISONS_MAX;
    for right in requested.into_iter().flat_map(rights) {
        seen += 1;
        let is_within_bounds = seen <= RIGHTS_MAX && comparisons > 0;
        if is_within_bounds && is_covered(&owners, right, &mut comparisons) {
            continue;
        }
        missing_bytes += right.bytes();
        // One right is at most as large as the rule that it is part of.
        missing.push(right.rule());
        if !is_within_bounds || missing.len() >= MISSING_MAX || missing_bytes > MISSING_BYTES_MAX {
            break;
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

/// One verb on one resource or path.
#[derive(Clone, Copy)]
enum Right<'r> {
    Resource {
        verb: &'r str,
        group: &'r str,
        resource: &'r str,
        /// `None` for all objects.
        name: Option<&'r str>,
    },
    Path {
        verb: &'r str,
        path: &'r str,
    },
}

impl Right<'_> {
    fn bytes(self) -> usize {
        match self {
            Right::Resource {
                verb,
                group,
                resource,
                name,
            } => verb.len() + group.len() + resource.len() + name.map_or(0, str::len),
            Right::Path { verb, path } => verb.len() + path.len(),
        }
    }

    fn rule(self) -> PolicyRule {
        let single = |value: &str| vec![value.to_owned()];
        match self {
            Right::Resource {
                verb,
                group,
                resource,
                name,
            } => PolicyRule {
                verbs: single(verb),
                api_groups: single(group),
                resources: single(resource),
                resource_names: name.map(single).unwrap_or_default(),
                non_resource_urls: Vec::new(),
            },
            Right::Path { verb, path } => PolicyRule {
                verbs: single(verb),
                non_resource_urls: single(path),
                ..PolicyRule::default()
            },
        }
    }
}

/// Splits a rule into single rights.
fn rights(rule: &PolicyRule) -> impl Iterator<Item = Right<'_>> {
    // Without verbs or resources there are no rights, and no combinations of the other lists are tried.
    let groups: &[String] = if rule.verbs.is_empty() || rule.resources.is_empty() {
        &[]
    } else {
        &rule.api_groups
    };
    let resource_rights = groups.iter().flat_map(move |group| {
        rule.resources.iter().flat_map(move |resource| {
            rule.verbs.iter().flat_map(move |verb| {
                names(rule).map(move |name| Right::Resource {
                    verb,
                    group,
                    resource,
                    name,
                })
            })
        })
    });
    let path_rights = rule
        .non_resource_urls
        .iter()
        .flat_map(move |path| rule.verbs.iter().map(move |verb| Right::Path { verb, path }));
    resource_rights.chain(path_rights)
}

/// Returns the names of a rule. A rule without names yields one `None`, for all objects.
fn names(rule: &PolicyRule) -> impl Iterator<Item = Option<&str>> {
    let all = rule.resource_names.is_empty().then_some(None);
    let named = rule.resource_names.iter().map(|name| Some(name.as_str()));
    all.into_iter().chain(named)
}

/// A rule whose lists are searched by hash.
struct Owner<'o> {
    verbs: Values<'o>,
    groups: Values<'o>,
    resources: Values<'o>,
    /// Subresources of all resources, such as `status` of `*/status`.
    subresources: HashSet<&'o str>,
    names: HashSet<&'o str>,
    paths: &'o [String],
}

/// A list that can contain the wildcard.
struct Values<'o> {
    is_all: bool,
    values: HashSet<&'o str>,
}

impl<'o> Values<'o> {
    fn new(list: &'o [String]) -> Self {
        let values: HashSet<&str> = list.iter().map(String::as_str).collect();
        Self {
            is_all: values.contains(ALL),
            values,
        }
    }

    fn has(&self, value: &str) -> bool {
        self.is_all || self.values.contains(value)
    }
}

impl<'o> Owner<'o> {
    fn new(rule: &'o PolicyRule) -> Self {
        let subresource = |resource: &'o String| {
            let (parent, subresource) = resource.split_once('/')?;
            (parent == ALL).then_some(subresource)
        };
        Self {
            verbs: Values::new(&rule.verbs),
            groups: Values::new(&rule.api_groups),
            resources: Values::new(&rule.resources),
            subresources: rule.resources.iter().filter_map(subresource).collect(),
            names: rule.resource_names.iter().map(String::as_str).collect(),
            paths: &rule.non_resource_urls,
        }
    }

    fn covers(&self, right: Right<'_>) -> bool {
        match right {
            Right::Resource {
                verb,
                group,
                resource,
                name,
            } => {
                self.verbs.has(verb)
                    && self.groups.has(group)
                    && self.has_resource(resource)
                    && (self.names.is_empty() || name.is_some_and(|name| self.names.contains(name)))
            }
            Right::Path { verb, path } => {
                self.verbs.has(verb)
                    && self.names.is_empty()
                    && self.paths.iter().any(|rule| covers_path(rule, path))
            }
        }
    }

    fn has_resource(&self, requested: &str) -> bool {
        self.resources.has(requested)
            || requested
                .split_once('/')
                .is_some_and(|(_, subresource)| self.subresources.contains(subresource))
    }

    /// Comparisons that a check of a right takes.
    fn cost(&self, right: Right<'_>) -> usize {
        let compared = match right {
            Right::Resource { .. } => 1,
            Right::Path { .. } => 1 + self.paths.len(),
        };
        compared.saturating_mul(1 + right.bytes() / COMPARED_BYTES)
    }
}

/// Returns true if a rule covers the right, and takes the comparisons from the rest. When they are used up, nothing is
/// covered.
fn is_covered(owners: &[Owner<'_>], right: Right<'_>, comparisons: &mut usize) -> bool {
    owners.iter().any(|owner| {
        *comparisons = comparisons.saturating_sub(owner.cost(right));
        *comparisons > 0 && owner.covers(right)
    })
}
