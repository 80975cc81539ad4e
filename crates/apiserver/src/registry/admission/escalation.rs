//! Prevention of privilege escalation: a user grants only permissions that it holds, unless it may `escalate` the
//! role or `bind` it. An aggregated ClusterRole can gather any permission, so it requires all of them.

use api::kind::{self, Kind};
use api::rbac::{Action, GROUP, PolicyRule, compact, uncovered_rights};
use api::tree::{child, items, text};
use serde_json::Value;
use store::Index;

use super::WriteAttempt;
use crate::access::authentication::Identity;
use crate::access::authorization::{Attributes, AuthorizationDecision, Authorizer};
use crate::failure::Failure;

/// Refusal of an aggregated ClusterRole, as upstream.
const AGGREGATION_REFUSED: &str = "must have cluster-admin privileges to use the aggregationRule";

/// Refuses a role or binding that grants more than the requester holds.
pub(super) fn admit(
    authorizer: &Authorizer,
    index: &Index,
    attempt: &WriteAttempt<'_>,
    object: &Value,
) -> Result<(), Failure> {
    let Some(requester) = attempt.requester else {
        return Ok(());
    };
    let (kind, namespace) = (attempt.target.kind, attempt.target.namespace());
    if attempt
        .stored
        .is_some_and(|stored| grants_the_same(stored, object))
    {
        return Ok(());
    }
    let may = |verb, resource, name| {
        let action = Action::Resource {
            verb,
            group: GROUP,
            resource,
            subresource: "",
            name,
        };
        let decision = authorizer.decide(&Attributes::new(requester, namespace, action));
        matches!(decision, AuthorizationDecision::Allowed(_))
    };
    let name = text(child(object, "metadata"), "name");
    let rules = match kind.kind {
        "Role" | "ClusterRole" => {
            if may("escalate", kind.plural, attempt.target.name()) {
                return Ok(());
            }
            let aggregates = is_aggregated(object) || attempt.stored.is_some_and(is_aggregated);
            if aggregates && confirm(authorizer, requester, namespace, &all_rights()).is_err() {
                return Err(Failure::forbidden(kind, name, AGGREGATION_REFUSED));
            }
            read_rules(object)
        }
        _ => {
            let reference = child(object, "roleRef");
            let name = text(reference, "name");
            let Some(role) = role_kind(text(reference, "kind")) else {
                // Validation rejects the reference.
                return Ok(());
            };
            if may("bind", role.plural, name) {
                return Ok(());
            }
            let entry = index
                .get(&role.store_key(namespace, name))
                .ok_or_else(|| Failure::not_found(role, name))?;
            read_rules(&serde_json::from_slice(&entry.value).unwrap_or_default())
        }
    };
    confirm(authorizer, requester, namespace, &rules)
        .map_err(|message| Failure::forbidden(kind, name, &message))
}

/// Returns true if a controller gathers the rules of a ClusterRole. Portolan has none, but kube-controller-manager may
/// run with the same objects.
fn is_aggregated(role: &Value) -> bool {
    !items(child(role, "aggregationRule"), "clusterRoleSelectors").is_empty()
}

/// Returns all rights.
fn all_rights() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..PolicyRule::default()
        },
        PolicyRule {
            verbs: all(),
            non_resource_urls: all(),
            ..PolicyRule::default()
        },
    ]
}

/// Returns the kind of role that a binding references.
fn role_kind(kind: &str) -> Option<&'static Kind> {
    match kind {
        "Role" => kind::find(GROUP, "v1", "roles"),
        "ClusterRole" => kind::find(GROUP, "v1", "clusterroles"),
        _ => None,
    }
}

/// Returns true if two versions differ only in metadata that the garbage collector changes.
fn grants_the_same(stored: &Value, object: &Value) -> bool {
    let comparable = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in [
                "finalizers",
                "ownerReferences",
                "managedFields",
                "resourceVersion",
            ] {
                metadata.shift_remove(field);
            }
        }
        object
    };
    comparable(stored) == comparable(object)
}

fn read_rules(role: &Value) -> Vec<PolicyRule> {
    let rules = items(role, "rules").iter();
    rules
        .filter_map(|rule| serde_json::from_value(rule.clone()).ok())
        .collect()
}

fn confirm(
    authorizer: &Authorizer,
    requester: &Identity,
    namespace: &str,
    rules: &[PolicyRule],
) -> Result<(), String> {
    let policy = authorizer.policy();
    let (owned, errors) = policy.rules_of(requester, namespace);
    let missing = uncovered_rights(&owned, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let mut texts: Vec<String> = compact(missing).iter().map(ToString::to_string).collect();
    texts.sort();
    let groups: Vec<String> = requester
        .groups
        .iter()
        .map(|group| format!("{group:?}"))
        .collect();
    let mut message = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        requester.user,
        groups.join(" "),
        texts.join("\n")
    );
    if !errors.is_empty() {
        let errors: Vec<&str> = errors.iter().map(AsRef::as_ref).collect();
        message.push_str(&format!("; resolution errors: [{}]", errors.join(", ")));
    }
    Err(message)
}
