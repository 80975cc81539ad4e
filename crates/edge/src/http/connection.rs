//! A client's HTTP connection.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use http::Request;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};

use super::activity::Activity;
use super::head::FIELDS_MAX;
use super::http2_server::Http2Server;
use super::pool::Pool;
use super::request_smuggling_guard::{GuardHandle, RequestSmugglingGuard};
use super::response_body::ResponseBody;
use super::tunnel::Tunnel;
use super::wire_body::WireBody;
use crate::admission::ConnectionPermit;
use crate::backends::ChosenBackend;
use crate::connection_age::{end_of_age, wait_until};
use crate::peer::Peer;
use crate::port::Port;
use crate::port_key::PortKey;
use crate::stream::AbortiveClose;
use crate::watch_flag::wait_until_true;

/// Time for a request's head from its first byte on, and for the first byte of a connection. A shorter idle timeout
/// has precedence.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// Time until a connection has to end after its shutdown, or after its requests have timed out.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Beginning of an HTTP/2 connection (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum number of bytes of an HTTP/1 connection that are buffered for writing, or for reading a head.
const HTTP1_BUFFER_BYTES_MAX: usize = 64 << 10;

/// State that the requests of a connection share.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) port: Arc<Port>,
    pub(super) peer: Arc<Peer>,
    pub(super) activity: Arc<Activity>,
    /// Guard of an HTTP/1 connection.
    pub(super) guard: Option<GuardHandle>,
    requests: AtomicU64,
    /// Connections to backends that belong to this client, because they start with its PROXY header. Their number is at
    /// most that of the backends of the Service and of the targets of its routes.
    own_pools: Mutex<HashMap<(PortKey, SocketAddr), Arc<Pool>>>,
    tunnel: Mutex<Option<Tunnel>>,
    /// Dropped when no request of the connection is under way any more.
    _permit: Option<ConnectionPermit>,
}

impl Connection {
    fn new(
        port: Arc<Port>,
        peer: Peer,
        activity: Arc<Activity>,
        guard: Option<GuardHandle>,
        permit: Option<ConnectionPermit>,
    ) -> Arc<Self> {
        Arc::new(Self {
            port,
            peer: Arc::new(peer),
            activity,
            guard,
            requests: AtomicU64::new(0),
            own_pools: Mutex::default(),
            tunnel: Mutex::default(),
            _permit: permit,
        })
    }

    /// Returns the pool for connections to a backend of `target`.
    pub(super) fn pool(&self, target: &Port, chosen: &ChosenBackend) -> Arc<Pool> {
        let settings = target.policy.settings();
        if settings.service.policy.proxy_protocol_to_backends.is_none() {
            return chosen.backend.pool().clone();
        }
        let mut pools = lock(&self.own_pools);
        let key = (target.key.clone(), chosen.backend.address);
        pools.entry(key).or_default().clone()
    }

