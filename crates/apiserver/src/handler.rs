//! From a request to an answer: who asks, what for, and which verb does it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};

use crate::answer::{self, Answer};
use crate::authentication::{Authenticator, Identity};
use crate::documents;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::negotiation::{body_format, patch_format, representation};
use crate::printing::{self, IncludeObject};
use crate::query::{DeleteOptions, ListOptions, Query, WriteOptions};
use crate::resource::{Outcome, Resources};
use crate::route::{Route, Target, route};

/// Largest body that is read, upstream's limit; an object of this size still fits the store.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;
/// How long a body may take to arrive: 3 MB at the speed of a modem, and less than clients wait for an answer.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// What every request about Endpoints is told (API-53).
const ENDPOINTS_DEPRECATED: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// Answers requests. Shared by all connections.
pub(crate) struct Handler {
    pub(crate) resources: Arc<Resources>,
    pub(crate) authenticator: Authenticator,
    pub(crate) metrics: Metrics,
    /// Whether all that has to be there at the start is.
    pub(crate) is_ready: AtomicBool,
}

/// What a verb needs of a request; owned, as writes outlive their connection.
struct Call {
    target: Target,
    verb: Verb,
    headers: HeaderMap,
    query: String,
    body: Bytes,
}

/// What is done with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Handler {
    /// Answers a request. A panic becomes a 500 and is logged; it ends neither the connection nor the server.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Option<Arc<Identity>>,
    ) -> Answer {
        let path = request.uri().path().to_owned();
        let answering = AssertUnwindSafe(self.dispatch(request, connection)).catch_unwind();
        match answering.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(failure)) => answer::failure(&failure),
            Err(_) => {
                tracing::error!(%path, "answering a request panicked");
                answer::failure(&Failure::internal("the server met an unexpected condition"))
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
        match route {
            Route::Health => return Ok(self.health(uri.path())),
            Route::Version => return Ok(documents::version()),
            _ => {}
        }
        self.authenticator
            .authenticate(request.headers(), connection.as_ref())?;
        match route {
            Route::Resource(target) => self.resource(target, request).await,
            Route::Document(path) => {
                if !matches!(*request.method(), Method::GET | Method::HEAD) {
                    return Err(Failure::method_not_allowed());
                }
                documents::at(path, host(&request), request.headers())
            }
            Route::Metrics => Ok(answer::text(
                StatusCode::OK,
                self.metrics.render(&self.resources.services.usage()),
            )),
            Route::UnknownResource => Err(Failure::no_such_path()),
            Route::Unknown | Route::Health | Route::Version => {
                Ok(answer::text(StatusCode::NOT_FOUND, "404 page not found\n"))
            }
        }
    }

    fn health(&self, path: &str) -> Answer {
        let is_asked = path.starts_with("/readyz") || path.starts_with("/healthz");
        if is_asked && !self.is_ready.load(Ordering::Acquire) {
            return answer::text(StatusCode::INTERNAL_SERVER_ERROR, "the server is starting\n");
        }
        answer::text(StatusCode::OK, "ok")
    }

    /// Carries out a verb, and counts it.
    async fn resource(
        self: Arc<Self>,
        target: Target,
        request: Request<Incoming>,
    ) -> Result<Answer, Failure> {
        let begin = Instant::now();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let verb = verb_of(&target, request.method(), &query)?;
        let label = self.metrics.label(target.kind, target.subresource, verb.label());
        let is_deprecated = target.kind.kind == "Endpoints";
        let called = self.clone().call(target, verb, query, request).await;
        let answer = called.unwrap_or_else(|failure| answer::failure(&failure));
        if let Some(label) = label {
            self.metrics
                .answered(label, answer.status().as_u16(), begin.elapsed());
        }
        match is_deprecated {
            true => Ok(answer::with_warnings(answer, &[ENDPOINTS_DEPRECATED.to_owned()])),
            false => Ok(answer),
        }
    }

    async fn call(
        self: Arc<Self>,
        target: Target,
        verb: Verb,
        query: String,
        request: Request<Incoming>,
    ) -> Result<Answer, Failure> {
        let (parts, body) = request.into_parts();
        let takes_body = !matches!(verb, Verb::Get | Verb::List | Verb::Watch);
        let body = if takes_body {
            read_body(body).await?
        } else {
            Bytes::new()
        };
        let call = Call {
            target,
            verb,
            headers: parts.headers,
            query,
            body,
        };
        if !takes_body {
            return call.read(&self.resources).await;
        }
        // A write goes on when the client hangs up: half of it would leave reservations that nobody owns.
        let resources = self.resources.clone();
        match tokio::spawn(async move { call.write(&resources).await }).await {
            Ok(written) => written,
            Err(error) => {
                tracing::error!(%error, "a write panicked");
                Err(Failure::internal("the server met an unexpected condition"))
            }
        }
    }
}

