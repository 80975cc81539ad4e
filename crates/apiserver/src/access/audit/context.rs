//! Audit record of one request.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::decode::Format;
use api::kind::Kind;
use api::rbac::Action;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Audit;
use super::body::{identity, omit_managed_fields, parse};
use super::event::{Event, ObjectReference, User, micro_time};
use super::headers::{source_ips, user_agent};
use super::policy::{Decision, Level, Stage, Subject};
use crate::access::authentication::Identity;
use crate::access::authorization::{Attributes, AuthorizationDecision};
use crate::failure::Failure;
use crate::request::route::Target;
use crate::transport::response::{ApiResponse, StatusTree};

/// Response header with the audit ID, so that clients can find the events of their requests.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Audit record of one request, which emits an event at each stage.
pub(crate) struct AuditContext {
    audit: Arc<Audit>,
    id: String,
    request_uri: String,
    user_agent: String,
    source_ips: Vec<String>,
    received: Timestamp,
    record: Mutex<Record>,
}

/// Attributes that later stages of the request supply.
#[derive(Default)]
struct Record {
    /// `None` before authentication.
    decision: Option<Decision>,
    verb: String,
    user: User,
    impersonated: Option<User>,
    object: Option<ObjectReference>,
    /// Kind of the request and response bodies.
    kind: Option<&'static Kind>,
    request: Option<Value>,
    response: Option<Value>,
    status: Option<Value>,
    annotations: BTreeMap<String, String>,
    /// True after failed authentication. Upstream then records the stage `ResponseStarted` only.
    is_unauthenticated: bool,
    is_complete: bool,
}

impl AuditContext {
    /// Begins the audit of a request.
    pub(super) fn begin<B>(audit: Arc<Audit>, request: &Request<B>) -> AuditContext {
        let headers = request.headers();
        let peer = request.extensions().get::<SocketAddr>().map(SocketAddr::ip);
        let uri = request.uri();
        AuditContext {
            audit,
            id: uuid::Uuid::new_v4().to_string(),
            request_uri: uri.path_and_query().map_or("/", |uri| uri.as_str()).to_owned(),
            user_agent: user_agent(headers),
            source_ips: source_ips(headers, peer),
            received: Timestamp::now(),
            record: Mutex::default(),
        }
    }

    /// Applies the policy to an authenticated request, and records the stage `RequestReceived`.
    ///
    /// # Errors
    /// Fails if strict mode is configured and the event cannot be written.
    pub(crate) fn record_request_received(
        &self,
        attributes: &Attributes<'_>,
        target: Option<&Target>,
    ) -> Result<(), Failure> {
        self.decide(attributes, target, Some(attributes.user));
        if self.emit(&mut self.lock(), Stage::RequestReceived) {
            return Ok(());
        }
        self.audit.counts.count_rejected();
        Err(Failure::internal("failed to store audit event"))
    }

    /// Applies the policy to a request with invalid or missing credentials.
    pub(crate) fn record_authentication_failure(
        &self,
        attributes: &Attributes<'_>,
        target: Option<&Target>,
        attempted: &str,
    ) {
        self.decide(attributes, target, None);
        let mut record = self.lock();
        record.is_unauthenticated = true;
        record.status = Some(json!({
            "metadata": {}, "status": "Failure", "message": attempted, "reason": "Unauthorized", "code": 401,
        }));
    }

    fn decide(&self, attributes: &Attributes<'_>, target: Option<&Target>, user: Option<&Identity>) {
        let subject = Subject {
            user,
            namespace: attributes.namespace,
            action: &attributes.action,
        };
        let decision = self.audit.policy.decide(&subject);
        self.audit.counts.count_level(decision.level);
        let mut record = self.lock();
        let is_recorded = decision.level > Level::None;
        record.decision = Some(decision);
        if !is_recorded {
            return;
        }
        let (Action::Resource { verb, .. } | Action::Path { verb, .. }) = attributes.action;
        verb.clone_into(&mut record.verb);
        record.user = user.map(User::from).unwrap_or_default();
        record.kind = target.map(Target::sent_kind);
        record.object = object_reference(attributes, target);
    }

