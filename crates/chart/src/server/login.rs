//! Requests that show, begin and end sessions.

use std::sync::PoisonError;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, SET_COOKIE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::{Duration, Instant, timeout};

use super::response::{Body, Refusal, empty, json_of};
use super::shared_state::SharedState;

/// Maximum number of bytes of the body of a login: a token with its JSON.
const BODY_BYTES_MAX: usize = 32 << 10;
/// Time for the body of a login to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Body of a login.
#[derive(Deserialize)]
struct Login {
    token: String,
}

/// Returns the user of the session.
///
/// # Errors
///
/// A [`Refusal`] without a session.
pub(super) async fn show(state: &SharedState, headers: &HeaderMap) -> Result<Response<Body>, Refusal> {
    let id = state.sessions.authorize(headers, &state.access).await?;
    let user = state.sessions.user(id).ok_or_else(Refusal::no_session)?;
    Ok(json_of(StatusCode::OK, &user))
}

/// Begins a session.
///
/// # Errors
///
/// A [`Refusal`] if the token is invalid, or a limit is reached.
pub(super) async fn begin(
    state: &SharedState,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let has_permit = {
        let mut logins = state.logins.lock().unwrap_or_else(PoisonError::into_inner);
        logins.take(Instant::now())
    };
    if !has_permit {
        return Err(Refusal::too_many("the chart has too many logins: retry later"));
    }
    let login = read(request).await?;
    let decided = state.access.log_in(&login.token).await;
    state.metrics.count_login(decided.is_ok());
    let user = decided.inspect_err(|refusal| {
        tracing::info!(status = refusal.status.as_u16(), "login of the chart refused");
    })?;
    tracing::info!(user = user.user, "login of the chart accepted");
    let token = Some(login.token).filter(|_| state.access.keeps_tokens());
    let cookie = state
        .sessions
        .begin(user, token)
        .map_err(|error| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    state.feed.touch();
    Ok(with_cookie(&cookie))
}

/// Ends the session of a request, if it has one.
pub(super) fn end(state: &SharedState, headers: &HeaderMap) -> Response<Body> {
    // The end of a session needs no decision of the API.
    if let Ok(id) = state.sessions.id_of(headers) {
        state.sessions.end(id);
    }
    with_cookie(&state.sessions.removed_cookie())
}

async fn read(request: Request<Incoming>) -> Result<Login, Refusal> {
    let invalid = |message: &str| Refusal::new(StatusCode::BAD_REQUEST, message);
    // A form of another page cannot send this type.
    if request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes) != Some(b"application/json") {
        return Err(invalid("expected the content type application/json"));
    }
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    let body = timeout(BODY_TIMEOUT, body)
        .await
        .map_err(|_| invalid("expected the body within 10 seconds"))?
        .map_err(|error| {
            invalid(&format!(
                "expected a body of at most {BODY_BYTES_MAX} bytes: {error}"
            ))
        })?;
    serde_json::from_slice(&body.to_bytes()).map_err(|_| invalid("expected the JSON object {\"token\": …}"))
}

fn with_cookie(cookie: &str) -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}
