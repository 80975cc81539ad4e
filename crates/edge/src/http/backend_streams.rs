//! A connection to a backend in HTTP/2, which requests share. It is spoken by `h2` itself, since hyper has no word for answers
//! before the answer.

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

use super::interim::{Interim, Interims};
use super::request_body::RequestBody;
use super::send::ANSWER_HEAD_BYTES_MAX;
use super::wire::{StreamBody, WireBody, send_body};

/// What may be under way from a backend: for one answer, and for all of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// What is buffered for each request.
const STREAM_SEND_BYTES_MAX: usize = 128 << 10;

/// A connection that takes requests. It ends when all who could send one are gone, and their streams are done.
#[derive(Clone, Debug)]
pub struct BackendStreams {
    sender: SendRequest<Bytes>,
    is_closed: Arc<AtomicBool>,
    /// Dropped behind `sender`: its other end has the connection see that nobody is left.
    _user: mpsc::Sender<Infallible>,
}

/// What is sent of a request while its answer comes; dropping it gives the rest up.
#[derive(Debug)]
pub struct Sending(AbortHandle);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl BackendStreams {
    /// Begins with a connection that has agreed on HTTP/2.
    pub async fn begin<S>(stream: S) -> Result<Self, h2::Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(u32::try_from(ANSWER_HEAD_BYTES_MAX).unwrap_or(u32::MAX))
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

    /// Whether it takes no more requests.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Returns when a request can be sent. With an error nothing of one was, or will be.
    pub async fn ready(&mut self) -> Result<(), h2::Error> {
        let ready = poll_fn(|cx| self.sender.poll_ready(cx)).await;
        ready.inspect_err(|_| self.is_closed.store(true, Ordering::Relaxed))
    }

    /// Sends a request, as soon as this was [`ready`](Self::ready), and waits for its answer. What the backend says before that
    /// is put into `interims`; what has still to be sent of the request, into `sending`.
    pub async fn send(
        &mut self,
        request: Request<RequestBody>,
        interims: &Interims,
        sending: &mut Option<Sending>,
    ) -> Result<Response<WireBody>, h2::Error> {
        let (mut parts, body) = request.into_parts();
        let length = body.size_hint().exact();
        if let Some(length) = length.filter(|length| *length > 0 || is_for_bodies(&parts.method)) {
            let headers = &mut parts.headers;
            headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        let is_all = body.is_end_stream();
        let (answer, mut stream) = self.sender.send_request(Request::from_parts(parts, ()), is_all)?;
        if !is_all {
            let mut rest = Box::pin(async move {
                if let Err(error) = send_body(body, &mut stream, Reason::CANCEL).await {
                    tracing::trace!(%error, "a request is not sent to its end");
                }
            });
            // Most bodies are there.
            let is_sent = poll_fn(|cx| Poll::Ready(rest.as_mut().poll(cx).is_ready())).await;
            *sending = (!is_sent).then(|| Sending(tokio::spawn(rest).abort_handle()));
        }
        answered(answer, interims).await
    }
}

/// Waits for the answer, and passes on what comes before it.
async fn answered(mut answer: ResponseFuture, interims: &Interims) -> Result<Response<WireBody>, h2::Error> {
    while let Some(interim) = poll_fn(|cx| answer.poll_informational(cx)).await {
        let (parts, ()) = interim?.into_parts();
        // HTTP/2 has no such answer (RFC 9113, 8.6).
        if parts.status != StatusCode::SWITCHING_PROTOCOLS {
            interims.put(Interim::new(parts.status, parts.headers));
        }
    }
    let (parts, stream) = answer.await?.into_parts();
    let body = StreamBody::of_answer(stream, &parts.headers);
    Ok(Response::from_parts(parts, WireBody::Http2(body)))
}

/// Whether a request without a body says so by its length, as it would in HTTP/1.1 (RFC 9110, 8.6).
fn is_for_bodies(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::DELETE].contains(method)
}

/// Runs a connection until it ends; whoever waits for an answer of it learns of errors.
async fn run<S>(
    mut connection: Connection<S>,
    mut users: mpsc::Receiver<Infallible>,
    is_closed: Arc<AtomicBool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ended = tokio::select! {
        ended = &mut connection => ended,
        // It sees that nobody is left when it is looked at again.
        _ = users.recv() => connection.await,
    };
    is_closed.store(true, Ordering::Relaxed);
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection to a backend ended early");
    }
}