    /// Returns the number of the next request, counted from 1.
    pub(super) fn next_request_number(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sets the tunnel that follows when the connection has changed its protocol.
    pub(super) fn set_tunnel(&self, tunnel: Tunnel) {
        *lock(&self.tunnel) = Some(tunnel);
    }

    fn service(
        self: &Arc<Self>,
    ) -> impl HttpService<Incoming, ResBody = ResponseBody, Error = Infallible, Future: Send + 'static> + use<>
    {
        let connection = self.clone();
        service_fn(move |request: Request<Incoming>| {
            let connection = connection.clone();
            let request = request.map(WireBody::Http1);
            async move { Ok::<_, Infallible>(connection.respond(request, None).await) }
        })
    }
}

/// Serves the connection of a client until it ends.
pub(super) async fn serve<S>(mut stream: S, peer: Peer, port: Arc<Port>, permit: Option<ConnectionPermit>)
where
    S: AsyncRead + AsyncWrite + AbortiveClose + Unpin + Send + 'static,
{
    let idle_timeout = port.policy.settings().service.policy.idle_timeout;
    let head_timeout = HEAD_TIMEOUT.min(idle_timeout);
    let mut drain = port.drain();
    let detected = tokio::select! {
        detected = timeout(head_timeout, detect_protocol(&mut stream, &peer)) => detected,
        // No request has started yet.
        () = wait_until_true(&mut drain) => return,
    };
    let (is_http2, initial) = match detected {
        Ok(Ok(detected)) => detected,
        Ok(Err(error)) => {
            tracing::trace!(client = %peer.client, %error, "connection ended before its first request");
            return;
        }
        Err(_) => {
            tracing::trace!(client = %peer.client, "request not received within the timeout");
            return;
        }
    };
    let activity = Arc::new(Activity::new());
    let mut guard = RequestSmugglingGuard::new(stream, initial, head_timeout, activity.clone());
    if is_http2 {
        guard.pass_all();
        let connection = Connection::new(port, peer, activity, None, permit);
        let server = Http2Server::new(guard, connection.clone());
        drive(server, &connection, idle_timeout).await;
    } else {
        let connection = Connection::new(port, peer, activity, Some(guard.handle()), permit);
        let io = TokioIo::new(guard);
        let server = http1_builder()
            .serve_connection(io, connection.service())
            .with_upgrades();
        drive(server, &connection, idle_timeout).await;
        let tunnel = lock(&connection.tunnel).take();
        if let Some(tunnel) = tunnel {
            tunnel.run().await;
        }
    }
}

/// Returns true for HTTP/2, and the bytes that this function has read. ALPN decides, or without TLS the first bytes.
async fn detect_protocol(
    stream: &mut (impl AsyncRead + Unpin),
    peer: &Peer,
) -> std::io::Result<(bool, BytesMut)> {
    let mut initial = BytesMut::new();
    if let Some(tls) = &peer.tls {
        return Ok((tls.alpn.as_deref() == Some(b"h2"), initial));
    }
    while initial.len() < PREFACE.len() && PREFACE.starts_with(&initial) {
        if stream.read_buf(&mut initial).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok((initial.starts_with(PREFACE), initial))
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // The guard has the timeout of heads, so the parser needs none.
        .header_read_timeout(None)
        .max_headers(FIELDS_MAX)
        .max_buf_size(HTTP1_BUFFER_BYTES_MAX);
    builder
}

/// HTTP server for one connection.
trait HttpServer {
    /// Accepts no requests beyond those under way.
    fn start_shutdown(self: Pin<&mut Self>);
}

impl<I, S, F> HttpServer for http1::UpgradeableConnection<I, S>
where
    I: Read + Write + Unpin + Send + 'static,
    S: HttpService<Incoming, ResBody = ResponseBody, Error = Infallible, Future = F>,
{
    fn start_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> HttpServer for Http2Server<S> {
    fn start_shutdown(mut self: Pin<&mut Self>) {
        Http2Server::start_shutdown(&mut self);
    }
}

/// Serves requests until the connection ends by itself or by its idle timeout. If the port drains, or the connection
/// reaches its maximum age, it ends after the requests under way.
async fn drive<E: Display>(
    server: impl HttpServer + Future<Output = Result<(), E>>,
    connection: &Connection,
    idle_timeout: Duration,
) {
    let mut server = pin!(server);
    let mut drain = connection.port.drain();
    let activity = &connection.activity;
    let ends_at = end_of_age(&connection.port.policy.settings().service.policy);
    let mut end_requested_at: Option<Instant> = None;
    loop {
        let until = deadline(activity, end_requested_at, idle_timeout);
        tokio::select! {
            // Draining comes first, so that the next response announces the end of the connection.
            biased;
            () = wait_until_true(&mut drain), if end_requested_at.is_none() => {
                end_requested_at = Some(Instant::now());
                server.as_mut().start_shutdown();
            }
            () = wait_until(ends_at), if end_requested_at.is_none() => {
                end_requested_at = Some(Instant::now());
                server.as_mut().start_shutdown();
            }
            result = server.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(client = %connection.peer.client, %error, "connection failed");
                }
                return;
            }
            () = sleep_until(until) => {
                if Instant::now() < deadline(activity, end_requested_at, idle_timeout) {
                    continue;
                }
                if end_requested_at.is_some() || activity.is_busy() {
                    activity.set_timed_out();
                    return;
                }
                end_requested_at = Some(Instant::now());
                server.as_mut().start_shutdown();
            }
        }
    }
}

/// Returns the time at which a connection without activity ends. The requests of the connection time out before.
fn deadline(activity: &Activity, end_requested_at: Option<Instant>, idle_timeout: Duration) -> Instant {
    let idle_until = activity.idle().deadline(idle_timeout);
    match end_requested_at {
        _ if activity.is_busy() => idle_until + SHUTDOWN_TIMEOUT,
        Some(end_requested_at) => end_requested_at + SHUTDOWN_TIMEOUT,
        None => idle_until,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
