//! Informational responses (1xx; RFC 9110, section 15.2). The edge forwards all of a backend's.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};
use tokio::sync::{Notify, mpsc};

use super::header_rewrite::prepare_for_client;
use super::request_smuggling_guard::GuardHandle;

#[cfg(test)]
mod tests;

/// Maximum number of informational responses that wait until their client takes earlier ones. Further ones are dropped,
/// because a backend may send any number.
const WAITING_MAX: usize = 8;

/// Informational response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InformationalResponse {
    /// 100 to 199, except 101.
    pub status: StatusCode,
    headers: HeaderMap,
}

impl InformationalResponse {
    /// Prepares a response of a backend for its client.
    pub(crate) fn new(status: StatusCode, mut headers: HeaderMap) -> Self {
        prepare_for_client(&mut headers, false);
        // No content follows that could have a length (RFC 9110, section 8.6).
        headers.remove(CONTENT_LENGTH);
        Self { status, headers }
    }

    /// Returns the response for HTTP/2.
    fn response(&self) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }

    /// Returns the response in the syntax of HTTP/1.1.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let reason = self.status.canonical_reason().unwrap_or_default();
        let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", self.status.as_str()).into_bytes();
        for (name, value) in &self.headers {
            for bytes_of_field in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(bytes_of_field);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

/// Receiver of a request's informational responses.
#[derive(Clone, Debug)]
pub(super) enum InformationalSink {
    /// None: HTTP/1.0 does not define informational responses (RFC 9110, section 15.2).
    Discard,
    /// Connection, between other bytes.
    Http1(GuardHandle),
    /// Task that responds on the stream.
    Http2(mpsc::Sender<Response<()>>),
}

impl InformationalSink {
    /// Completes when all earlier responses are written, or precede the next write.
    pub(super) async fn ready(&self) {
        if let Self::Http1(guard) = self {
            guard.informational_written().await;
        }
    }

    /// Sends a response.
    pub(super) async fn send(&self, response: &InformationalResponse) {
        match self {
            Self::Discard => {}
            Self::Http1(guard) => guard.write_informational(&response.bytes()),
            Self::Http2(stream) => {
                if stream.send(response.response()).await.is_err() {
                    tracing::trace!("informational response dropped; its stream has ended");
                }
            }
        }
    }
}

/// Informational responses of one request that were received and not forwarded yet.
#[derive(Debug, Default)]
pub(crate) struct InformationalQueue {
    waiting: Mutex<VecDeque<InformationalResponse>>,
    arrived: Notify,
}

impl InformationalQueue {
    /// Adds a response.
    pub(crate) fn push(&self, response: InformationalResponse) {
        let mut waiting = self.waiting();
        if waiting.len() >= WAITING_MAX {
            tracing::debug!(status = %response.status, "informational response dropped; too many are queued");
            return;
        }
        waiting.push_back(response);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Takes the next response, if there is one.
    pub(crate) fn pop(&self) -> Option<InformationalResponse> {
        self.waiting().pop_front()
    }

    /// Takes the next response, and waits for it.
    pub(crate) async fn next(&self) -> InformationalResponse {
        loop {
            if let Some(response) = self.pop() {
                return response;
            }
            self.arrived.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<InformationalResponse>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
