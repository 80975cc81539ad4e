//! From a request to an answer: who asks, what for, and which verb does it.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::{HeaderMap, Method, Request, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use tokio::task::{JoinError, JoinSet};

use crate::access::audit::{Audit, AuditContext};
use crate::access::filter::{Asking, Gate, Passage};
use crate::access::flow_control::{Flow, LongRunning, RequestClass};
use crate::failure::Failure;
use crate::metrics::{Label, Metrics};
use crate::request::negotiation::{body_format, status_encoding};
use crate::request::query::Query;
use crate::request::route::{Route, Target, route};
use crate::transport::compression::{self, compressed};
use crate::transport::connection::census::Source;
use crate::transport::connection::open_connections::{Connection, Connections};
use crate::transport::long_running::{Cut, Lasting};
use crate::transport::request_body::{self, BodyRoom, RequestBody};
use crate::transport::response::{self, ApiResponse};
use crate::verbs::call::{Call, Verb};
use crate::verbs::discovery;
use crate::verbs::health;
use crate::verbs::proxy::{PodLogs, PodProxy};
use crate::verbs::resource::Resources;
use crate::verbs::reviews::{Reviews, is_review};

/// What every request about Endpoints is told (API-53).
const ENDPOINTS_DEPRECATED: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// Answers requests. Shared by all connections.
pub(crate) struct Handler {
    pub(crate) resources: Arc<Resources>,
    pub(crate) gate: Gate,
    pub(crate) metrics: Metrics,
    pub(crate) connections: Arc<Connections>,
    pub(crate) bodies: Arc<BodyRoom>,
    pub(crate) pod_proxy: PodProxy,
    pub(crate) logs: PodLogs,
    /// Audit log; `None` for no log.
    pub(crate) audit: Option<Arc<Audit>>,
}

