//! Index of the RBAC rules by subject.

use std::collections::HashMap;
use std::sync::Arc;

use api::rbac::{Action, PolicyRule};

use crate::access::authentication::{Identity, SERVICE_ACCOUNT_PREFIX};

/// Maximum number of missing roles that a decision names.
const MISSING_MAX: usize = 10;

/// Snapshot of the rules of all bound roles, by subject.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    cluster: Grants,
    namespaces: HashMap<String, Grants>,
}

/// Grants in one namespace, or in the whole cluster.
#[derive(Debug, Default)]
struct Grants {
    users: HashMap<String, Vec<Grant>>,
    groups: HashMap<String, Vec<Grant>>,
}

/// Rules that one binding grants to one subject.
#[derive(Clone, Debug)]
struct Grant {
    rules: Rules,
    /// Binding, role and subject, for the reason of a decision.
    reason: Arc<str>,
}

/// Rules of a bound role.
#[derive(Clone, Debug)]
pub(super) enum Rules {
    /// The rules of an existing role.
    Found(Arc<[PolicyRule]>),
    /// The role does not exist; the message for the client.
    Missing(Arc<str>),
}

/// Subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

/// Decision of RBAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RbacDecision {
    /// A grant allows the action; the reason.
    Allowed(Arc<str>),
    /// No grant allows the action; messages about bound roles that do not exist.
    Undecided(Vec<Arc<str>>),
}

impl Policy {
    /// Adds the grant of a binding, in a namespace or, for "", in the whole cluster. `binding` describes the binding
    /// in reasons.
    pub(super) fn grant(&mut self, namespace: &str, subject: &Subject, rules: Rules, binding: &str) {
        let grants = match namespace {
            "" => &mut self.cluster,
            namespace => self.namespaces.entry(namespace.to_owned()).or_default(),
        };
        let (map, name, description) = match subject {
            Subject::User(name) => (&mut grants.users, name.clone(), format!("User {name:?}")),
            Subject::Group(name) => (&mut grants.groups, name.clone(), format!("Group {name:?}")),
            Subject::ServiceAccount { namespace, name } => (
                &mut grants.users,
                format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
                format!("ServiceAccount \"{name}/{namespace}\""),
            ),
        };
        let reason = Arc::from(format!("RBAC: allowed by {binding} to {description}"));
        map.entry(name).or_default().push(Grant { rules, reason });
    }

    /// Decides about an action in a namespace, or in the cluster for "".
    pub(super) fn decide(&self, user: &Identity, namespace: &str, action: &Action<'_>) -> RbacDecision {
        let mut missing = Vec::new();
        for grant in self.grants_to(user, namespace) {
            match &grant.rules {
                Rules::Found(rules) => {
                    if rules.iter().any(|rule| rule.allows(action)) {
                        return RbacDecision::Allowed(grant.reason.clone());
                    }
                }
                Rules::Missing(role) if missing.len() < MISSING_MAX => missing.push(role.clone()),
                Rules::Missing(_) => {}
            }
        }
        RbacDecision::Undecided(missing)
    }

    /// Returns all rules of a user in a namespace, or in the cluster for "", and messages about bound roles that do
    /// not exist.
    pub(crate) fn rules_of<'p>(
        &'p self,
        user: &'p Identity,
        namespace: &str,
    ) -> (Vec<&'p PolicyRule>, Vec<Arc<str>>) {
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for grant in self.grants_to(user, namespace) {
            match &grant.rules {
                Rules::Found(rules) => all.extend(rules.iter()),
                Rules::Missing(role) if missing.len() < MISSING_MAX => missing.push(role.clone()),
                Rules::Missing(_) => {}
            }
        }
        (all, missing)
    }

    fn grants_to<'p>(&'p self, user: &'p Identity, namespace: &str) -> impl Iterator<Item = &'p Grant> {
        let scopes = [Some(&self.cluster), self.namespaces.get(namespace)];
        scopes.into_iter().flatten().flat_map(move |grants| {
            let by_user = grants.users.get(&user.user).into_iter().flatten();
            let by_group = user.groups.iter().filter_map(|group| grants.groups.get(group));
            by_user.chain(by_group.flatten())
        })
    }
}
