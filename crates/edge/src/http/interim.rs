//! What a backend says of a request before it answers (RFC 9110, 15.2): all of it is passed on.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};
use tokio::sync::{Notify, mpsc};

use super::forward::to_client;
use super::guard::Told;

#[cfg(test)]
mod tests;

/// Interim answers that wait for a client to take those before them; a backend that says more is not listened to, since it
/// would not end.
const WAITING_MAX: usize = 8;

/// An interim answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interim {
    /// 100 to 199, but 101.
    pub status: StatusCode,
    headers: HeaderMap,
}

impl Interim {
    /// One that a backend gave, ready for its client.
    pub fn new(status: StatusCode, mut headers: HeaderMap) -> Self {
        to_client(&mut headers, false);
        // Nothing follows that would have a length (RFC 9110, 8.6).
        headers.remove(CONTENT_LENGTH);
        Self { status, headers }
    }

    /// As HTTP/2 has it.
    fn response(&self) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }

    /// As it is written in HTTP/1.1.
    pub fn bytes(&self) -> Vec<u8> {
        let reason = self.status.canonical_reason().unwrap_or_default();
        let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", self.status.as_str()).into_bytes();
        for (name, value) in &self.headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

/// Where the interim answers of a request go.
#[derive(Clone, Debug)]
pub enum Outlet {
    /// To nobody: clients of HTTP/1.0 know of none (RFC 9110, 15.2).
    Nowhere,
    /// Between other bytes of the connection.
    Http1(Told),
    /// To who answers the stream.
    Http2(mpsc::Sender<Response<()>>),
}

impl Outlet {
    /// Returns when all that was passed on before is written, or where it comes in front of what follows.
    pub async fn ready(&self) {
        if let Self::Http1(told) = self {
            told.said().await;
        }
    }

    /// Passes one on.
    pub async fn pass(&self, interim: &Interim) {
        match self {
            Self::Nowhere => {}
            Self::Http1(told) => told.say(&interim.bytes()),
            Self::Http2(stream) => {
                if stream.send(interim.response()).await.is_err() {
                    tracing::trace!("an interim answer comes to a stream that has ended");
                }
            }
        }
    }
}

/// Those of one request that came and were not passed on yet.
#[derive(Debug, Default)]
pub struct Interims {
    waiting: Mutex<VecDeque<Interim>>,
    arrived: Notify,
}

impl Interims {
    /// One has come.
    pub fn put(&self, interim: Interim) {
        let mut waiting = self.waiting();
        if waiting.len() >= WAITING_MAX {
            tracing::debug!(status = %interim.status, "an interim answer is dropped: its client takes none");
            return;
        }
        waiting.push_back(interim);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// The next one, if it is there.
    pub fn take(&self) -> Option<Interim> {
        self.waiting().pop_front()
    }

    /// The next one, as soon as it comes.
    pub async fn next(&self) -> Interim {
        loop {
            if let Some(interim) = self.take() {
                return interim;
            }
            self.arrived.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Interim>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
