//! A connection of HTTP/2. Its requests are answered by `h2` itself, since hyper has no word for answers before the answer.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::{Builder, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, DATE, HeaderValue};
use http::{HeaderMap, Request, Response};
use hyper::body::Body;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::answer_body::AnswerBody;
use super::connection::Connection;
use super::head::HEAD_BYTES_MAX;
use super::wire::{StreamBody, WireBody, send_body};

/// Requests under way on a connection.
const STREAMS_MAX: u32 = 128;
/// What clients may send ahead: for one request, and for all of a connection.
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// What is buffered for each answer.
const STREAM_SEND_BYTES_MAX: usize = 128 << 10;

/// A connection, from its settings on until it ends.
pub(super) struct Streams<S> {
    state: State<S>,
    connection: Arc<Connection>,
    is_told_to_end: bool,
}

enum State<S> {
    Handshake(Box<Handshake<S, Bytes>>),
    Open(Box<h2::server::Connection<S, Bytes>>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Streams<S> {
    /// Of a client whose first bytes have shown that it speaks HTTP/2; these are still to be read.
    pub fn new(stream: S, connection: Arc<Connection>) -> Self {
        let handshake = Builder::new()
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buffer_size(STREAM_SEND_BYTES_MAX)
            .handshake(stream);
        Self {
            state: State::Handshake(Box::new(handshake)),
            connection,
            is_told_to_end: false,
        }
    }

    /// No request is to follow those that are under way.
    pub fn end(&mut self) {
        self.is_told_to_end = true;
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }
}

/// Serves requests until the connection ends.
impl<S: AsyncRead + AsyncWrite + Unpin> Future for Streams<S> {
    type Output = Result<(), h2::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let open = match &mut this.state {
                State::Open(open) => open,
                State::Handshake(handshake) => {
                    let mut open = ready!(Pin::new(handshake).poll(cx))?;
                    if this.is_told_to_end {
                        open.graceful_shutdown();
                    }
                    this.state = State::Open(Box::new(open));
                    continue;
                }
            };
            match ready!(open.poll_accept(cx)) {
                Some(Ok((request, respond))) => {
                    drop(tokio::spawn(serve(this.connection.clone(), request, respond)));
                }
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// Answers a request, unless its client gives it up. The connection is there until that is done, though its client may be gone.
async fn serve(connection: Arc<Connection>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (parts, stream) = request.into_parts();
    let body = WireBody::Http2(StreamBody::of_request(stream, &parts.headers));
    // The next one comes when this one is on its way.
    let (tell, mut told) = mpsc::channel(1);
    let request = Request::from_parts(parts, body);
    let mut answer = Box::pin(connection.clone().answer(request, Some(tell)));
    let answer = loop {
        tokio::select! {
            biased;
            Some(interim) = told.recv() => inform(interim, &mut respond),
            answer = answer.as_mut() => break answer,
            _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
        }
    };
    // The last one may have come in the same moment.
    while let Ok(interim) = told.try_recv() {
        inform(interim, &mut respond);
    }
    if let Err(error) = send(answer, &mut respond).await {
        tracing::debug!(%error, "an answer broke off");
    }
}

/// Sends an interim answer.
fn inform(interim: Response<()>, respond: &mut SendResponse<Bytes>) {
    if let Err(error) = respond.send_informational(interim) {
        tracing::debug!(%error, "an interim answer is not passed on");
    }
}

/// Sends an answer with its body.
async fn send(answer: Response<AnswerBody>, respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    let (parts, body) = answer.into_parts();
    let is_all = body.is_end_stream();
    let mut head = Response::from_parts(parts, ());
    if let (false, Some(length)) = (is_all, body.size_hint().exact()) {
        let headers = head.headers_mut();
        headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    date(head.headers_mut());
    let mut stream = respond.send_response(head, is_all).inspect_err(|_| {
        respond.send_reset(Reason::INTERNAL_ERROR);
    })?;
    match is_all {
        true => Ok(()),
        false => send_body(body, &mut stream, Reason::INTERNAL_ERROR).await,
    }
}

/// A forwarded answer tells a time (RFC 9110, 6.6.1).
fn date(headers: &mut HeaderMap) {
    if headers.contains_key(DATE) {
        return;
    }
    let now = Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    if let Ok(now) = HeaderValue::try_from(now) {
        headers.insert(DATE, now);
    }
}
