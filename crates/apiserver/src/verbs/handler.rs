//! Handler of all requests: access, dispatch by route, execution, metrics and the audit record.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::kind;
use futures_util::FutureExt;
use http::{HeaderMap, Method, Request, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use tokio::task::{JoinError, JoinSet};

use crate::access::audit::{Audit, AuditContext};
use crate::access::filter::{AccessFilter, AccessRequest, AdmittedRequest};
use crate::access::flow_control::{Flow, LongRunning, RequestClass, Seat};
use crate::failure::Failure;
use crate::metrics::{Label, Metrics};
use crate::request::negotiation::{Accept, Encoding, body_format};
use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, served_verb};
use crate::request::route::{Route, Target};
use crate::request::verb::Verb;
use crate::transport::compression::{self, compress};
use crate::transport::connection::open_connections::{Connection, Connections};
use crate::transport::connection::source::Source;
use crate::transport::long_running::{RequestLifetime, Revocation};
use crate::transport::request_body::{self, BodyMemory, RequestBody};
use crate::transport::response::{self, ApiResponse, ResponseMemory, ResponsePermit};
use crate::verbs::call::Call;
use crate::verbs::discovery;
use crate::verbs::health;
use crate::verbs::proxy::reports::NodeReports;
use crate::verbs::proxy::resource_metrics::ResourceMetrics;
use crate::verbs::proxy::{AgentClient, PodProxy, logs, nodes, streams};
use crate::verbs::resource::Resources;
use crate::verbs::reviews::{Reviews, is_review};

/// Warning of every response about Endpoints (API-53).
const ENDPOINTS_DEPRECATED: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// Handler of all requests, shared by all connections.
pub(crate) struct Handler {
    pub(crate) resources: Arc<Resources>,
    pub(crate) access: AccessFilter,
    pub(crate) metrics: Metrics,
    pub(crate) connections: Arc<Connections>,
    pub(crate) bodies: Arc<BodyMemory>,
    pub(crate) responses: Arc<ResponseMemory>,
    pub(crate) pod_proxy: PodProxy,
    pub(crate) agents: AgentClient,
    pub(crate) reports: NodeReports,
    pub(crate) resource_metrics: ResourceMetrics,
    /// Audit log; `None` if it is disabled.
    pub(crate) audit: Option<Arc<Audit>>,
}

/// Verb on a target, with the parsed parts of its request.
struct Operation {
    target: Target,
    verb: Verb,
    query: Query,
    accept: Accept,
}