impl Handler {
    /// Answers a request. A panic becomes a 500 and is logged; it ends neither the connection nor the server.
    pub(crate) async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> ApiResponse {
        let audit_context = self.audit.as_ref().map(|audit| audit.begin(&request));
        if let Some(audit_context) = &audit_context {
            request.extensions_mut().insert(audit_context.clone());
        }
        let path = request.uri().path().to_owned();
        let encoding = status_encoding(request.headers());
        let is_compressed = compression::is_accepted(request.headers());
        let answering = AssertUnwindSafe(self.dispatch(request, connection)).catch_unwind();
        let answered = answering.await;
        if let (Err(_), Some(audit_context)) = (&answered, &audit_context) {
            audit_context.record_panic();
        }
        let is_success = matches!(answered, Ok(Ok(_)));
        let answer = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(failure)) => response::failure(&failure, encoding),
            Err(_) => {
                tracing::error!(%path, "answering a request panicked");
                response::failure(&unexpected(), encoding)
            }
        };
        let answer = match audit_context {
            Some(audit_context) => audit_context.record_response(answer),
            None => answer,
        };
        match is_success && is_compressed {
            true => compressed(answer),
            false => answer,
        }
    }

    async fn dispatch(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Result<ApiResponse, Failure> {
        let uri = request.uri().clone();
        let route = route(uri.path());
        let asking = Asking {
            route: &route,
            method: request.method(),
            path: uri.path(),
            query: uri.query().unwrap_or_default(),
            headers: request.headers(),
            source: client_address(&request),
            audit_context: request
                .extensions()
                .get::<Arc<AuditContext>>()
                .map(|audit_context| &**audit_context),
        };
        let cut = connection.cut();
        let passage = match self.gate.pass(&asking, connection.identity()) {
            Ok(passage) => passage,
            Err(failure) => {
                self.count_refused(&asking, &failure);
                return Err(failure);
            }
        };
        if passage.is_authenticated {
            connection.prove();
        }
        tracing::debug!(user = %passage.requester.user, method = %request.method(), path = uri.path(), "a request");
        let _place = match route {
            // What lasts takes no seat, and other requests about objects take theirs when their body is there.
            Route::Resource(_) | Route::Health | Route::Version => None,
            _ => Some(
                self.gate
                    .flow_control
                    .acquire_seat(passage.flow, RequestClass::Read)
                    .await?,
            ),
        };
        match route {
            Route::Health => {
                let query = Query::parse(uri.query().unwrap_or_default());
                Ok(health::answer(&self.resources, uri.path(), &query).await)
            }
            Route::Version => Ok(discovery::version()),
            Route::TokenKeys => Ok(discovery::token_keys(&self.gate.authenticator.service_accounts)),
            Route::TokenIssuer => Ok(discovery::token_issuer(
                &self.gate.authenticator.service_accounts,
                host(&request),
            )),
            Route::Resource(target) => {
                let cut = cut.filter(|_| passage.is_by_certificate);
                self.clone().resource(target, request, passage, cut).await
            }
            Route::Document(path) => {
                if !matches!(*request.method(), Method::GET | Method::HEAD) {
                    return Err(Failure::method_not_allowed());
                }
                discovery::at(path, host(&request), request.headers())
            }
            Route::Metrics => Ok(response::text(StatusCode::OK, self.rendered_metrics())),
            Route::UnknownResource => Err(Failure::no_such_path()),
            Route::Unknown => Ok(response::text(StatusCode::NOT_FOUND, "404 page not found\n")),
        }
    }

    /// Counts a request that did not get past the gate.
    fn count_refused(&self, asking: &Asking<'_>, failure: &Failure) {
        if let Route::Resource(target) = asking.route
            && let Ok(verb) = Verb::of(target, asking.method, asking.query)
        {
            let is_dry_run = Query::parse(asking.query).has("dryRun");
            let label = Label::new(target, verb.label(target), is_dry_run);
            let code = failure.code().as_u16();
            self.metrics.requests.answered(label, code, Duration::ZERO, None);
        }
    }

    fn rendered_metrics(&self) -> String {
        self.metrics.render(&self.resources, |out| {
            self.gate.flow_control.render(out);
            self.connections.render(out);
        })
    }

    /// Carries out a verb, and counts it.
    async fn resource(
        self: Arc<Self>,
        target: Target,
        request: Request<Incoming>,
        passage: Passage,
        cut: Option<Cut>,
    ) -> Result<ApiResponse, Failure> {
        let begin = Instant::now();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let verb = Verb::of(&target, request.method(), &query)?;
        let is_dry_run = Query::parse(&query).has("dryRun");
        let label = Label::new(&target, verb.label(&target), is_dry_run);
        let is_deprecated = target.kind.kind == "Endpoints";
        let encoding = status_encoding(request.headers());
        let called = self
            .clone()
            .call(target, verb, query, request, passage, cut)
            .await;
        let answer = called.unwrap_or_else(|failure| response::failure(&failure, encoding));
        let bytes = answer.body().size_hint().exact();
        let code = answer.status().as_u16();
        self.metrics
            .requests
            .answered(label, code, begin.elapsed(), bytes);
        match is_deprecated {
            true => Ok(response::with_deprecation(answer, ENDPOINTS_DEPRECATED)),
            false => Ok(answer),
        }
    }

    async fn call(
        self: Arc<Self>,
        target: Target,
        verb: Verb,
        query: String,
        request: Request<Incoming>,
        passage: Passage,
        cut: Option<Cut>,
    ) -> Result<ApiResponse, Failure> {
        let Passage { requester, flow, .. } = passage;
        if target.proxy_path.is_some() {
            let lasting = self.begin_lasting(flow, LongRunning::Proxy, cut)?;
            return self
                .pod_proxy
                .forward(&self.resources, &target, request, lasting)
                .await;
        }
        if target.subresource == Some(api::kind::LOG) {
            let lasting = self.begin_lasting(flow, LongRunning::Log, cut)?;
            return self.logs.read(&self.resources, &target, &query, lasting).await;
        }
        let (parts, body) = request.into_parts();
        let (body, load) = match verb.is_read() {
            true => (RequestBody::none(), RequestClass::Read),
            false => (
                request_body::read(body, &self.bodies, flow).await?,
                RequestClass::Write,
            ),
        };
        let audit_context = parts.extensions.get::<Arc<AuditContext>>().cloned();
        if let Some(audit_context) = &audit_context {
            record_body(audit_context, verb, &parts.headers, &body);
        }
        let place = self.gate.flow_control.acquire_seat(flow, load).await?;
        let _under_way = self.metrics.begin(verb.is_read());
        if is_review(&target) {
            let reviews = Reviews {
                authenticator: &self.gate.authenticator,
                authorizer: &self.gate.authorizer,
                admission: &self.resources.admission,
                requester: &requester,
            };
            return reviews.answer(&target, &query, &parts.headers, body.bytes());
        }
        let changes_roles = target.kind.group == api::rbac::GROUP;
        let call = Call {
            target,
            verb,
            headers: parts.headers,
            query,
            body,
            requester,
            audit_context,
        };
        let resources = self.resources.clone();
        if verb == Verb::List {
            // Putting a long one together must not hold up the other streams of the connection.
            let mut reading = JoinSet::new();
            reading.spawn(async move {
                let _place = place;
                call.read(&resources).await
            });
            let ended = reading.join_next().await;
            return ended.map_or_else(|| Err(unexpected()), finished);
        }
        if verb == Verb::Watch {
            return self.watch(&call, flow, cut).await;
        }
        if verb.is_read() {
            return call.read(&resources).await;
        }
        // A write goes on when the client hangs up: half of it would leave reservations that nobody owns. It keeps its seat.
        let writing = async move {
            let _place = place;
            call.write(&resources).await
        };
        let written = tokio::spawn(writing).await;
        if changes_roles {
            // Whoever was told that a role is written finds it in force.
            self.gate.authorizer.refresh();
        }
        finished(written)
    }
}

