//! Authorization: members of `system:masters` may do everything, nodes may access what their Pods need, and other
//! users have the rights of their roles.
//!
//! [`policy`] holds a snapshot of all roles, indexed by subject. A decision takes a few map look-ups and no lock on
//! the roles. A change of a role or binding replaces the snapshot.

mod attributes;
mod bgp_passwords;
mod default_roles;
mod edge_report;
mod edge_secrets;
#[cfg(test)]
mod identities;
mod node;
mod policy;
mod reconcile;
mod review_selectors;
pub(crate) mod reviews;
mod rules_review;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use attributes::Attributes;
pub(crate) use policy::Policy;
pub(crate) use reconcile::ensure_default_roles;
pub(crate) use source::follow;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use store::Store;

use crate::failure::Failure;
use node::NodeAuthorizer;
use policy::RbacDecision;
use source::Source;

/// Parses the embedded default roles, unless they are parsed already.
pub(crate) fn load_default_roles() {
    default_roles::load();
}

/// Authorization mode. A request is allowed if any configured mode allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Allows all authenticated users everything.
    AlwaysAllow,
    /// Allows nothing, except to members of `system:masters`.
    AlwaysDeny,
    /// Allows an agent access to its Node and the objects of its Pods, and an edge access to the Secrets that
    /// Services reference.
    Node,
    /// Allows the requests that Roles and ClusterRoles grant.
    Rbac,
}

impl AuthorizationMode {
    /// All modes, for parsing.
    const ALL: [AuthorizationMode; 4] = [
        AuthorizationMode::AlwaysAllow,
        AuthorizationMode::AlwaysDeny,
        AuthorizationMode::Node,
        AuthorizationMode::Rbac,
    ];

    /// Returns the name on the command line.
    fn name(self) -> &'static str {
        match self {
            AuthorizationMode::AlwaysAllow => "AlwaysAllow",
            AuthorizationMode::AlwaysDeny => "AlwaysDeny",
            AuthorizationMode::Node => "Node",
            AuthorizationMode::Rbac => "RBAC",
        }
    }
}

impl fmt::Display for AuthorizationMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AuthorizationMode {
    type Err = String;

    fn from_str(text: &str) -> Result<AuthorizationMode, String> {
        let found = AuthorizationMode::ALL
            .into_iter()
            .find(|mode| mode.name() == text);
        found.ok_or_else(|| {
            let names = AuthorizationMode::ALL.map(AuthorizationMode::name).join(", ");
            format!("expected an authorization mode ({names}), found {text:?}")
        })
    }
}

/// Decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthorizationDecision {
    /// The request is allowed; the reason for reviews.
    Allowed(Arc<str>),
    /// No mode allows the request; the reason, or "".
    Denied(String),
}

/// Decides about requests with the configured modes.
pub(crate) struct Authorizer {
    modes: Vec<AuthorizationMode>,
    policy: ArcSwap<Policy>,
    source: Mutex<Source>,
    nodes: NodeAuthorizer,
    /// Secrets that edges may read.
    edge_secrets: edge_secrets::Secrets,
    store: Arc<dyn Store>,
}

impl Authorizer {
    /// Creates an authorizer with the roles in `store`.
    pub(crate) fn new(modes: Vec<AuthorizationMode>, store: Arc<dyn Store>) -> Authorizer {
        let authorizer = Authorizer {
            modes,
            policy: ArcSwap::from_pointee(Policy::default()),
            source: Mutex::new(Source::default()),
            nodes: NodeAuthorizer::default(),
            edge_secrets: edge_secrets::Secrets::default(),
            store,
        };
        authorizer.refresh();
        authorizer
    }

    /// Returns true if the mode `AlwaysAllow` is configured. Unauthenticated requests are rejected in that case.
    pub(crate) fn allows_everything(&self) -> bool {
        self.modes.contains(&AuthorizationMode::AlwaysAllow)
    }

    /// Returns the 403 response unless the request is allowed.
    pub(crate) fn check(&self, attributes: &Attributes<'_>) -> Result<(), Failure> {
        match self.decide(attributes) {
            AuthorizationDecision::Allowed(_) => Ok(()),
            AuthorizationDecision::Denied(reason) => Err(attributes.refusal(&reason)),
        }
    }

    /// Decides about a request.
    pub(crate) fn decide(&self, attributes: &Attributes<'_>) -> AuthorizationDecision {
        if attributes.user.is_privileged() {
            return AuthorizationDecision::Allowed(Arc::from(""));
        }
        let (mut missing_roles, mut reasons) = (Vec::new(), Vec::new());
        for mode in &self.modes {
            match mode {
                AuthorizationMode::AlwaysAllow => return AuthorizationDecision::Allowed(Arc::from("")),
                AuthorizationMode::AlwaysDeny => {}
                AuthorizationMode::Node if edge_report::is_allowed(attributes) => {
                    return AuthorizationDecision::Allowed(Arc::from(""));
                }
                AuthorizationMode::Node => {
                    let index = self.store.index();
                    match self.nodes.decide(attributes, index) {
                        node::NodeDecision::Allowed => return AuthorizationDecision::Allowed(Arc::from("")),
                        node::NodeDecision::Denied(reason) => reasons.push(reason),
                        node::NodeDecision::NoOpinion
                            if edge_secrets::is_allowed(attributes, index, &self.edge_secrets)
                                || bgp_passwords::is_allowed(attributes, index) =>
                        {
                            return AuthorizationDecision::Allowed(Arc::from(""));
                        }
                        node::NodeDecision::NoOpinion => {}
                    }
                }
                AuthorizationMode::Rbac => {
                    match self
                        .policy
                        .load()
                        .decide(attributes.user, attributes.namespace, &attributes.action)
                    {
                        RbacDecision::Allowed(reason) => return AuthorizationDecision::Allowed(reason),
                        RbacDecision::Undecided(missing) => missing_roles.extend(missing),
                    }
                }
            }
        }
        reasons.extend(match missing_roles.as_slice() {
            [] => None,
            [one] => Some(format!("RBAC: {one}")),
            several => Some(format!("RBAC: [{}]", several.join(", "))),
        });
        AuthorizationDecision::Denied(reasons.join("\n"))
    }

    /// Applies Pod changes to the node authorizer, so that the next request of a node has few to apply.
    fn refresh_nodes(&self) {
        self.nodes.refresh(self.store.index());
    }

    /// Returns the current snapshot of the roles.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Applies changed roles and bindings as [`Authorizer::refresh`], on a thread for blocking work. With hundreds of thousands
    /// of subjects it takes a second, and concurrent calls wait for each other. The threads of other requests must not wait.
    pub(crate) async fn refresh_on_blocking_thread(self: &Arc<Self>) {
        let authorizer = Arc::clone(self);
        if let Err(error) = tokio::task::spawn_blocking(move || authorizer.refresh()).await {
            tracing::error!(%error, "changed roles not applied; the previous policy applies");
        }
    }

    /// Applies changed roles and bindings. It runs after each write of a role or binding, so that it is effective for
    /// the writer's next request. Writes of other servers cause it, too.
    pub(crate) fn refresh(&self) {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        match source.refresh(self.store.index()) {
            Ok(true) => self.policy.store(Arc::new(source.policy())),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%error, "changed roles not read; the previous policy applies")
            }
        }
    }
}
