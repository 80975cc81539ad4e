//! Index of the RBAC rules by subject.
//!
//! A decision reads the grants to the user and to each of its groups, in the cluster and in the namespace of the
//! request. Its cost therefore does not grow with the bindings of others. RBAC only allows: without a grant it is
//! undecided, and another authorizer may decide. A binding to a role that does not exist grants nothing, and the
//! decision names the role for the client.

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
    /// Binding and role, for the reason of a decision. The subjects of the binding share the text: a binding can have a long
    /// name and tens of thousands of subjects.
    binding: Arc<str>,
    kind: SubjectKind,
}

/// Kind of the subject of a grant.
#[derive(Clone, Copy, Debug)]
enum SubjectKind {
    User,
    Group,
    ServiceAccount,
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
    pub(super) fn grant(
        &mut self,
        namespace: &str,
        subject: &Subject,
        rules: Rules,
        binding: impl Into<Arc<str>>,
    ) {
        let grants = match namespace {
            "" => &mut self.cluster,
            namespace => self.namespaces.entry(namespace.to_owned()).or_default(),
        };
        let (map, name, kind) = match subject {
            Subject::User(name) => (&mut grants.users, name.clone(), SubjectKind::User),
            Subject::Group(name) => (&mut grants.groups, name.clone(), SubjectKind::Group),
            Subject::ServiceAccount { namespace, name } => (
                &mut grants.users,
                format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
                SubjectKind::ServiceAccount,
            ),
        };
        let binding = binding.into();
        map.entry(name).or_default().push(Grant { rules, binding, kind });
    }

    /// Decides about an action in a namespace, or in the cluster for "".
    pub(super) fn decide(&self, user: &Identity, namespace: &str, action: &Action<'_>) -> RbacDecision {
        let mut missing = Vec::new();
        for (subject, grant) in self.grants_to(user, namespace) {
            match &grant.rules {
                Rules::Found(rules) => {
                    if rules.iter().any(|rule| rule.allows(action)) {
                        return RbacDecision::Allowed(grant.reason(subject));
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
        for (_, grant) in self.grants_to(user, namespace) {
            match &grant.rules {
                Rules::Found(rules) => all.extend(rules.iter()),
                Rules::Missing(role) if missing.len() < MISSING_MAX => missing.push(role.clone()),
                Rules::Missing(_) => {}
            }
        }
        (all, missing)
    }

    /// Returns the grants to a user and its groups, each with the name of the user or group.
    fn grants_to<'p>(
        &'p self,
        user: &'p Identity,
        namespace: &str,
    ) -> impl Iterator<Item = (&'p str, &'p Grant)> {
        let scopes = [Some(&self.cluster), self.namespaces.get(namespace)];
        scopes.into_iter().flatten().flat_map(move |grants| {
            let by_user = grants.users.get(&user.user).map(|all| (user.user.as_str(), all));
            let by_group = user
                .groups
                .iter()
                .filter_map(|group| Some((group.as_str(), grants.groups.get(group)?)));
            let by_name = by_user.into_iter().chain(by_group);
            by_name.flat_map(|(name, all)| all.iter().map(move |grant| (name, grant)))
        })
    }
}

impl Grant {
    /// Returns the reason of a decision. `name` is that of the user or group.
    fn reason(&self, name: &str) -> Arc<str> {
        let subject = match self.kind {
            SubjectKind::User => format!("User {name:?}"),
            SubjectKind::Group => format!("Group {name:?}"),
            SubjectKind::ServiceAccount => {
                let account = name.strip_prefix(SERVICE_ACCOUNT_PREFIX);
                let (namespace, name) = account
                    .and_then(|account| account.split_once(':'))
                    .unwrap_or_default();
                format!("ServiceAccount \"{name}/{namespace}\"")
            }
        };
        Arc::from(format!("RBAC: allowed by {} to {subject}", self.binding))
    }
}
