//! What is allowed to whom, by roles: an index from users and groups to rules, for reading only.

use std::collections::HashMap;
use std::sync::Arc;

use api::rbac::{Action, PolicyRule};

use crate::access::authentication::{Identity, SERVICE_ACCOUNT_PREFIX};

/// The rules of all bound roles, by whom they are bound to.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    cluster: Grants,
    namespaces: HashMap<String, Grants>,
}

/// What is granted in one place.
#[derive(Debug, Default)]
struct Grants {
    users: HashMap<String, Vec<Grant>>,
    groups: HashMap<String, Vec<Grant>>,
}

/// What one binding grants to one subject.
#[derive(Clone, Debug)]
struct Grant {
    rules: Rules,
    /// Which binding of which role, for those who ask why.
    why: Arc<str>,
}

/// The rules of a role that is bound.
#[derive(Clone, Debug)]
pub(super) enum Rules {
    /// They are.
    Of(Arc<[PolicyRule]>),
    /// The role does not exist; how a message says so.
    Missing(Arc<str>),
}

/// Whom a binding names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

/// What the roles say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// They allow it, by this binding.
    Allowed(Arc<str>),
    /// They do not; these roles are bound and do not exist.
    Undecided(Vec<Arc<str>>),
}

impl Policy {
    /// Adds what a binding grants, in a namespace or, if that is "", in the whole cluster. `binding` says which.
    pub(super) fn grant(&mut self, namespace: &str, subject: &Subject, rules: Rules, binding: &str) {
        let grants = match namespace {
            "" => &mut self.cluster,
            namespace => self.namespaces.entry(namespace.to_owned()).or_default(),
        };
        let (map, name, whom) = match subject {
            Subject::User(name) => (&mut grants.users, name.clone(), format!("User {name:?}")),
            Subject::Group(name) => (&mut grants.groups, name.clone(), format!("Group {name:?}")),
            Subject::ServiceAccount { namespace, name } => (
                &mut grants.users,
                format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
                format!("ServiceAccount \"{name}/{namespace}\""),
            ),
        };
        let why = Arc::from(format!("RBAC: allowed by {binding} to {whom}"));
        map.entry(name).or_default().push(Grant { rules, why });
    }

    /// Whether the roles allow somebody to do this in a namespace, or in the cluster if that is "".
    pub(super) fn decide(&self, user: &Identity, namespace: &str, action: &Action<'_>) -> Decision {
        let mut missing = Vec::new();
        for grant in self.grants_to(user, namespace) {
            match &grant.rules {
                Rules::Of(rules) => {
                    if rules.iter().any(|rule| rule.allows(action)) {
                        return Decision::Allowed(grant.why.clone());
                    }
                }
                Rules::Missing(role) => missing.push(role.clone()),
            }
        }
        Decision::Undecided(missing)
    }

    /// All rules for somebody in a namespace, or in the cluster if that is "", and the bound roles that are missing.
    pub(crate) fn rules_of<'p>(
        &'p self,
        user: &'p Identity,
        namespace: &str,
    ) -> (Vec<&'p PolicyRule>, Vec<Arc<str>>) {
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for grant in self.grants_to(user, namespace) {
            match &grant.rules {
                Rules::Of(rules) => all.extend(rules.iter()),
                Rules::Missing(role) => missing.push(role.clone()),
            }
        }
        (all, missing)
    }

    fn grants_to<'p>(&'p self, user: &'p Identity, namespace: &str) -> impl Iterator<Item = &'p Grant> {
        let places = [Some(&self.cluster), self.namespaces.get(namespace)];
        places.into_iter().flatten().flat_map(move |grants| {
            let by_user = grants.users.get(&user.user).into_iter().flatten();
            let by_group = user.groups.iter().filter_map(|group| grants.groups.get(group));
            by_user.chain(by_group.flatten())
        })
    }
}
