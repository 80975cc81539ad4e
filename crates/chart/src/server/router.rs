//! Paths of the server and their methods.

use std::sync::Arc;

use explain::trace::{ClientName, Destination, Request as TraceRequest};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use serde_json::json;

use super::delivery::{self, ResponsePermit};
use super::query::{decode, parameter};
use super::response::{Body, Refusal, encoded, method_not_allowed, of, secured};
use super::sessions::SessionId;
use super::shared_state::SharedState;
use super::{assets, events, login, metrics, origin};
use crate::view::detail::service_key;

/// Content type of the metrics.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Responds to a request.
pub(super) async fn respond(state: &Arc<SharedState>, request: Request<Incoming>) -> Response<Body> {
    let response = match origin::check_host(request.headers()) {
        Ok(()) => dispatch(state, request).await,
        Err(refusal) => refusal.into_response(),
    };
    state.metrics.count_request(response.status());
    secured(response)
}

async fn dispatch(state: &Arc<SharedState>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let is_get = request.method() == Method::GET;
    if let Some(part) = path.strip_prefix("/api/") {
        if let Err(refusal) = origin::check_site(request.headers()) {
            return refusal.into_response();
        }
        return respond_to_api(state, part, request)
            .await
            .unwrap_or_else(Refusal::into_response);
    }
    match path.as_str() {
        "/healthz" | "/livez" | "/metrics" if !is_get => method_not_allowed("GET"),
        "/healthz" | "/livez" => of(StatusCode::OK, "text/plain; charset=utf-8", "ok"),
        "/metrics" => of(StatusCode::OK, METRICS_TYPE, metrics::render(state)),
        _ => match assets::find(&path) {
            Some(_) if !is_get => method_not_allowed("GET"),
            Some(asset) => asset.respond(request.headers()),
            None => Refusal::new(StatusCode::NOT_FOUND, "the chart has no such path").into_response(),
        },
    }
}

async fn respond_to_api(
    state: &Arc<SharedState>,
    part: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    if part == "session" {
        return match *request.method() {
            Method::GET => login::show(state, request.headers()).await,
            Method::POST => login::begin(state, request).await,
            Method::DELETE => Ok(login::end(state, request.headers())),
            _ => Ok(method_not_allowed("GET, POST, DELETE")),
        };
    }
    if request.method() != Method::GET {
        return Ok(method_not_allowed("GET"));
    }
    let id = state.sessions.authorize(request.headers(), &state.access).await?;
    state.feed.touch();
    let query = request.uri().query().unwrap_or_default();
    if part == "events" {
        return events::respond(state, id, request.headers(), query);
    }
    let permit = ResponsePermit::take(state, id)?;
    let json = match part {
        "snapshot" => snapshot(state, query)?,
        "history" => encoded(&state.feed.samples().ok_or_else(Refusal::not_ready)?)?,
        "findings" => {
            let findings = state.feed.findings().ok_or_else(Refusal::not_ready)?;
            encoded(&json!({"findings": findings}))?
        }
        "trace" => trace(state, id, query).await?,
        _ => match part.strip_prefix("services/") {
            Some(name) => service(state, name)?,
            None => return Err(Refusal::new(StatusCode::NOT_FOUND, "the chart has no such path")),
        },
    };
    Ok(delivery::respond(json, permit))
}

fn snapshot(state: &SharedState, query: &str) -> Result<Vec<u8>, Refusal> {
    let invalid = |message| Refusal::new(StatusCode::BAD_REQUEST, message);
    let snapshot = if query.is_empty() {
        state.feed.snapshot()
    } else {
        let text = parameter(query, "time").ok_or_else(|| invalid("expected the parameter time"))?;
        let time: Timestamp = text
            .parse()
            .map_err(|_| invalid("expected a time such as 2026-01-31T12:00:00Z"))?;
        let past = state.feed.state_at(time).ok_or_else(Refusal::not_ready)?;
        let unknown = || {
            Refusal::new(
                StatusCode::NOT_FOUND,
                "the history does not reach back to this time",
            )
        };
        Some(past.ok_or_else(unknown)?)
    };
    let snapshot = snapshot.ok_or_else(Refusal::not_ready)?;
    encoded(&snapshot)
}

fn service(state: &SharedState, name: &str) -> Result<Vec<u8>, Refusal> {
    let unknown = || Refusal::new(StatusCode::NOT_FOUND, "the cluster has no such Service");
    let key = decode(name)
        .and_then(|name| service_key(&name))
        .ok_or_else(unknown)?;
    let detail = state.feed.detail(&key).ok_or_else(Refusal::not_ready)?;
    encoded(&detail.ok_or_else(unknown)?)
}

/// Traces the connection that a query describes, and returns the trace as JSON.
async fn trace(state: &Arc<SharedState>, id: SessionId, query: &str) -> Result<Vec<u8>, Refusal> {
    let invalid = |message: String| Refusal::new(StatusCode::BAD_REQUEST, message);
    let read =
        |name: &str| parameter(query, name).ok_or_else(|| invalid(format!("expected the parameter {name}")));
    let destination: Destination = read("url")?
        .parse()
        .map_err(|error| invalid(format!("{error}")))?;
    let client: ClientName = read("from")?
        .parse()
        .map_err(|error| invalid(format!("{error}")))?;
    state.sessions.permit_trace(id)?;
    let busy = || Refusal::too_many("other traces are computed: retry in a second");
    let permit = Arc::clone(&state.traces)
        .try_acquire_owned()
        .map_err(|_| busy())?;
    state.metrics.count_trace();
    let request = TraceRequest {
        cluster_domain: state.cluster_domain.clone(),
        ..TraceRequest::new(destination, client)
    };
    let feed = state.feed.clone();
    // The computation goes on after the client has closed its connection, so it holds the permit itself.
    let traced = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        feed.trace(&request)
    })
    .await;
    match traced {
        Ok(Some(Ok(found))) => encoded(&found),
        Ok(Some(Err(error))) => Err(invalid(error.to_string())),
        Ok(None) => Err(Refusal::not_ready()),
        Err(error) => {
            tracing::error!(%error, "trace failed");
            let message = "the trace failed: see the log of the chart";
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message))
        }
    }
}
