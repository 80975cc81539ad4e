//! Who may do what: the group `system:masters` everything, nodes what their Pods need, and everybody what the
//! roles say that are bound to them.
//!
//! [`policy`] holds the roles as they were at one moment, in a form in which a request is decided with a few look-ups
//! by name and without waiting for anybody. It is exchanged as a whole when a role or a binding changes.

mod attributes;
mod default_roles;
mod edge;
mod edge_report;
#[cfg(test)]
mod identities;
mod node;
mod policy;
mod reconcile;
pub(crate) mod reviews;
mod rules_review;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use attributes::{Attributes, field_selector, verb};
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
use policy::Decision;
use source::Source;

/// A way to decide who may do what; the first that allows something counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Everybody who has proved an identity may do everything.
    AlwaysAllow,
    /// Nobody but the privileged group may do anything.
    AlwaysDeny,
    /// A node's agent may do what it needs for itself and for the Pods of its node, and an edge may read the Secrets that
    /// Services name for it.
    Node,
    /// Roles and their bindings.
    Rbac,
}

impl AuthorizationMode {
    /// All of them.
    const ALL: [AuthorizationMode; 4] = [
        AuthorizationMode::AlwaysAllow,
        AuthorizationMode::AlwaysDeny,
        AuthorizationMode::Node,
        AuthorizationMode::Rbac,
    ];

    /// The name on the command line.
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
            let known = AuthorizationMode::ALL.map(AuthorizationMode::name).join(", ");
            format!("{text:?} is no authorization mode; there are {known}")
        })
    }
}

/// What is decided, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may be done; why, for those who ask.
    Allowed(Arc<str>),
    /// Nothing allows it; what stood in the way of finding out, "" if nothing did.
    Refused(String),
}

/// Decides about requests.
pub(crate) struct Authorizer {
    modes: Vec<AuthorizationMode>,
    policy: ArcSwap<Policy>,
    source: Mutex<Source>,
    nodes: NodeAuthorizer,
    /// The Secrets that edges may read.
    edge_secrets: edge::Secrets,
    store: Arc<dyn Store>,
}

impl Authorizer {
    /// With the roles that are in the store.
    pub(crate) fn new(modes: Vec<AuthorizationMode>, store: Arc<dyn Store>) -> Authorizer {
        let authorizer = Authorizer {
            modes,
            policy: ArcSwap::from_pointee(Policy::default()),
            source: Mutex::new(Source::default()),
            nodes: NodeAuthorizer::default(),
            edge_secrets: edge::Secrets::default(),
            store,
        };
        authorizer.refresh();
        authorizer
    }

    /// Whether everybody may do everything; then at least nobody may who proves nothing.
    pub(crate) fn allows_everything(&self) -> bool {
        self.modes.contains(&AuthorizationMode::AlwaysAllow)
    }

    /// An error, as the client is told, unless somebody may do what they want to.
    pub(crate) fn check(&self, attributes: &Attributes<'_>) -> Result<(), Failure> {
        match self.decide(attributes) {
            Verdict::Allowed(_) => Ok(()),
            Verdict::Refused(why) => Err(attributes.refusal(&why)),
        }
    }

    /// Whether somebody may do what they want to.
    pub(crate) fn decide(&self, attributes: &Attributes<'_>) -> Verdict {
        if attributes.user.is_privileged() {
            return Verdict::Allowed(Arc::from(""));
        }
        let (mut obstacles, mut reasons) = (Vec::new(), Vec::new());
        for mode in &self.modes {
            match mode {
                AuthorizationMode::AlwaysAllow => return Verdict::Allowed(Arc::from("")),
                AuthorizationMode::AlwaysDeny => {}
                AuthorizationMode::Node if edge_report::allows(attributes) => {
                    return Verdict::Allowed(Arc::from(""));
                }
                AuthorizationMode::Node => {
                    let index = self.store.index();
                    match self.nodes.decide(attributes, index) {
                        node::Verdict::Allowed => return Verdict::Allowed(Arc::from("")),
                        node::Verdict::Refused(why) => reasons.push(why),
                        node::Verdict::NoOpinion if edge::allows(attributes, index, &self.edge_secrets) => {
                            return Verdict::Allowed(Arc::from(""));
                        }
                        node::Verdict::NoOpinion => {}
                    }
                }
                AuthorizationMode::Rbac => {
                    match self
                        .policy
                        .load()
                        .decide(attributes.user, attributes.namespace, &attributes.action)
                    {
                        Decision::Allowed(why) => return Verdict::Allowed(why),
                        Decision::Undecided(missing) => obstacles.extend(missing),
                    }
                }
            }
        }
        reasons.extend(match obstacles.as_slice() {
            [] => None,
            [one] => Some(format!("RBAC: {one}")),
            several => Some(format!("RBAC: [{}]", several.join(", "))),
        });
        Verdict::Refused(reasons.join("\n"))
    }

    /// Takes in the Pods that have changed, so that the next request of a node finds few of them.
    fn refresh_nodes(&self) {
        self.nodes.refresh(self.store.index());
    }

    /// The roles as they are now.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Takes in what has changed in the store. Called after every write of a role or a binding, so that the writer
    /// finds it in force, and when another server has written one.
    pub(crate) fn refresh(&self) {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        match source.refresh(self.store.index()) {
            Ok(true) => self.policy.store(Arc::new(source.policy())),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%error, "changed roles could not be read; the old ones stay in force")
            }
        }
    }
}