impl Verb {
    /// The label of metrics.
    fn label(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
            Verb::Create => "POST",
            Verb::Update => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
            Verb::DeleteCollection => "DELETECOLLECTION",
        }
    }

    /// The word of discovery.
    fn word(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }
}

impl Call {
    async fn read(&self, resources: &Resources) -> Result<Answer, Failure> {
        let query = Query::parse(&self.query);
        let form = representation(&self.headers)?;
        let include = IncludeObject::read(query.text("includeObject"));
        let kind = self.target.kind;
        match self.verb {
            Verb::Watch => {
                let options = ListOptions {
                    watch: true,
                    ..ListOptions::read(&query)?
                };
                let lines = resources.watch(&self.target, &options, form, include).await?;
                Ok(answer::stream(lines))
            }
            Verb::List => {
                let options = ListOptions::read(&query)?;
                let page = resources.list(&self.target, &options).await?;
                Ok(answer::pieces(printing::page(kind, page, form, include)?))
            }
            _ => {
                let bytes = resources.get(&self.target, &query).await?;
                Ok(answer::json(
                    StatusCode::OK,
                    printing::object(kind, bytes, form, include)?,
                ))
            }
        }
    }

    async fn write(&self, resources: &Resources) -> Result<Answer, Failure> {
        let query = Query::parse(&self.query);
        let (target, headers, body) = (&self.target, &self.headers, &self.body);
        let outcome = match self.verb {
            Verb::Create => {
                let options = WriteOptions::read(&query, "CreateOptions")?;
                resources
                    .create(target, body, body_format(headers)?, options)
                    .await?
            }
            Verb::Update => {
                let options = WriteOptions::read(&query, "UpdateOptions")?;
                resources
                    .update(target, body, body_format(headers)?, options)
                    .await?
            }
            Verb::Patch => {
                let format = patch_format(headers)?;
                let options = WriteOptions::read(&query, "PatchOptions")?;
                resources.patch(target, body, format, options).await?
            }
            Verb::Delete => {
                let options = DeleteOptions::read(&query, body, body_format(headers)?)?;
                resources.delete(target, &options).await?
            }
            _ => return self.delete_collection(resources, &query).await,
        };
        self.answer_with(outcome, &query)
    }

    async fn delete_collection(&self, resources: &Resources, query: &Query<'_>) -> Result<Answer, Failure> {
        let form = representation(&self.headers)?;
        let options = DeleteOptions::read(query, &self.body, body_format(&self.headers)?)?;
        let selection = ListOptions::read(query)?;
        let page = resources
            .delete_collection(&self.target, &options, &selection)
            .await?;
        let include = IncludeObject::read(query.text("includeObject"));
        Ok(answer::pieces(printing::page(
            self.target.kind,
            page,
            form,
            include,
        )?))
    }

    fn answer_with(&self, outcome: Outcome, query: &Query<'_>) -> Result<Answer, Failure> {
        let form = match outcome.is_status {
            true => crate::negotiation::Representation::Objects,
            false => representation(&self.headers)?,
        };
        let include = IncludeObject::read(query.text("includeObject"));
        let bytes = printing::object(self.target.kind, outcome.object, form, include)?;
        Ok(answer::with_warnings(
            answer::json(outcome.code, bytes),
            &outcome.warnings,
        ))
    }
}

/// What a method means for a target; an error if discovery does not offer it.
fn verb_of(target: &Target, method: &Method, query: &str) -> Result<Verb, Failure> {
    let is_named = target.name.is_some();
    let is_watch = || target.is_watch_path || Query::parse(query).flag("watch") == Some(true);
    let verb = match (method.as_str(), is_named) {
        ("GET" | "HEAD", true) if target.is_watch_path => Verb::Watch,
        ("GET" | "HEAD", true) => Verb::Get,
        ("GET" | "HEAD", false) if is_watch() => Verb::Watch,
        ("GET" | "HEAD", false) => Verb::List,
        ("POST", false) => Verb::Create,
        ("PUT", true) => Verb::Update,
        ("PATCH", true) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ => return Err(Failure::method_not_allowed()),
    };
    let offered = match target.subresource.and_then(|name| target.kind.subresource(name)) {
        Some(subresource) => subresource.verbs,
        None => target.kind.verbs,
    };
    let needs_namespace = verb == Verb::Create && target.kind.namespaced && target.namespace.is_none();
    if !offered.contains(&verb.word()) || needs_namespace {
        return Err(Failure::method_not_allowed());
    }
    Ok(verb)
}

async fn read_body(body: Incoming) -> Result<Bytes, Failure> {
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(Failure::too_large(BODY_BYTES_MAX));
    }
    let reading = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect());
    match reading.await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::too_large(BODY_BYTES_MAX)),
        Ok(Err(error)) => Err(Failure::bad_request(format!(
            "the body could not be read: {error}"
        ))),
        Err(_) => Err(Failure::new(
            StatusCode::REQUEST_TIMEOUT,
            "Timeout",
            "the body of the request did not arrive in time",
        )),
    }
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