impl Handler {
    /// Handles a request. A panic becomes a response with status 500 and a log line; the connection stays open.
    pub(crate) async fn handle(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> ApiResponse {
        let audit_context = self.audit.as_ref().map(|audit| audit.begin(&request));
        if let Some(audit_context) = &audit_context {
            request.extensions_mut().insert(audit_context.clone());
        }
        let uri = request.uri().clone();
        let is_head = *request.method() == Method::HEAD;
        let accept = Accept::of(request.headers());
        let status_encoding = accept.status_encoding();
        let accepts_compression = compression::is_accepted(request.headers());
        let mut permit = None;
        let dispatched = async {
            let info = RequestInfo::of(&request, accept);
            self.dispatch(info, request, connection, &mut permit).await
        };
        let dispatched = AssertUnwindSafe(dispatched).catch_unwind().await;
        if let (Err(_), Some(audit_context)) = (&dispatched, &audit_context) {
            audit_context.record_panic();
        }
        let is_compressed = accepts_compression && matches!(dispatched, Ok(Ok(_)));
        let response = match dispatched {
            Ok(Ok(response)) => response,
            Ok(Err(failure)) => response::failure(&failure, status_encoding),
            Err(_) => {
                tracing::error!(path = uri.path(), "request handler panicked");
                response::failure(&unexpected_condition(), status_encoding)
            }
        };
        let is_compressed = is_compressed && compression::is_large_enough(response.body());
        // Before the audit log records the response: without memory, the client receives another one.
        let (response, permit) = response::reserve_memory(response, permit, is_compressed, status_encoding);
        let response = match audit_context {
            Some(audit_context) => audit_context.record_response(response),
            None => response,
        };
        let response = if is_compressed {
            compress(response)
        } else {
            response
        };
        let mut response = if is_head {
            response::without_body(response)
        } else {
            response
        };
        if let Some(permit) = permit {
            // The connection holds the permit until the client has received the response.
            response.extensions_mut().insert(Arc::new(permit));
        }
        response
    }

    /// Admits a request, and responds according to its route.
    async fn dispatch(
        self: Arc<Self>,
        mut info: RequestInfo,
        request: Request<Incoming>,
        connection: Arc<Connection>,
        permit: &mut Option<ResponsePermit>,
    ) -> Result<ApiResponse, Failure> {
        // Before the check of the certificate, so that a revocation between check and response is not missed.
        let revocation = connection.revocation();
        let admitted = self.admit(&info, &request, &connection)?;
        // Only authorization needs the selector, and the request can be open for minutes.
        info.field_selector = None;
        *permit = self.response_permit(&info, &request, &admitted)?;
        let _seat = match info.route {
            // Long-running requests take no seat; other requests on objects take theirs after their body.
            Route::Resource(_) | Route::Health | Route::Version => None,
            _ => Some(self.acquire_seat(admitted.flow, RequestClass::Read).await?),
        };
        let service_accounts = &self.access.authenticator.service_accounts;
        match info.route {
            Route::Version | Route::TokenKeys | Route::TokenIssuer if info.method != Method::GET => {
                Err(Failure::method_not_allowed())
            }
            Route::Health => Ok(health::respond(&self.resources, info.path(), &info.query).await),
            Route::Version => discovery::version(request.headers()),
            Route::TokenKeys => Ok(discovery::token_keys(service_accounts)),
            Route::TokenIssuer => Ok(discovery::token_issuer(service_accounts, host(&request))),
            Route::Resource(target) => {
                let operation = Operation {
                    verb: served_verb(&target, &info.method, info.verb)?,
                    target,
                    query: info.query,
                    accept: info.accept,
                };
                let revocation = revocation.filter(|_| admitted.is_by_certificate);
                let handler = self.clone();
                handler.operate(operation, request, admitted, revocation).await
            }
            Route::Document => {
                let is_served = info.method == Method::GET || !serves_get_only(info.path());
                let encoding = if is_served && !info.path().starts_with("/openapi/") {
                    discovery::encoding(&info.accept, request.headers())?
                } else {
                    Encoding::Json
                };
                let (query, headers) = (&info.query, request.headers());
                let document = discovery::document(info.path(), query, host(&request), headers, encoding)?;
                is_served
                    .then_some(document)
                    .ok_or_else(Failure::method_not_allowed)
            }
            Route::CustomResourceDefinitions => self.custom_resource_definitions(&info),
            Route::Metrics => Ok(response::text(StatusCode::OK, self.render_metrics())),
            Route::UnknownResource => Err(Failure::no_such_path()),
            // Clients of evictions read 404 as a Pod that is gone.
            Route::UnservedSubresource => Err(Failure::method_not_allowed()),
            Route::Unknown => Ok(response::text(StatusCode::NOT_FOUND, "404 page not found\n")),
        }
    }

    /// Admits a request, and counts it if it is refused.
    fn admit(
        &self,
        info: &RequestInfo,
        request: &Request<Incoming>,
        connection: &Connection,
    ) -> Result<AdmittedRequest, Failure> {
        let access_request = AccessRequest {
            info,
            headers: request.headers(),
            source: client_address(request),
            audit_context: request.extensions().get::<Arc<AuditContext>>().map(Arc::as_ref),
        };
        let admitted = self.access.admit(&access_request, connection.identity());
        let admitted = admitted.inspect_err(|failure| self.count_refused(info, failure))?;
        if admitted.is_authenticated {
            connection.authenticate();
        }
        tracing::debug!(user = %admitted.requester.user, method = %info.method, path = info.path(), "request admitted");
        Ok(admitted)
    }

    /// Returns the permit for the memory of the response; `None` for probes of health and version. Clients without
    /// credentials are counted by their address.
    fn response_permit(
        &self,
        info: &RequestInfo,
        request: &Request<Incoming>,
        admitted: &AdmittedRequest,
    ) -> Result<Option<ResponsePermit>, Failure> {
        if matches!(info.route, Route::Health | Route::Version) {
            return Ok(None);
        }
        let holder = match client_address(request) {
            Some(source) if !admitted.is_authenticated => self.access.flow_control.source_key(source),
            _ => admitted.flow.user,
        };
        let permit = self.responses.begin(holder, admitted.flow.reserve_access())?;
        Ok(Some(permit))
    }

    /// Lists CustomResourceDefinitions. A watch would never report one, so it is not served.
    fn custom_resource_definitions(&self, info: &RequestInfo) -> Result<ApiResponse, Failure> {
        if info.method != Method::GET {
            return Err(Failure::method_not_allowed());
        }
        if info.query.flag("watch") == Some(true) {
            return Err(Failure::no_such_path());
        }
        let revision = self.resources.store.index().revision();
        Ok(discovery::custom_resource_definitions(revision))
    }

    fn count_refused(&self, info: &RequestInfo, failure: &Failure) {
        if let Some(target) = info.target()
            && let Ok(verb) = served_verb(target, &info.method, info.verb)
        {
            let label = label(target, verb, &info.query);
            let code = failure.code().as_u16();
            self.metrics.requests.completed(label, code, Duration::ZERO, None);
        }
    }

    fn render_metrics(&self) -> String {
        self.metrics.render(&self.resources, |out| {
            self.access.flow_control.write_metrics(out);
            self.connections.write_metrics(out);
        })
    }

    /// Performs an operation, and counts it.
    async fn operate(
        self: Arc<Self>,
        operation: Operation,
        request: Request<Incoming>,
        admitted: AdmittedRequest,
        revocation: Option<Revocation>,
    ) -> Result<ApiResponse, Failure> {
        let begin = Instant::now();
        let label = label(&operation.target, operation.verb, &operation.query);
        let is_deprecated = operation.target.kind.kind == "Endpoints";
        let status_encoding = operation.accept.status_encoding();
        let performed = self.clone().perform(operation, request, admitted, revocation);
        let response = performed
            .await
            .unwrap_or_else(|failure| response::failure(&failure, status_encoding));
        let bytes = response.body().size_hint().exact();
        let code = response.status().as_u16();
        self.metrics
            .requests
            .completed(label, code, begin.elapsed(), bytes);
        if is_deprecated {
            Ok(response::with_deprecation(response, ENDPOINTS_DEPRECATED))
        } else {
            Ok(response)
        }
    }

    /// Performs an operation that is authorized.
    async fn perform(
        self: Arc<Self>,
        operation: Operation,
        request: Request<Incoming>,
        admitted: AdmittedRequest,
        revocation: Option<Revocation>,
    ) -> Result<ApiResponse, Failure> {
        let Operation {
            target,
            verb,
            query,
            accept,
        } = operation;
        let AdmittedRequest { requester, flow, .. } = admitted;
        if is_forwarded(&target) {
            return self.forward(&target, &query, request, flow, revocation).await;
        }
        if target.kind.is_measured() {
            let call = Call {
                target,
                verb,
                headers: request.headers().clone(),
                query,
                accept,
                body: RequestBody::none(),
                requester,
                audit_context: request.extensions().get::<Arc<AuditContext>>().cloned(),
            };
            return self.measured(call, flow, revocation).await;
        }
        let (parts, body) = request.into_parts();
        let (body, class) = if verb.is_read() {
            (RequestBody::none(), RequestClass::Read)
        } else {
            let body = request_body::read(body, &self.bodies, flow).await?;
            (body, RequestClass::Write)
        };
        let audit_context = parts.extensions.get::<Arc<AuditContext>>().cloned();
        if let Some(audit_context) = &audit_context {
            record_body(audit_context, verb, &parts.headers, &body);
        }
        let seat = self.acquire_seat(flow, class).await?;
        let _in_flight = self.metrics.begin(verb.is_read());
        let call = Call {
            target,
            verb,
            headers: parts.headers,
            query,
            accept,
            body,
            requester,
            audit_context,
        };
        if is_review(&call.target) {
            return self.review(&call);
        }
        match verb {
            Verb::List => self.list(call, seat, flow).await,
            Verb::Watch => self.watch(&call, flow, revocation).await,
            _ if verb.is_read() => call.get(&self.resources).await,
            _ => self.write(call, seat, flow).await,
        }
    }
}

impl Handler {
    /// Forwards a request to a Pod or to the agent of a node. It takes no seat; it is counted among those of its user until
    /// the response ends.
    async fn forward(
        &self,
        target: &Target,
        query: &Query,
        request: Request<Incoming>,
        flow: Flow,
        revocation: Option<Revocation>,
    ) -> Result<ApiResponse, Failure> {
        let resources = &self.resources;
        match target.subresource {
            Some(kind::LOG) => {
                let lifetime = self.begin_long_running(flow, LongRunning::Log, revocation)?;
                let encoded_query = request.uri().query().unwrap_or_default();
                logs::read(&self.agents, resources, target, query, encoded_query, lifetime).await
            }
            Some(kind::ATTACH | kind::EXEC | kind::PORT_FORWARD) => {
                let lifetime = self.begin_long_running(flow, LongRunning::Proxy, revocation)?;
                streams::connect(&self.agents, resources, target, query, request, lifetime).await
            }
            Some(kind::OBSERVATION | kind::FLOWS) => {
                let lifetime = self.begin_long_running(flow, LongRunning::Proxy, revocation)?;
                let reading = self
                    .reports
                    .read(&self.agents, resources, target, query, flow, lifetime);
                reading.await
            }
            _ if target.kind.kind == "Node" => {
                let lifetime = self.begin_long_running(flow, LongRunning::Proxy, revocation)?;
                let encoded_query = request.uri().query().unwrap_or_default();
                nodes::read(&self.agents, resources, target, encoded_query, lifetime).await
            }
            _ => {
                let lifetime = self.begin_long_running(flow, LongRunning::Proxy, revocation)?;
                self.pod_proxy.forward(resources, target, request, lifetime).await
            }
        }
    }

