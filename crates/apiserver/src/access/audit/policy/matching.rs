//! Matching of requests against policy rules.

use api::rbac::Action;

use super::{AuditPolicy, Decision, GroupResources, Level, Rule};
use crate::access::authentication::Identity;

/// Attributes of a request that rules match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// User before impersonation; `None` if authentication failed.
    pub(crate) user: Option<&'a Identity>,
    /// "" for all namespaces, and for cluster-scoped objects.
    pub(crate) namespace: &'a str,
    pub(crate) action: &'a Action<'a>,
}

impl AuditPolicy {
    /// Returns the settings of the first rule that matches; level `None` if no rule matches.
    pub(crate) fn decide(&self, subject: &Subject<'_>) -> Decision {
        let rule = self.rules.iter().find(|rule| rule.matches(subject));
        rule.map_or_else(
            || Decision {
                level: Level::None,
                omitted: Vec::new(),
                omits_managed_fields: false,
            },
            |rule| rule.decision.clone(),
        )
    }
}

impl Rule {
    fn matches(&self, subject: &Subject<'_>) -> bool {
        if !self.users.is_empty() && !subject.user.is_some_and(|user| self.users.contains(&user.user)) {
            return false;
        }
        let is_member = |user: &Identity| user.groups.iter().any(|group| self.user_groups.contains(group));
        if !self.user_groups.is_empty() && !subject.user.is_some_and(is_member) {
            return false;
        }
        let (Action::Resource { verb, .. } | Action::Path { verb, .. }) = subject.action;
        if !self.verbs.is_empty() && !contains(&self.verbs, verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return self.matches_resource(subject);
        }
        if !self.non_resource_urls.is_empty() {
            return self.matches_path(subject);
        }
        true
    }

    fn matches_resource(&self, subject: &Subject<'_>) -> bool {
        if !matches!(subject.action, Action::Resource { .. }) {
            return false;
        }
        if !self.namespaces.is_empty() && !contains(&self.namespaces, subject.namespace) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|group| group.matches(subject.action))
    }

    fn matches_path(&self, subject: &Subject<'_>) -> bool {
        let Action::Path { path, .. } = subject.action else {
            return false;
        };
        self.non_resource_urls.iter().any(|url| {
            url == "*"
                || url == path
                || url
                    .strip_suffix('*')
                    .is_some_and(|prefix| path.starts_with(prefix))
        })
    }
}

impl GroupResources {
    fn matches(&self, action: &Action<'_>) -> bool {
        let Action::Resource {
            group,
            resource,
            subresource,
            name,
            ..
        } = action
        else {
            return false;
        };
        if self.group != *group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !contains(&self.resource_names, name) {
            return false;
        }
        self.resources
            .iter()
            .any(|pattern| pattern_matches(pattern, resource, subresource))
    }
}

/// Matches a resource pattern: `*` matches all, `pods/*` Pods and their subresources, `*/scale` all `scale`
/// subresources.
fn pattern_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        Some(("*", child)) if child == subresource && !subresource.is_empty() => true,
        Some((parent, "*")) => parent == resource,
        Some((parent, child)) => parent == resource && child == subresource,
    }
}

fn contains(texts: &[String], text: &str) -> bool {
    texts.iter().any(|entry| entry == text)
}
