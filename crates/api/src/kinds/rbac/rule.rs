//! One rule of a role: which verbs it allows on what.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Everything, in any list of a rule.
pub(super) const ALL: &str = "*";

/// A rule. It speaks of resources or of paths, never of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// What may be done: `get`, `list`, …, or `*`.
    #[serde(deserialize_with = "list_or_null")]
    pub verbs: Vec<String>,
    /// The groups of the resources, "" for the core group.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list_or_null")]
    pub api_groups: Vec<String>,
    /// The resources: `pods`, `pods/status`, `*/status`, `*`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list_or_null")]
    pub resources: Vec<String>,
    /// The only objects that are meant; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list_or_null")]
    pub resource_names: Vec<String>,
    /// Paths that are no resources: `/metrics`, `/healthz/*`.
    #[serde(
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "list_or_null"
    )]
    pub non_resource_urls: Vec<String>,
}

/// What somebody wants to do, as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Something with objects.
    Resource {
        /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or a word of its own.
        verb: &'a str,
        /// The group, "" for the core group.
        group: &'a str,
        /// The plural.
        resource: &'a str,
        /// What is below an object, "" for the object itself.
        subresource: &'a str,
        /// The object, "" if none is named.
        name: &'a str,
    },
    /// Something with a path that is no resource.
    Path {
        /// The method in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

impl PolicyRule {
    /// Whether the rule allows this.
    pub fn allows(&self, action: &Action<'_>) -> bool {
        match *action {
            Action::Resource {
                verb,
                group,
                resource,
                subresource,
                name,
            } => {
                has(&self.verbs, verb)
                    && has(&self.api_groups, group)
                    && self
                        .resources
                        .iter()
                        .any(|rule| is_meant(rule, resource, subresource))
                    && (self.resource_names.is_empty() || self.resource_names.iter().any(|n| n == name))
            }
            Action::Path { verb, path } => {
                has(&self.verbs, verb) && self.non_resource_urls.iter().any(|rule| covers_path(rule, path))
            }
        }
    }
}

/// The form in which messages show a rule: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        f.write_str("{")?;
        let mut separator = "";
        for (name, values) in parts.into_iter().filter(|(_, values)| !values.is_empty()) {
            let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            write!(f, "{separator}{name}:[{}]", values.join(" "))?;
            separator = ", ";
        }
        f.write_str("}")
    }
}

/// Whether a list has `wanted`, or everything.
fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted || item == ALL)
}

/// Whether the word of a rule means a resource: `pods`, `pods/status`, `*/status` or `*`.
fn is_meant(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    match rule.split_once('/') {
        Some((of, below)) => below == subresource && (of == ALL || of == resource),
        None => false,
    }
}

/// Whether the word of a rule means a path: the path itself, all that begin so (`/healthz/*`), or `*`.
pub(super) fn covers_path(rule: &str, path: &str) -> bool {
    rule == path || rule.ends_with(ALL) && path.starts_with(rule.trim_end_matches(ALL))
}

/// A list that was never set is written as `null`.
fn list_or_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default())
}