    /// Answers a read of measurements. While the agents answer, it takes no seat, and is counted among the requests of its
    /// user. Then it encodes as a list does, in a task of its own.
    async fn measured(
        &self,
        call: Call,
        flow: Flow,
        revocation: Option<Revocation>,
    ) -> Result<ApiResponse, Failure> {
        let mut lifetime = self.begin_long_running(flow, LongRunning::Proxy, revocation)?;
        let collecting = self.resource_metrics.collect(&self.agents, &self.resources);
        let reports = lifetime.during(collecting).await?;
        drop(lifetime);
        let seat = self.acquire_seat(flow, RequestClass::Read).await?;
        let _in_flight = self.metrics.begin(true);
        let resources = self.resources.clone();
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            let _seat = seat;
            call.read_measured(&resources, &reports).await
        });
        let ended = reading.join_next().await;
        ended.map_or_else(|| Err(unexpected_condition()), result_of_task)
    }

    /// Answers a review or a token request, which are not stored.
    fn review(&self, call: &Call) -> Result<ApiResponse, Failure> {
        let reviews = Reviews {
            authenticator: &self.access.authenticator,
            authorizer: &self.access.authorizer,
            admission: &self.resources.admission,
            requester: &call.requester,
        };
        reviews.answer(
            &call.target,
            &call.query,
            &call.accept,
            &call.headers,
            call.body.bytes(),
        )
    }

    /// Lists in a task of its own: encoding a long list must not delay the other streams of the connection.
    async fn list(&self, call: Call, seat: Seat, flow: Flow) -> Result<ApiResponse, Failure> {
        let resources = self.resources.clone();
        let memory = self.responses.begin(flow.user, flow.reserve_access())?;
        let mut listing = JoinSet::new();
        listing.spawn(async move {
            let _seat = seat;
            call.list(&resources, memory).await
        });
        let ended = listing.join_next().await;
        ended.map_or_else(|| Err(unexpected_condition()), result_of_task)
    }

    /// Begins a watch. It takes no seat; it is counted among those of its user until the response ends.
    async fn watch(
        &self,
        call: &Call,
        flow: Flow,
        revocation: Option<Revocation>,
    ) -> Result<ApiResponse, Failure> {
        let permit = self
            .access
            .flow_control
            .acquire_watch(flow, call.selector_bytes())?;
        let lifetime = RequestLifetime::new(permit, revocation);
        let memory = self.responses.begin(flow.user, flow.reserve_access())?;
        let response = call.watch(&self.resources, memory).await?;
        Ok(response::with_lifetime(response, lifetime))
    }

    /// Writes in a task of its own. If the client disconnects, the task continues and keeps its seat: an interrupted
    /// write would leave allocations without owner.
    async fn write(&self, call: Call, seat: Seat, flow: Flow) -> Result<ApiResponse, Failure> {
        let resources = self.resources.clone();
        // Other writes respond with one object.
        let memory = match call.verb {
            Verb::DeleteCollection => Some(self.responses.begin(flow.user, flow.reserve_access())?),
            _ => None,
        };
        let changes_roles = call.target.kind.group == api::rbac::GROUP;
        let writing = async move {
            let _seat = seat;
            call.write(&resources, memory).await
        };
        let written = tokio::spawn(writing).await;
        if changes_roles {
            // A client that has received the response finds the role applied.
            self.access.authorizer.refresh_on_blocking_thread().await;
        }
        result_of_task(written)
    }

    async fn acquire_seat(&self, flow: Flow, class: RequestClass) -> Result<Seat, Failure> {
        self.access.flow_control.acquire_seat(flow, class).await
    }

    fn begin_long_running(
        &self,
        flow: Flow,
        kind: LongRunning,
        revocation: Option<Revocation>,
    ) -> Result<RequestLifetime, Failure> {
        let permit = self.access.flow_control.acquire_long_running(flow, kind)?;
        Ok(RequestLifetime::new(permit, revocation))
    }
}

