//! From a request to an answer: who asks, what for, and which verb does it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::{Method, Request, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use tokio::task::{JoinError, JoinSet};

use crate::answer::{self, Answer};
use crate::authentication::Identity;
use crate::call::{Call, Verb};
use crate::compression::{self, compressed};
use crate::documents;
use crate::failure::Failure;
use crate::gate::{Asking, Gate};
use crate::health;
use crate::metrics::{Label, Metrics};
use crate::negotiation::status_encoding;
use crate::passing::{Logs, Passing};
use crate::query::Query;
use crate::questions::{Asked, is_question};
use crate::request_body::{BodyRoom, RequestBody};
use crate::resource::Resources;
use crate::route::{Route, Target, route};

/// What every request about Endpoints is told (API-53).
const ENDPOINTS_DEPRECATED: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// Answers requests. Shared by all connections.
pub(crate) struct Handler {
    pub(crate) resources: Arc<Resources>,
    pub(crate) gate: Gate,
    pub(crate) metrics: Metrics,
    pub(crate) bodies: BodyRoom,
    pub(crate) passing: Passing,
    pub(crate) logs: Logs,
}

impl Handler {
    /// Answers a request. A panic becomes a 500 and is logged; it ends neither the connection nor the server.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Option<Arc<Identity>>,
    ) -> Answer {
        let path = request.uri().path().to_owned();
        let encoding = status_encoding(request.headers());
        let is_compressed = compression::is_accepted(request.headers());
        let answering = AssertUnwindSafe(self.dispatch(request, connection)).catch_unwind();
        match answering.await {
            Ok(Ok(answer)) if is_compressed => compressed(answer),
            Ok(Ok(answer)) => answer,
            Ok(Err(failure)) => answer::failure(&failure, encoding),
            Err(_) => {
                tracing::error!(%path, "answering a request panicked");
                answer::failure(&unexpected(), encoding)
            }
        }
    }

    async fn dispatch(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Option<Arc<Identity>>,
    ) -> Result<Answer, Failure> {
        let uri = request.uri().clone();
        let route = route(uri.path());
        let asking = Asking {
            route: &route,
            method: request.method(),
            path: uri.path(),
            query: uri.query().unwrap_or_default(),
            headers: request.headers(),
        };
        let passage = match self.gate.pass(&asking, connection.as_ref()) {
            Ok(passage) => passage,
            Err(failure) => {
                self.count_refused(&asking, &failure);
                return Err(failure);
            }
        };
        let requester = passage.requester.clone();
        tracing::debug!(user = %requester.user, method = %request.method(), path = uri.path(), "a request");
        match route {
            Route::Health => {
                let query = Query::parse(uri.query().unwrap_or_default());
                Ok(health::answer(&self.resources, uri.path(), &query).await)
            }
            Route::Version => Ok(documents::version()),
            Route::TokenKeys => Ok(documents::token_keys(&self.gate.authenticator.service_accounts)),
            Route::TokenIssuer => Ok(documents::token_issuer(
                &self.gate.authenticator.service_accounts,
                host(&request),
            )),
            Route::Resource(target) => self.clone().resource(target, request, requester).await,
            Route::Document(path) => {
                if !matches!(*request.method(), Method::GET | Method::HEAD) {
                    return Err(Failure::method_not_allowed());
                }
                documents::at(path, host(&request), request.headers())
            }
            Route::Metrics => Ok(answer::text(StatusCode::OK, self.metrics.render(&self.resources))),
            Route::UnknownResource => Err(Failure::no_such_path()),
            Route::Unknown => Ok(answer::text(StatusCode::NOT_FOUND, "404 page not found\n")),
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

    /// Carries out a verb, and counts it.
    async fn resource(
        self: Arc<Self>,
        target: Target,
        request: Request<Incoming>,
        requester: Arc<Identity>,
    ) -> Result<Answer, Failure> {
        let begin = Instant::now();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let verb = Verb::of(&target, request.method(), &query)?;
        let is_dry_run = Query::parse(&query).has("dryRun");
        let label = Label::new(&target, verb.label(&target), is_dry_run);
        let is_deprecated = target.kind.kind == "Endpoints";
        let encoding = status_encoding(request.headers());
        let under_way = self.metrics.begin(verb.is_read());
        let called = self.clone().call(target, verb, query, request, requester).await;
        let answer = called.unwrap_or_else(|failure| answer::failure(&failure, encoding));
        drop(under_way);
        let bytes = answer.body().size_hint().exact();
        let code = answer.status().as_u16();
        self.metrics
            .requests
            .answered(label, code, begin.elapsed(), bytes);
        match is_deprecated {
            true => Ok(answer::with_deprecation(answer, ENDPOINTS_DEPRECATED)),
            false => Ok(answer),
        }
    }

    async fn call(
        self: Arc<Self>,
        target: Target,
        verb: Verb,
        query: String,
        request: Request<Incoming>,
        requester: Arc<Identity>,
    ) -> Result<Answer, Failure> {
        if target.passed_path.is_some() {
            return self.passing.pass(&self.resources, &target, request).await;
        }
        if target.subresource == Some(api::kind::LOG) {
            return self.logs.read(&self.resources, &target, &query).await;
        }
        let (parts, body) = request.into_parts();
        let body = match verb.is_read() {
            true => RequestBody::none(),
            false => self.bodies.read(body).await?,
        };
        if is_question(&target) {
            let asked = Asked {
                authenticator: &self.gate.authenticator,
                authorizer: &self.gate.authorizer,
                requester: &requester,
            };
            return asked.answer(&target, &query, &parts.headers, body.bytes());
        }
        let changes_roles = target.kind.group == api::rbac::GROUP;
        let call = Call {
            target,
            verb,
            headers: parts.headers,
            query,
            body,
            requester,
        };
        let resources = self.resources.clone();
        if verb == Verb::List {
            // Putting a long one together must not hold up the other streams of the connection.
            let mut reading = JoinSet::new();
            reading.spawn(async move { call.read(&resources).await });
            let ended = reading.join_next().await;
            return ended.map_or_else(|| Err(unexpected()), finished);
        }
        if verb.is_read() {
            return call.read(&resources).await;
        }
        // A write goes on when the client hangs up: half of it would leave reservations that nobody owns.
        let written = tokio::spawn(async move { call.write(&resources).await }).await;
        if changes_roles {
            // Whoever was told that a role is written finds it in force.
            self.gate.authorizer.refresh();
        }
        finished(written)
    }
}

/// What a task came to that a verb was carried out in.
fn finished(ended: Result<Result<Answer, Failure>, JoinError>) -> Result<Answer, Failure> {
    ended.unwrap_or_else(|error| {
        tracing::error!(%error, "a verb panicked");
        Err(unexpected())
    })
}

fn unexpected() -> Failure {
    Failure::internal("the server met an unexpected condition")
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
