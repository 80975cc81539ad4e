//! One connection, from the handshake to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::corked::cork;
use super::limits::*;
use super::streams::{Executor, Streams};
use crate::authentication::Identity;
use crate::handler::Handler;
use crate::resource::Shutdown;

/// Serves one connection until its end, or until the server ends and what is under way is done.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: TlsAcceptor,
    handler: Arc<Handler>,
    mut shutdown: Shutdown,
) {
    if let Err(error) = tune(&stream) {
        tracing::debug!(%peer, %error, "a connection could not be tuned");
    }
    let stream = match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!(%peer, "a TLS handshake took too long");
            return;
        }
    };
    let certificate = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| chain.first());
    let identity = certificate.and_then(Identity::of_certificate).map(Arc::new);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let (handler, identity) = (handler.clone(), identity.clone());
        async move { Ok::<_, Infallible>(handler.answer(request, identity).await) }
    });
    let mut streams = Streams::default();
    let builder = builder(streams.executor());
    let (stream, cork) = cork(stream);
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = cork.drive(connection.as_mut(), &mut streams) => ended,
        () = shutdown.asked() => {
            connection.as_mut().graceful_shutdown();
            cork.drive(connection, &mut streams).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, error = %error, "a connection ended with an error");
    }
}

fn builder(executor: Executor) -> auto::Builder<Executor> {
    let mut builder = auto::Builder::new(executor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_buf_size(HTTP1_BUFFER_BYTES_MAX);
    builder
        .http2()
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
