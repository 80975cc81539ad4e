//! HTTP/2 connection to a backend, which requests share. It uses `h2` itself, because hyper drops informational
//! responses.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use bytes::Bytes;
use h2::Reason;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::head::RESPONSE_HEAD_BYTES_MAX;
use super::informational::{InformationalQueue, InformationalResponse};
use super::request_body::RequestBody;
use super::wire_body::{StreamBody, WireBody, send_body};

/// Flow-control windows for the response of one request, and for a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Maximum number of buffered bytes of each request.
const STREAM_SEND_BYTES_MAX: usize = 128 << 10;

/// Connection that takes requests. It ends when all of its owners are dropped and its streams have ended.
#[derive(Clone, Debug)]
pub(crate) struct Http2Client {
    sender: SendRequest<Bytes>,
    is_closed: Arc<AtomicBool>,
    /// Dropped after `sender`. The task of the connection detects at the other end that no owner is left.
    _user: mpsc::Sender<Infallible>,
}

/// Task that sends the rest of a request's body. Dropping this aborts it.
#[derive(Debug)]
pub(crate) struct BodyTask(AbortHandle);

impl Drop for BodyTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Http2Client {
    /// Starts HTTP/2 on a connection.
    ///
    /// # Errors
    /// The error of the connection.
    pub(crate) async fn handshake<S>(stream: S) -> Result<Self, h2::Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(u32::try_from(RESPONSE_HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .max_send_buffer_size(STREAM_SEND_BYTES_MAX)
            .handshake(stream)
            .await?;
        let is_closed = Arc::<AtomicBool>::default();
        let (user, users) = mpsc::channel(1);
        drop(tokio::spawn(run(connection, users, is_closed.clone())));
        Ok(Self {
            sender,
            is_closed,
            _user: user,
        })
    }

    /// Returns true if it takes no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Completes when a request can be sent.
    ///
    /// # Errors
    /// The error of the connection. No part of a request was sent, or will be.
    pub(crate) async fn ready(&mut self) -> Result<(), h2::Error> {
        let ready = poll_fn(|cx| self.sender.poll_ready(cx)).await;
        ready.inspect_err(|_| self.is_closed.store(true, Ordering::Relaxed))
    }

    /// Sends a request after [`ready`](Self::ready), and waits for the response. Informational responses go to
    /// `informational`, and the task that sends the rest of the body to `sending`.
    ///
    /// # Errors
    /// The error of the connection or of the stream.
    pub(crate) async fn send(
        &mut self,
        request: Request<RequestBody>,
        informational: &InformationalQueue,
        sending: &mut Option<BodyTask>,
    ) -> Result<Response<WireBody>, h2::Error> {
        let (mut parts, body) = request.into_parts();
        let length = body.size_hint().exact();
        if let Some(length) = length.filter(|length| *length > 0 || has_content_semantics(&parts.method)) {
            let headers = &mut parts.headers;
            headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        let is_all = body.is_end_stream();
        let (response, mut stream) = self.sender.send_request(Request::from_parts(parts, ()), is_all)?;
        if !is_all {
            let mut rest = Box::pin(async move {
                if let Err(error) = send_body(body, &mut stream, Reason::CANCEL).await {
                    tracing::trace!(%error, "body of a request not sent completely");
                }
            });
            // Most bodies can be sent at once, and need no task.
            let is_sent = poll_fn(|cx| Poll::Ready(rest.as_mut().poll(cx).is_ready())).await;
            *sending = (!is_sent).then(|| BodyTask(tokio::spawn(rest).abort_handle()));
        }
        receive_response(response, informational).await
    }
}

/// Waits for the response, and collects informational ones before it.
async fn receive_response(
    mut response: ResponseFuture,
    informational: &InformationalQueue,
) -> Result<Response<WireBody>, h2::Error> {
    while let Some(informational_response) = poll_fn(|cx| response.poll_informational(cx)).await {
        let (parts, ()) = informational_response?.into_parts();
        // HTTP/2 has no such response (RFC 9113, section 8.6).
        if parts.status != StatusCode::SWITCHING_PROTOCOLS {
            informational.push(InformationalResponse::new(parts.status, parts.headers));
        }
    }
    let (parts, stream) = response.await?.into_parts();
    let body = StreamBody::of_response(stream, &parts.headers);
    Ok(Response::from_parts(parts, WireBody::Http2(body)))
}

/// Returns true for methods whose requests state a length of 0, as in HTTP/1.1 (RFC 9110, section 8.6).
fn has_content_semantics(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::DELETE].contains(method)
}

/// Runs a connection until it ends. Requests that wait for a response receive its errors.
async fn run<S>(
    mut connection: Connection<S>,
    mut users: mpsc::Receiver<Infallible>,
    is_closed: Arc<AtomicBool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let result = tokio::select! {
        result = &mut connection => result,
        // At its next poll, the connection detects that no owner is left.
        _ = users.recv() => connection.await,
    };
    is_closed.store(true, Ordering::Relaxed);
    if let Err(error) = result {
        tracing::trace!(%error, "backend connection failed");
    }
}
