//! HTTP/2 connection of a client. It uses `h2` itself, because hyper sends no informational responses.

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

use super::connection::Connection;
use super::head::HEAD_BYTES_MAX;
use super::http2_frames::Http2Stream;
use super::response_body::ResponseBody;
use super::wire_body::{StreamBody, WireBody, send_body};

/// Maximum number of requests under way on a connection, unless the share of a client is smaller.
const STREAMS_MAX: u32 = 128;
/// Flow-control windows for one request, and for a connection.
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Maximum number of buffered bytes of each response.
const STREAM_SEND_BYTES_MAX: usize = 128 << 10;
/// Maximum number of requests that the client has reset before the edge accepts them. A client with more of them loses
/// its connection: each costs work, and resets do not count against [`STREAMS_MAX`] (CVE-2023-44487).
const PENDING_RESETS_MAX: usize = 20;
/// Maximum number of requests of a connection that the edge resets because of errors of the client, before it ends the
/// connection.
const ERROR_RESETS_MAX: usize = 1_024;

/// Connection, from its settings on until it ends.
pub(super) struct Http2Server<S> {
    state: State<S>,
    connection: Arc<Connection>,
    is_shutting_down: bool,
    /// True if the connection ends because of too many PINGs.
    is_aborted: bool,
}

/// State of a connection.
enum State<S> {
    Handshake(Box<Handshake<Http2Stream<S>, Bytes>>),
    Open(Box<h2::server::Connection<Http2Stream<S>, Bytes>>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Http2Server<S> {
    /// Serves a client of HTTP/2 whose first bytes are still to be read.
    pub(super) fn new(stream: S, connection: Arc<Connection>) -> Self {
        // Requests of a client that knows the limit wait. Those beyond its share would be refused.
        let streams_max = STREAMS_MAX.min(connection.port.admission.requests_max());
        let handshake = Builder::new()
            .max_concurrent_streams(streams_max)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buffer_size(STREAM_SEND_BYTES_MAX)
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .max_local_error_reset_streams(Some(ERROR_RESETS_MAX))
            .handshake(Http2Stream::new(stream, connection.activity.clone()));
        Self {
            state: State::Handshake(Box::new(handshake)),
            connection,
            is_shutting_down: false,
            is_aborted: false,
        }
    }

    /// Accepts no requests beyond those under way.
    pub(super) fn start_shutdown(&mut self) {
        self.is_shutting_down = true;
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }
}

/// Serves requests until the connection ends.
impl<S: AsyncRead + AsyncWrite + Unpin> Future for Http2Server<S> {
    type Output = Result<(), h2::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let open = match &mut this.state {
                State::Open(open) => open,
                State::Handshake(handshake) => {
                    let mut open = ready!(Pin::new(handshake).poll(cx))?;
                    if this.is_shutting_down {
                        open.graceful_shutdown();
                    }
                    this.state = State::Open(Box::new(open));
                    continue;
                }
            };
            let accepted = open.poll_accept(cx);
            if accepted.is_pending() && !this.is_aborted && this.connection.activity.is_flooded() {
                this.is_aborted = true;
                tracing::debug!(client = %this.connection.peer.client, "connection ended: too many PINGs");
                open.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                continue;
            }
            match ready!(accepted) {
                Some(Ok((request, respond))) => {
                    drop(tokio::spawn(serve(this.connection.clone(), request, respond)));
                }
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// Responds to a request, unless its client cancels it. The connection's state exists until then, even if the
/// connection has ended.
async fn serve(connection: Arc<Connection>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (parts, stream) = request.into_parts();
    let body = WireBody::Http2(StreamBody::of_request(stream, &parts.headers));
    // A channel of one: the next informational response comes when this one is sent.
    let (sender, mut informational) = mpsc::channel(1);
    let request = Request::from_parts(parts, body);
    let mut response = Box::pin(connection.clone().respond(request, Some(sender)));
    let response = loop {
        tokio::select! {
            biased;
            Some(response) = informational.recv() => send_informational(response, &mut respond),
            response = response.as_mut() => break response,
            _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
        }
    };
    // The last informational response can arrive at the same moment.
    while let Ok(response) = informational.try_recv() {
        send_informational(response, &mut respond);
    }
    if let Err(error) = send(response, &mut respond).await {
        tracing::debug!(%error, "response failed");
    }
}

/// Sends an informational response.
fn send_informational(response: Response<()>, respond: &mut SendResponse<Bytes>) {
    if let Err(error) = respond.send_informational(response) {
        tracing::debug!(%error, "informational response not sent");
    }
}

/// Sends a response with its body.
async fn send(response: Response<ResponseBody>, respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    let (parts, body) = response.into_parts();
    let is_all = body.is_end_stream();
    let mut head = Response::from_parts(parts, ());
    if let (false, Some(length)) = (is_all, body.size_hint().exact()) {
        let headers = head.headers_mut();
        headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    add_date(head.headers_mut());
    let mut stream = respond.send_response(head, is_all).inspect_err(|_| {
        respond.send_reset(Reason::INTERNAL_ERROR);
    })?;
    if is_all {
        return Ok(());
    }
    send_body(body, &mut stream, Reason::INTERNAL_ERROR).await
}

/// Adds `Date`, which a forwarded response has to have (RFC 9110, section 6.6.1).
fn add_date(headers: &mut HeaderMap) {
    if headers.contains_key(DATE) {
        return;
    }
    let now = Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    if let Ok(now) = HeaderValue::try_from(now) {
        headers.insert(DATE, now);
    }
}
