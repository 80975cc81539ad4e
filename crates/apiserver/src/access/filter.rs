//! What stands before every request: who asks, whether they ask too much, and whether they may.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, Method};

use crate::access::audit::{AuditContext, attempted_authentication};
use crate::access::authentication::{Authenticator, Identity, impersonate};
use crate::access::authorization::{Attributes, Authorizer, Verdict, field_selector, verb};
use crate::access::flow_control::{Flow, FlowControl, Subject};
use crate::failure::Failure;
use crate::request::query::Query;
use crate::request::route::{Route, Target};
use crate::transport::connection::census::Source;

/// Lets requests through.
pub(crate) struct Gate {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) flow_control: Arc<FlowControl>,
    /// Whether requests that prove no identity are decided about, too.
    pub(crate) allows_anonymous: bool,
}

/// What of a request counts here.
pub(crate) struct Asking<'r> {
    pub(crate) route: &'r Route<'r>,
    pub(crate) method: &'r Method,
    pub(crate) path: &'r str,
    pub(crate) query: &'r str,
    pub(crate) headers: &'r HeaderMap,
    /// The client's address.
    pub(crate) source: Option<Source>,
    /// Audit record of the request; `None` without an audit log.
    pub(crate) audit_context: Option<&'r AuditContext>,
}

/// Somebody who was let through.
pub(crate) struct Passage {
    /// The user in whose name the request is made.
    pub(crate) requester: Arc<Identity>,
    /// Set if the client is authenticated.
    pub(crate) is_authenticated: bool,
    /// Set if the client certificate authenticated the client.
    pub(crate) is_by_certificate: bool,
    /// The sort of the request, and the user who proved an identity: impersonation does not change it.
    pub(crate) flow: Flow,
}

impl Gate {
    /// Lets a request through, or says why not.
    pub(crate) fn pass(
        &self,
        asking: &Asking<'_>,
        connection: Option<&Arc<Identity>>,
    ) -> Result<Passage, Failure> {
        let requester = self
            .authenticator
            .authenticate(asking.headers, connection, asking.source)
            .inspect_err(|_| self.record_unauthenticated(asking, connection))?;
        let is_health = matches!(asking.route, Route::Health | Route::Version);
        let is_authenticated = !requester.is_anonymous();
        let flow = self.flow_control.flow(&requester, asking.subject());
        if !is_authenticated && !self.decides_about_anonymous() {
            // Whoever watches over the server has no credentials.
            if is_health {
                self.record_received(asking, &requester)?;
                return Ok(Passage {
                    requester,
                    is_authenticated,
                    is_by_certificate: false,
                    flow,
                });
            }
            self.record_unauthenticated(asking, connection);
            return Err(Failure::unauthorized());
        }
        self.record_received(asking, &requester)?;
        if !is_health {
            self.flow_control.count(flow, Instant::now())?;
        }
        let authenticated = requester;
        let is_by_certificate = connection.is_some_and(|identity| Arc::ptr_eq(identity, &authenticated));
        let requester = impersonate(authenticated.clone(), asking.headers, &self.authorizer)?;
        if let Some(audit_context) = asking
            .audit_context
            .filter(|_| !Arc::ptr_eq(&authenticated, &requester))
        {
            audit_context.record_impersonation(&requester);
        }
        self.authorize(asking, &requester)?;
        Ok(Passage {
            requester,
            is_authenticated,
            is_by_certificate,
            flow,
        })
    }

    /// Where everybody may do everything, that is meant for those who have proved who they are.
    fn decides_about_anonymous(&self) -> bool {
        self.allows_anonymous && !self.authorizer.allows_everything()
    }

    fn authorize(&self, asking: &Asking<'_>, requester: &Identity) -> Result<(), Failure> {
        self.with_attributes(asking, requester, |attributes| {
            let verdict = self.authorizer.decide(attributes);
            if let Some(audit_context) = asking.audit_context {
                audit_context.record_authorization(&verdict);
            }
            match verdict {
                Verdict::Allowed(_) => Ok(()),
                Verdict::Denied(reason) => Err(attributes.refusal(&reason)),
            }
        })
    }

    fn record_received(&self, asking: &Asking<'_>, requester: &Identity) -> Result<(), Failure> {
        let Some(audit_context) = asking.audit_context else {
            return Ok(());
        };
        self.with_attributes(asking, requester, |attributes| {
            audit_context.record_request_received(attributes, asking.target())
        })
    }

    fn record_unauthenticated(&self, asking: &Asking<'_>, connection: Option<&Arc<Identity>>) {
        if let Some(audit_context) = asking.audit_context {
            let attempted = attempted_authentication(asking.headers, connection.is_some());
            self.with_attributes(asking, &Identity::anonymous(), |attributes| {
                audit_context.record_authentication_failure(attributes, asking.target(), &attempted);
            });
        }
    }

    /// Gives a function what somebody asks for, as authorization sees it.
    fn with_attributes<T>(
        &self,
        asking: &Asking<'_>,
        requester: &Identity,
        consider: impl FnOnce(&Attributes<'_>) -> T,
    ) -> T {
        if let Route::Resource(target) = asking.route {
            let query = Query::parse(asking.query);
            let selector = field_selector(&query, target.kind);
            let verb = asking.verb(target);
            let attributes = Attributes::of_target(requester, target, verb, selector.as_ref());
            return consider(&attributes);
        }
        let method = asking.method.as_str().to_ascii_lowercase();
        let attributes = Attributes::of_path(requester, asking.path, asking.method, &method);
        consider(&attributes)
    }
}

impl Asking<'_> {
    fn target(&self) -> Option<&Target> {
        match self.route {
            Route::Resource(target) => Some(target),
            _ => None,
        }
    }

    fn verb(&self, target: &Target) -> &'static str {
        let is_watch = Query::parse(self.query).flag("watch") == Some(true);
        verb(self.method, target.name.is_some(), is_watch, target.is_watch_path)
    }

    /// Attributes that select the flow schema.
    fn subject(&self) -> Subject<'_> {
        let Route::Resource(target) = self.route else {
            return Subject::default();
        };
        Subject {
            verb: self.verb(target),
            group: target.kind.group,
            resource: target.kind.plural,
        }
    }
}