impl Handler {
    /// Begins a watch; it is counted among those of its user until its answer ends.
    async fn watch(&self, call: &Call, flow: Flow, cut: Option<Cut>) -> Result<ApiResponse, Failure> {
        let lasting = self.begin_lasting(flow, LongRunning::Watch, cut)?;
        let answer = call.read(&self.resources).await?;
        Ok(response::lasting(answer, lasting))
    }

    fn begin_lasting(&self, flow: Flow, kind: LongRunning, cut: Option<Cut>) -> Result<Lasting, Failure> {
        let held = self.gate.flow_control.acquire_long_running(flow, kind)?;
        Ok(Lasting::new(held, cut))
    }
}

/// Records the body of a write. One in a form that is not read here is refused later, and not recorded.
fn record_body(audit_context: &AuditContext, verb: Verb, headers: &HeaderMap, body: &RequestBody) {
    if verb == Verb::Patch {
        audit_context.record_request_body(body.bytes(), None);
    } else if let Ok(format) = body_format(headers) {
        audit_context.record_request_body(body.bytes(), Some(format));
    }
}

/// What a task came to that a verb was carried out in.
fn finished(ended: Result<Result<ApiResponse, Failure>, JoinError>) -> Result<ApiResponse, Failure> {
    ended.unwrap_or_else(|error| {
        tracing::error!(%error, "a verb panicked");
        Err(unexpected())
    })
}

fn unexpected() -> Failure {
    Failure::internal("the server met an unexpected condition")
}

/// The address that the request comes from.
fn client_address(request: &Request<Incoming>) -> Option<Source> {
    let peer = request.extensions().get::<SocketAddr>()?;
    Some(Source::from(peer.ip()))
}

/// Host and port that the client calls the server by.
fn host(request: &Request<Incoming>) -> &str {
    let header = request
        .headers()
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    header
        .or_else(|| request.uri().authority().map(|a| a.as_str()))
        .unwrap_or_default()
}