/// Returns true for discovery documents that serve GET only. As upstream: these are `/api` with its versions, and the
/// versions of groups. Other documents are served for any method that the client may use.
fn serves_get_only(path: &str) -> bool {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    match (segments.next(), segments.nth(1)) {
        (Some("api"), _) => true,
        (Some("apis"), version) => version.is_some(),
        _ => false,
    }
}

/// Returns true if a Pod or the agent of a node answers the request.
fn is_forwarded(target: &Target) -> bool {
    let by_agent = matches!(
        target.subresource,
        Some(kind::ATTACH | kind::EXEC | kind::LOG | kind::OBSERVATION | kind::FLOWS | kind::PORT_FORWARD)
    );
    target.proxy_path.is_some() || by_agent
}

/// Returns the label of the request metrics.
fn label(target: &Target, verb: Verb, query: &Query) -> Label {
    let is_connection = matches!(
        target.subresource,
        Some(kind::ATTACH | kind::EXEC | kind::PORT_FORWARD)
    );
    let verb = if target.proxy_path.is_some() || is_connection {
        "CONNECT"
    } else {
        verb.metrics_label()
    };
    Label::new(target, verb, query.has("dryRun"))
}

/// Records the body of a write. A body of unknown format is rejected later, and not recorded.
fn record_body(audit_context: &AuditContext, verb: Verb, headers: &HeaderMap, body: &RequestBody) {
    if verb == Verb::Patch {
        audit_context.record_request_body(body.bytes(), None);
    } else if let Ok(format) = body_format(headers) {
        audit_context.record_request_body(body.bytes(), Some(format));
    }
}

/// Returns the result of a verb that ran in a task of its own.
fn result_of_task(ended: Result<Result<ApiResponse, Failure>, JoinError>) -> Result<ApiResponse, Failure> {
    ended.unwrap_or_else(|error| {
        tracing::error!(%error, "verb task panicked");
        Err(unexpected_condition())
    })
}

fn unexpected_condition() -> Failure {
    Failure::internal("the server met an unexpected condition")
}

/// Returns the source address of the request.
fn client_address(request: &Request<Incoming>) -> Option<Source> {
    let peer = request.extensions().get::<SocketAddr>()?;
    Some(Source::from(peer.ip()))
}

/// Returns the host and port by which the client addresses the server.
fn host(request: &Request<Incoming>) -> &str {
    let header = request
        .headers()
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    header
        .or_else(|| request.uri().authority().map(|authority| authority.as_str()))
        .unwrap_or_default()
}
