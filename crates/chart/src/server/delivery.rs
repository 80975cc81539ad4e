//! Responses with parts of the cluster: their number and time are limited, since a reader may stop reading.
//!
//! The body of a stalled reader is not polled. So a task of its own holds the bytes, and drops them after some time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::access::User;
use super::response::{Body, Refusal, with_body};
use super::sessions::SessionId;
use super::shared_state::SharedState;

/// Time in which a reader takes a response: 10 MB at 700 kbit/s. Then the server drops it and closes the connection.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes of a piece of a response.
const PIECE_BYTES: usize = 64 << 10;

/// Permit for one response, returned on drop.
pub(super) struct ResponsePermit {
    state: Arc<SharedState>,
    user: User,
    _permit_of_all: OwnedSemaphorePermit,
}

impl ResponsePermit {
    /// Takes a permit for the user of a session.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] without a session, or if its user, or all users, have too many responses.
    pub(super) fn take(state: &Arc<SharedState>, session: SessionId) -> Result<Self, Refusal> {
        let permit_of_all = Arc::clone(&state.responses).try_acquire_owned();
        let permit_of_all = permit_of_all
            .map_err(|_| Refusal::too_many("the chart sends too many responses: retry later"))?;
        let user = state.sessions.begin_response(session)?;
        Ok(Self {
            state: Arc::clone(state),
            user,
            _permit_of_all: permit_of_all,
        })
    }
}

impl Drop for ResponsePermit {
    fn drop(&mut self) {
        self.state.sessions.end_response(&self.user);
    }
}

/// Returns a JSON response that holds a permit until the reader has taken it.
pub(super) fn respond(json: Vec<u8>, permit: ResponsePermit) -> Response<Body> {
    let length = json.len();
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let sent = tokio::time::timeout(DELIVERY_TIMEOUT, send(json.into(), sender)).await;
        if sent.is_err() {
            tracing::info!(timeout = ?DELIVERY_TIMEOUT, "response dropped; its reader did not receive it in time");
            permit.state.metrics.count_stalled_response();
        }
        drop(permit);
    });
    let frames = unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async move {
        let piece = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(piece)), receiver))
    });
    let body = StreamBody::new(frames).boxed_unsync();
    let mut response = with_body(StatusCode::OK, "application/json", body);
    // With the length, a reader recognizes a dropped response.
    response
        .headers_mut()
        .insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

/// Sends pieces, each when the reader takes the previous one. Ends early if the connection ends.
async fn send(mut json: Bytes, pieces: mpsc::Sender<Bytes>) {
    while !json.is_empty() {
        let slice = json.split_to(json.len().min(PIECE_BYTES));
        // A copy: a slice would keep the memory of the whole response.
        if pieces.send(Bytes::copy_from_slice(&slice)).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
