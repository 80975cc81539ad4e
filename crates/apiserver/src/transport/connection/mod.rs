//! One connection: TLS handshake, HTTP/1.1 or HTTP/2, idle timeouts and shutdown.

mod activity;
pub(crate) mod background_threads;
mod counted_body;
mod displacement;
pub(super) mod limits;
pub(crate) mod node_connections;
pub(crate) mod open_connections;
mod poll_budget;
pub(crate) mod source;
mod stage_counts;
mod streams;
mod write_buffer;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Instant;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::access::authentication::Identity;
use crate::access::flow_control::is_reserved_for;
use crate::shutdown::Shutdown;
use crate::transport::response::ResponsePermit;
use crate::verbs::handler::Handler;
use activity::Activity;
use background_threads::BackgroundThreads;
use counted_body::CountedBody;
use limits::*;
use open_connections::{Connection, Connections, Handshaking, Refusal};
use streams::{Executor, Streams};
use write_buffer::{WriteBuffer, buffered};

/// State that all connections share.
#[derive(Clone)]
pub(crate) struct ListenerState {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) handler: Arc<Handler>,
    pub(crate) connections: Arc<Connections>,
    /// Threads of connections without a client certificate.
    pub(crate) background_threads: Arc<BackgroundThreads>,
    pub(crate) shutdown: Shutdown,
}

/// Serves one connection until it closes, or until the server shuts down and its requests are complete.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    handshaking: Handshaking,
    shared: ListenerState,
) {
    if let Err(error) = set_socket_options(&stream) {
        tracing::debug!(%peer, %error, "socket options not set");
    }
    let handshake = timeout(HANDSHAKE_TIMEOUT, shared.acceptor.accept(stream));
    let handshake = tokio::select! {
        result = handshake => result,
        () = handshaking.displaced() => {
            tracing::debug!(%peer, "TLS handshake displaced by a newer one of its address");
            return;
        }
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            shared.connections.count_refusal(Refusal::Handshake);
            tracing::debug!(%peer, %error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            shared.connections.count_refusal(Refusal::Handshake);
            tracing::debug!(%peer, "TLS handshake timed out");
            return;
        }
    };
    let identity = client_identity(&stream);
    let is_reserved = identity.as_deref().is_some_and(is_reserved_for);
    let Some(connection) = handshaking.complete(identity) else {
        tracing::debug!(%peer, "connection refused; the limit of its stage is reached");
        return;
    };
    let activity = Arc::new(Activity::new(Instant::now()));
    let threads = shared.background_threads.clone();
    let requests = serve_requests(stream, peer, Arc::new(connection), activity, shared);
    let ended = if is_reserved {
        requests.await
    } else {
        spawn_on(&threads, requests).await
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended with an error");
    }
}

/// Runs a connection on other threads. It is cancelled when the returned future is dropped.
async fn spawn_on(
    threads: &BackgroundThreads,
    requests: impl Future<Output = hyper::Result<()>> + Send + 'static,
) -> hyper::Result<()> {
    let handle = match threads.handle() {
        Ok(handle) => handle,
        Err(error) => {
            tracing::debug!(%error, "connection closed; threads of lower priority not started");
            return Ok(());
        }
    };
    let mut task = JoinSet::new();
    task.spawn_on(requests, &handle);
    match task.join_next().await {
        Some(Ok(ended)) => ended,
        Some(Err(error)) => {
            if error.is_panic() {
                tracing::error!(%error, "connection task panicked");
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// Returns the identity of the client certificate.
fn client_identity(stream: &TlsStream<TcpStream>) -> Option<Arc<Identity>> {
    let chain = stream.get_ref().1.peer_certificates()?;
    chain.first().and_then(Identity::of_certificate).map(Arc::new)
}

/// Serves requests, with the HTTP version that the handshake negotiated.
async fn serve_requests(
    stream: TlsStream<TcpStream>,
    peer: SocketAddr,
    connection: Arc<Connection>,
    activity: Arc<Activity>,
    shared: ListenerState,
) -> hyper::Result<()> {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let (request_activity, request_connection) = (activity.clone(), connection.clone());
    let handler = shared.handler.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let in_flight = request_activity.begin();
        // Boxed, since hyper keeps the memory of this future until the body ends, which a watch does after minutes.
        let handling = Box::pin(handler.clone().handle(request, request_connection.clone()));
        async move {
            let mut response = handling.await;
            let in_flight = in_flight.with_permit(response.extensions_mut().remove::<Arc<ResponsePermit>>());
            Ok::<_, Infallible>(response.map(|body| CountedBody::new(body, in_flight)))
        }
    });
    let mut streams = Streams::default();
    let executor = streams.executor();
    let (stream, write_buffer) = buffered(stream);
    let io = TokioIo::new(stream);
    let end = ConnectionEnd {
        connection,
        activity,
        shared,
    };
    if is_http2 {
        let serving = http2_builder(executor).serve_connection(io, service);
        end.run(
            pin!(serving),
            |serving| serving.graceful_shutdown(),
            &write_buffer,
            &mut streams,
        )
        .await
    } else {
        let serving = http1_builder().serve_connection(io, service).with_upgrades();
        end.run(
            pin!(serving),
            |serving| serving.graceful_shutdown(),
            &write_buffer,
            &mut streams,
        )
        .await
    }
}

/// Events that end a connection, besides the client.
struct ConnectionEnd {
    connection: Arc<Connection>,
    activity: Arc<Activity>,
    shared: ListenerState,
}

impl ConnectionEnd {
    /// Runs a connection until it closes. `begin_shutdown` lets it close after the requests in flight.
    async fn run<C, S>(
        mut self,
        mut serving: Pin<&mut C>,
        begin_shutdown: impl FnOnce(Pin<&mut C>),
        write_buffer: &WriteBuffer<S>,
        streams: &mut Streams,
    ) -> hyper::Result<()>
    where
        C: Future<Output = hyper::Result<()>>,
        S: tokio::io::AsyncWrite + Unpin,
    {
        let idle = tokio::select! {
            ended = write_buffer.drive(serving.as_mut(), streams) => return ended,
            () = self.shared.shutdown.requested() => None,
            reason = self.activity.idle() => Some(reason),
            () = self.connection.displaced() => {
                tracing::debug!("unauthenticated connection displaced by a newer one");
                return Ok(());
            }
        };
        begin_shutdown(serving.as_mut());
        let Some(reason) = idle else {
            return write_buffer.drive(serving, streams).await;
        };
        self.shared.connections.count_refusal(reason.into());
        // An idle client may not read either.
        match timeout(CLOSE_TIMEOUT, write_buffer.drive(serving, streams)).await {
            Ok(ended) => ended,
            Err(_) => Ok(()),
        }
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_buf_size(HTTP1_BUFFER_BYTES_MAX);
    builder
}

fn http2_builder(executor: Executor) -> http2::Builder<Executor> {
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(STREAM_SEND_BYTES_MAX)
        .keep_alive_interval(PING_PERIOD)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// Sends small responses at once, and detects failed peers.
fn set_socket_options(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_PERIOD)
        .with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT))
}
