//! Access filter: authentication, the user's rate, impersonation and authorization, in this order.

use std::sync::Arc;
use std::time::Instant;

use api::kind;
use http::HeaderMap;

use crate::access::audit::{AuditContext, attempted_authentication};
use crate::access::authentication::{Authenticator, Identity, impersonate};
use crate::access::authorization::{Attributes, AuthorizationDecision, Authorizer};
use crate::access::flow_control::{Flow, FlowControl, Subject};
use crate::failure::Failure;
use crate::request::request_info::RequestInfo;
use crate::request::route::Route;
use crate::request::verb::Verb;
use crate::transport::connection::source::Source;

/// Admits or refuses requests.
pub(crate) struct AccessFilter {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) flow_control: Arc<FlowControl>,
    /// True if requests without credentials are authorized as `system:anonymous`.
    pub(crate) allows_anonymous: bool,
}

/// Parts of a request that decide about access.
pub(crate) struct AccessRequest<'r> {
    pub(crate) info: &'r RequestInfo,
    pub(crate) headers: &'r HeaderMap,
    /// Address of the client.
    pub(crate) source: Option<Source>,
    /// Audit context of the request; `None` without an audit log.
    pub(crate) audit_context: Option<&'r AuditContext>,
}

/// Identity and limits of an admitted request.
pub(crate) struct AdmittedRequest {
    /// User in whose name the request is made.
    pub(crate) requester: Arc<Identity>,
    /// True if the client is authenticated.
    pub(crate) is_authenticated: bool,
    /// True if the client certificate authenticated the client.
    pub(crate) is_by_certificate: bool,
    /// Flow of the authenticated user. Impersonation does not change it.
    pub(crate) flow: Flow,
}

impl AccessFilter {
    /// Admits a request. `connection` is the identity of the client certificate.
    ///
    /// # Errors
    /// 401, 403 or 429 as `Status`.
    pub(crate) fn admit(
        &self,
        request: &AccessRequest<'_>,
        connection: Option<&Arc<Identity>>,
    ) -> Result<AdmittedRequest, Failure> {
        let authenticated = self
            .authenticator
            .authenticate(request.headers, connection, request.source)
            .inspect_err(|_| record_unauthenticated(request, connection))?;
        let is_health = matches!(request.info.route, Route::Health | Route::Version);
        let is_authenticated = !authenticated.is_anonymous();
        let flow = self.flow_control.flow(&authenticated, subject(request.info));
        if !is_authenticated && !self.authorizes_anonymous() {
            // Probes of health and version have no credentials.
            if is_health {
                record_received(request, &authenticated)?;
                return Ok(AdmittedRequest {
                    requester: authenticated,
                    is_authenticated,
                    is_by_certificate: false,
                    flow,
                });
            }
            record_unauthenticated(request, connection);
            return Err(Failure::unauthorized());
        }
        record_received(request, &authenticated)?;
        if !is_health {
            self.flow_control.count(flow, Instant::now())?;
        }
        let is_by_certificate = connection.is_some_and(|identity| Arc::ptr_eq(identity, &authenticated));
        let requester = impersonate(authenticated.clone(), request.headers, &self.authorizer)?;
        if let Some(audit_context) = request.audit_context
            && !Arc::ptr_eq(&authenticated, &requester)
        {
            audit_context.record_impersonation(&requester);
        }
        self.authorize(request, &requester)?;
        Ok(AdmittedRequest {
            requester,
            is_authenticated,
            is_by_certificate,
            flow,
        })
    }

    /// Returns true if anonymous requests are authorized. `AlwaysAllow` means authenticated users only.
    fn authorizes_anonymous(&self) -> bool {
        self.allows_anonymous && !self.authorizer.allows_everything()
    }

    /// Authorizes the verb of a request. Streams to Pods also need `create`, even with the method GET. A WebSocket
    /// connection permits the same actions as a POST (upstream's `AuthorizePodWebsocketUpgradeCreatePermission`).
    fn authorize(&self, request: &AccessRequest<'_>, requester: &Identity) -> Result<(), Failure> {
        let is_get = request.info.verb == Some(Verb::Get);
        if let Some(target) = request.info.target()
            && matches!(
                target.subresource,
                Some(kind::ATTACH | kind::EXEC | kind::PORT_FORWARD)
            )
            && is_get
        {
            let attributes = Attributes::of_target(requester, target, Verb::Create.name(), None);
            let decision = self.authorizer.decide(&attributes);
            if let AuthorizationDecision::Denied(reason) = &decision {
                if let Some(audit_context) = request.audit_context {
                    audit_context.record_authorization(&decision);
                }
                return Err(attributes.refusal(reason));
            }
        }
        with_attributes(request.info, requester, |attributes| {
            let decision = self.authorizer.decide(attributes);
            if let Some(audit_context) = request.audit_context {
                audit_context.record_authorization(&decision);
            }
            match decision {
                AuthorizationDecision::Allowed(_) => Ok(()),
                AuthorizationDecision::Denied(reason) => Err(attributes.refusal(&reason)),
            }
        })
    }
}

fn record_received(request: &AccessRequest<'_>, requester: &Identity) -> Result<(), Failure> {
    let Some(audit_context) = request.audit_context else {
        return Ok(());
    };
    with_attributes(request.info, requester, |attributes| {
        audit_context.record_request_received(attributes, request.info.target())
    })
}

fn record_unauthenticated(request: &AccessRequest<'_>, connection: Option<&Arc<Identity>>) {
    if let Some(audit_context) = request.audit_context {
        let attempted = attempted_authentication(request.headers, connection.is_some());
        with_attributes(request.info, &Identity::anonymous(), |attributes| {
            audit_context.record_authentication_failure(attributes, request.info.target(), &attempted);
        });
    }
}

/// Calls a function with the attributes of a request, which borrow from their parts.
fn with_attributes<T>(
    info: &RequestInfo,
    requester: &Identity,
    consider: impl FnOnce(&Attributes<'_>) -> T,
) -> T {
    if let Some(target) = info.target() {
        let selector = info.field_selector.as_ref();
        let attributes = Attributes::of_target(requester, target, info.verb_name(), selector);
        return consider(&attributes);
    }
    let method = info.method.as_str().to_ascii_lowercase();
    let attributes = Attributes::of_path(requester, info.path(), &info.method, &method);
    consider(&attributes)
}

/// Returns the attributes that select the flow schema.
fn subject(info: &RequestInfo) -> Subject<'_> {
    let Some(target) = info.target() else {
        return Subject::default();
    };
    Subject {
        verb: info.verb_name(),
        group: target.kind.group,
        resource: target.kind.plural,
    }
}