    /// Records the impersonated user.
    pub(crate) fn record_impersonation(&self, identity: &Identity) {
        let mut record = self.lock();
        if record.level() > Level::None {
            record.impersonated = Some(User::from(identity));
        }
    }

    /// Records the authorization decision.
    pub(crate) fn record_authorization(&self, decision: &AuthorizationDecision) {
        let (decision, reason) = match decision {
            AuthorizationDecision::Allowed(reason) => ("allow", &**reason),
            AuthorizationDecision::Denied(reason) => ("forbid", reason.as_str()),
        };
        self.annotate("authorization.k8s.io/decision", decision);
        self.annotate("authorization.k8s.io/reason", reason);
    }

    /// Adds an annotation. An existing annotation stays, as in upstream.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        let mut record = self.lock();
        if record.level() > Level::None && !record.annotations.contains_key(key) {
            record.annotations.insert(key.to_owned(), value.to_owned());
        }
    }

    /// Records the request body. `format` is `None` for a patch, which is JSON and does not identify an object.
    pub(crate) fn record_request_body(&self, bytes: &[u8], format: Option<Format>) {
        let mut record = self.lock();
        let (level, Some(kind)) = (record.level(), record.kind) else {
            return;
        };
        if level == Level::None || bytes.is_empty() || (level == Level::Metadata && format.is_none()) {
            return;
        }
        let Some(mut value) = parse(bytes, format.unwrap_or(Format::Json), kind) else {
            return;
        };
        if format.is_some()
            && let Some(object) = &mut record.object
        {
            let [name, uid, version] = identity(&value);
            for (field, value) in [
                (&mut object.name, name),
                (&mut object.uid, uid),
                (&mut object.resource_version, version),
            ] {
                if field.is_empty() {
                    *field = value;
                }
            }
        }
        if level >= Level::Request {
            if record.omits_managed_fields() {
                omit_managed_fields(&mut value);
            }
            record.request = Some(value);
        }
    }

    /// Records the response. The record of a long-running response is completed when its body ends.
    pub(crate) fn record_response(self: Arc<AuditContext>, mut response: ApiResponse) -> ApiResponse {
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        let status = response.extensions_mut().remove::<StatusTree>();
        let mut record = self.lock();
        if record.level() == Level::None {
            record.is_complete = true;
            drop(record);
            return response;
        }
        if record.is_unauthenticated {
            self.emit(&mut record, Stage::ResponseStarted);
            record.is_complete = true;
            drop(record);
            return response;
        }
        record.status = Some(response_status(response.status(), status.as_ref()));
        if record.level() >= Level::RequestResponse {
            record.response = self.response(&record, &response, status);
        }
        if response.body().is_long_running() {
            self.emit(&mut record, Stage::ResponseStarted);
            drop(record);
            return response.map(|body| body.recorded(self));
        }
        self.complete(&mut record);
        drop(record);
        response
    }

    /// Records a panic of the handler.
    pub(crate) fn record_panic(&self) {
        let mut record = self.lock();
        record.status = Some(json!({
            "metadata": {}, "status": "Failure", "message": "APIServer panic'd", "reason": "InternalError", "code": 500,
        }));
        self.emit(&mut record, Stage::Panic);
        record.is_complete = true;
    }

    fn response(&self, record: &Record, response: &ApiResponse, status: Option<StatusTree>) -> Option<Value> {
        if let Some(StatusTree(status)) = status {
            return Some(status);
        }
        let content_type = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
        let format = match content_type {
            json if json.starts_with("application/json") => Format::Json,
            yaml if yaml.starts_with("application/yaml") => Format::Yaml,
            _ => Format::Protobuf,
        };
        let mut value = parse(&response.body().whole()?, format, record.kind?)?;
        if record.omits_managed_fields() {
            omit_managed_fields(&mut value);
        }
        Some(value)
    }

    fn complete(&self, record: &mut Record) {
        if !record.is_complete && record.level() > Level::None {
            self.emit(record, Stage::ResponseComplete);
        }
        record.is_complete = true;
    }

    /// Writes an event unless the policy omits its stage. Returns false if the request must fail.
    fn emit(&self, record: &mut Record, stage: Stage) -> bool {
        let Some(decision) = &record.decision else {
            return true;
        };
        if decision.level == Level::None || decision.omits(stage) {
            return true;
        }
        let stage_time = match stage {
            Stage::RequestReceived => self.received,
            _ => Timestamp::now(),
        };
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: decision.level,
            audit_id: &self.id,
            stage,
            request_uri: &self.request_uri,
            verb: &record.verb,
            user: &record.user,
            impersonated_user: record.impersonated.as_ref(),
            source_ips: &self.source_ips,
            user_agent: &self.user_agent,
            object_ref: record.object.as_ref(),
            response_status: record.status.as_ref(),
            request_object: record.request.as_ref(),
            response_object: record.response.as_ref(),
            request_received_timestamp: micro_time(self.received),
            stage_timestamp: micro_time(stage_time),
            annotations: &record.annotations,
        };
        let mut line = match serde_json::to_vec(&event) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(%error, "audit event not encoded");
                self.audit.counts.count_log_errors(1);
                return true;
            }
        };
        line.push(b'\n');
        self.audit.counts.count_event();
        self.audit.backend.write(line)
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AuditContext {
    /// Completes the record of a long-running response, or of a request whose client disconnected before the
    /// response.
    fn drop(&mut self) {
        let mut record = std::mem::take(&mut *self.lock());
        if record.is_unauthenticated {
            return;
        }
        record.status.get_or_insert_with(
            || json!({"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200}),
        );
        self.complete(&mut record);
    }
}

impl Record {
    fn level(&self) -> Level {
        self.decision
            .as_ref()
            .map_or(Level::None, |decision| decision.level)
    }

    fn omits_managed_fields(&self) -> bool {
        self.decision
            .as_ref()
            .is_some_and(|decision| decision.omits_managed_fields)
    }
}

/// Returns the response status: code, and the other fields of a Status body.
fn response_status(code: StatusCode, status: Option<&StatusTree>) -> Value {
    let mut result = json!({"metadata": {}});
    if let Some(StatusTree(status)) = status {
        for field in ["status", "message", "reason", "details"] {
            if let Some(value) = status.get(field) {
                result[field] = value.clone();
            }
        }
    }
    result["code"] = json!(code.as_u16());
    result
}

fn object_reference(attributes: &Attributes<'_>, target: Option<&Target>) -> Option<ObjectReference> {
    let Action::Resource {
        group,
        resource,
        subresource,
        name,
        ..
    } = attributes.action
    else {
        return None;
    };
    Some(ObjectReference {
        resource: resource.to_owned(),
        namespace: attributes.namespace.to_owned(),
        name: name.to_owned(),
        api_group: group.to_owned(),
        api_version: target.map_or("", |target| target.kind.version).to_owned(),
        subresource: subresource.to_owned(),
        ..ObjectReference::default()
    })
}

/// Recorder of annotations for a write request; inactive without an audit log.
#[derive(Clone, Copy)]
pub(crate) struct Recorder<'t>(Option<&'t AuditContext>);

impl<'t> Recorder<'t> {
    /// Recorder that records nothing.
    pub(crate) const NONE: Recorder<'static> = Recorder(None);

    pub(crate) fn new(audit_context: Option<&'t AuditContext>) -> Recorder<'t> {
        Recorder(audit_context)
    }

    /// Adds an annotation to the events of the request.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        if let Some(audit_context) = self.0 {
            audit_context.annotate(key, value);
        }
    }
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorder")
            .field(&self.0.map(|audit_context| &audit_context.id))
            .finish()
    }
}

impl PartialEq for Recorder<'_> {
    fn eq(&self, other: &Recorder<'_>) -> bool {
        self.0.map(std::ptr::from_ref) == other.0.map(std::ptr::from_ref)
    }
}

impl Eq for Recorder<'_> {}
