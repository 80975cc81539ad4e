//! One connection, from the handshake to its end.

mod activity;
pub(crate) mod background_threads;
pub(crate) mod census;
mod displacement;
pub(super) mod limits;
pub(crate) mod node_connections;
pub(crate) mod open_connections;
mod poll_budget;
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
use crate::verbs::handler::Handler;
use activity::{Activity, Counted};
use background_threads::BackgroundThreads;
use limits::*;
use open_connections::{Arrived, Connection, Connections, Refusal};
use streams::{Executor, Streams};
use write_buffer::{Cork, cork};

/// State that all connections share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) handler: Arc<Handler>,
    pub(crate) connections: Arc<Connections>,
    /// Threads of connections without a client certificate.
    pub(crate) background_threads: Arc<BackgroundThreads>,
    pub(crate) shutdown: Shutdown,
}

/// Serves one connection until its end, or until the server ends and what is under way is done.
pub(crate) async fn serve(stream: TcpStream, peer: SocketAddr, arrived: Arrived, shared: Shared) {
    if let Err(error) = tune(&stream) {
        tracing::debug!(%peer, %error, "a connection could not be tuned");
    }
    let handshake = timeout(HANDSHAKE_TIMEOUT, shared.acceptor.accept(stream));
    let shaken = tokio::select! {
        shaken = handshake => shaken,
        () = arrived.displaced() => {
            tracing::debug!(%peer, "a TLS handshake ended for a newer one of its address");
            return;
        }
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            shared.connections.refuse(Refusal::Handshake);
            tracing::debug!(%peer, %error, "a TLS handshake failed");
            return;
        }
        Err(_) => {
            shared.connections.refuse(Refusal::Handshake);
            tracing::debug!(%peer, "a TLS handshake took too long");
            return;
        }
    };
    let identity = identity(&stream);
    let is_reserved = identity.as_deref().is_some_and(is_reserved_for);
    let Some(connection) = arrived.shake(identity) else {
        tracing::debug!(%peer, "a connection was refused: there are too many such");
        return;
    };
    let activity = Arc::new(Activity::new(Instant::now()));
    let threads = shared.background_threads.clone();
    let conversation = converse(stream, peer, Arc::new(connection), activity, shared);
    let ended = if is_reserved {
        conversation.await
    } else {
        on_threads(&threads, conversation).await
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended with an error");
    }
}

/// Runs a connection on other threads. It ends when the returned future is dropped.
async fn on_threads(
    threads: &BackgroundThreads,
    conversation: impl Future<Output = hyper::Result<()>> + Send + 'static,
) -> hyper::Result<()> {
    let mut task = JoinSet::new();
    task.spawn_on(conversation, threads.handle());
    match task.join_next().await {
        Some(Ok(ended)) => ended,
        Some(Err(error)) => {
            if error.is_panic() {
                tracing::error!(%error, "serving a connection panicked");
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// Whom the certificate of a client names.
fn identity(stream: &TlsStream<TcpStream>) -> Option<Arc<Identity>> {
    let chain = stream.get_ref().1.peer_certificates()?;
    chain.first().and_then(Identity::of_certificate).map(Arc::new)
}

/// Answers requests, in the version of HTTP that the handshake settled.
async fn converse(
    stream: TlsStream<TcpStream>,
    peer: SocketAddr,
    connection: Arc<Connection>,
    activity: Arc<Activity>,
    shared: Shared,
) -> hyper::Result<()> {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let (of_requests, standing) = (activity.clone(), connection.clone());
    let handler = shared.handler.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let under_way = of_requests.begin();
        let answering = handler.clone().answer(request, connection.clone());
        async move {
            let answer = answering.await;
            Ok::<_, Infallible>(answer.map(|body| Counted::new(body, under_way)))
        }
    });
    let mut streams = Streams::default();
    let executor = streams.executor();
    let (stream, cork) = cork(stream);
    let io = TokioIo::new(stream);
    let end = End {
        connection: standing,
        activity,
        shared,
    };
    match is_http2 {
        true => {
            let serving = http2_builder(executor).serve_connection(io, service);
            end.run(
                pin!(serving),
                |serving| serving.graceful_shutdown(),
                &cork,
                &mut streams,
            )
            .await
        }
        false => {
            let serving = http1_builder().serve_connection(io, service).with_upgrades();
            end.run(
                pin!(serving),
                |serving| serving.graceful_shutdown(),
                &cork,
                &mut streams,
            )
            .await
        }
    }
}

/// Events that end a connection, besides its client.
struct End {
    connection: Arc<Connection>,
    activity: Arc<Activity>,
    shared: Shared,
}

impl End {
    /// Runs a connection to its end. `finish` asks it to end when what is under way is done.
    async fn run<C, S>(
        mut self,
        mut serving: Pin<&mut C>,
        finish: impl FnOnce(Pin<&mut C>),
        cork: &Cork<S>,
        streams: &mut Streams,
    ) -> hyper::Result<()>
    where
        C: Future<Output = hyper::Result<()>>,
        S: tokio::io::AsyncWrite + Unpin,
    {
        let silence = tokio::select! {
            ended = cork.drive(serving.as_mut(), streams) => return ended,
            () = self.shared.shutdown.requested() => None,
            silence = self.activity.silence() => Some(silence),
            () = self.connection.displaced() => {
                tracing::debug!("a connection without credentials ended for a newer one");
                return Ok(());
            }
        };
        finish(serving.as_mut());
        let Some(silence) = silence else {
            return cork.drive(serving, streams).await;
        };
        self.shared.connections.refuse(silence.into());
        // A client that has nothing to say may not listen either.
        match timeout(GOODBYE_TIMEOUT, cork.drive(serving, streams)).await {
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

/// Small answers are sent at once, and peers that are gone are found out.
fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_PERIOD)
        .with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))
}
