//! Policy rules and their evaluation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Wildcard in the lists of a rule.
pub(super) const ALL: &str = "*";

/// A policy rule. It applies to resources or to paths, not to both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Verbs (`get`, `list` and so on), or `*`.
    #[serde(deserialize_with = "list_or_null")]
    pub verbs: Vec<String>,
    /// API groups of the resources; "" for the core group.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list_or_null")]
    pub api_groups: Vec<String>,
    /// Resources: `pods`, `pods/status`, `*/status`, `*`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list_or_null")]
    pub resources: Vec<String>,
    /// Names of the objects; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list_or_null")]
    pub resource_names: Vec<String>,
    /// Non-resource paths: `/metrics`, `/healthz/*`.
    #[serde(
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "list_or_null"
    )]
    pub non_resource_urls: Vec<String>,
}

/// Action of a request, to which rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// An action on objects.
    Resource {
        /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or a special verb.
        verb: &'a str,
        /// API group; "" for the core group.
        group: &'a str,
        /// Resource in the plural.
        resource: &'a str,
        /// Subresource; "" for the object itself.
        subresource: &'a str,
        /// Object name; "" if the request has none.
        name: &'a str,
    },
    /// An action on a non-resource path.
    Path {
        /// HTTP method in lower case.
        verb: &'a str,
        /// Path of the URL, without the query.
        path: &'a str,
    },
}

impl PolicyRule {
    /// Returns true if the rule allows the action.
    pub fn allows(&self, action: &Action<'_>) -> bool {
        match *action {
            Action::Resource {
                verb,
                group,
                resource,
                subresource,
                name,
            } => {
                has_value_or_wildcard(&self.verbs, verb)
                    && has_value_or_wildcard(&self.api_groups, group)
                    && self
                        .resources
                        .iter()
                        .any(|pattern| matches_resource(pattern, resource, subresource))
                    && (self.resource_names.is_empty()
                        || self.resource_names.iter().any(|allowed| allowed == name))
            }
            Action::Path { verb, path } => {
                has_value_or_wildcard(&self.verbs, verb)
                    && self.non_resource_urls.iter().any(|rule| covers_path(rule, path))
            }
        }
    }
}

/// Formats the rule for messages: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
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

/// Returns true if the list contains the value or the wildcard.
fn has_value_or_wildcard(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == value || item == ALL)
}

/// Returns true if a resource pattern matches: `pods`, `pods/status`, `*/status` or `*`.
fn matches_resource(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == ALL {
        return true;
    }
    if subresource.is_empty() {
        return pattern == resource;
    }
    match pattern.split_once('/') {
        Some((parent, child)) => child == subresource && (parent == ALL || parent == resource),
        None => false,
    }
}

/// Returns true if a path pattern matches: the path itself, a prefix (`/healthz/*`), or `*`.
pub(super) fn covers_path(rule: &str, path: &str) -> bool {
    rule == path || rule.ends_with(ALL) && path.starts_with(rule.trim_end_matches(ALL))
}

/// Deserializes a list; Go serializes an unset list as `null`.
fn list_or_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default())
}
