//! A client's connection, from its first byte on until it ends.

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
use super::answer_body::{AnswerBody, asked};
use super::guard::{Guard, Told};
use super::head::FIELDS_MAX;
use super::pool::Pool;
use super::streams::Streams;
use super::tunnel::Tunnel;
use super::wire::WireBody;
use crate::backends::Chosen;
use crate::peer::Peer;
use crate::port::{Port, Seat};
use crate::relay::BreakOff;

/// How long a request's head may take, from its first byte on, and how long a connection may wait with its first one. With a
/// shorter idle timeout, that counts.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection may take to end that was told to, or whose requests have been given up.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// What clients of HTTP/2 begin with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a connection of HTTP/1 that are buffered for writing, or for reading a head.
const HTTP1_BUFFER_BYTES_MAX: usize = 64 << 10;

/// What the requests of a connection share.
#[derive(Debug)]
pub struct Connection {
    pub(super) port: Arc<Port>,
    pub(super) peer: Arc<Peer>,
    pub(super) activity: Arc<Activity>,
    /// The guard of a connection of HTTP/1.
    pub(super) told: Option<Told>,
    requests: AtomicU64,
    /// Connections to backends that nobody else may use, since they begin with who this client is. As many as the Service
    /// has backends, at most.
    own: Mutex<HashMap<SocketAddr, Arc<Pool>>>,
    tunnel: Mutex<Option<Tunnel>>,
    /// Given back when nothing of the connection is under way any more.
    _seat: Option<Seat>,
}

impl Connection {
    fn new(
        port: Arc<Port>,
        peer: Peer,
        activity: Arc<Activity>,
        told: Option<Told>,
        seat: Option<Seat>,
    ) -> Arc<Self> {
        Arc::new(Self {
            port,
            peer: Arc::new(peer),
            activity,
            told,
            requests: AtomicU64::new(0),
            own: Mutex::default(),
            tunnel: Mutex::default(),
            _seat: seat,
        })
    }

    /// Where connections to a backend are kept.
    pub(super) fn pool(&self, chosen: &Chosen) -> Arc<Pool> {
        if self
            .port
            .current()
            .service
            .policy
            .proxy_protocol_to_backends
            .is_none()
        {
            return chosen.backend.pool().clone();
        }
        let mut own = lock(&self.own);
        own.entry(chosen.backend.address).or_default().clone()
    }

    /// Counts requests from 1.
    pub(super) fn next_number(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Hands over what is to follow when the connection has changed its protocol.
    pub(super) fn set_tunnel(&self, tunnel: Tunnel) {
        *lock(&self.tunnel) = Some(tunnel);
    }

    fn service(
        self: &Arc<Self>,
    ) -> impl HttpService<Incoming, ResBody = AnswerBody, Error = Infallible, Future: Send + 'static> + use<>
    {
        let connection = self.clone();
        service_fn(move |request: Request<Incoming>| {
            let connection = connection.clone();
            let request = request.map(WireBody::Http1);
            async move { Ok::<_, Infallible>(connection.answer(request, None).await) }
        })
    }
}

/// Serves the connection of a client until it ends.
pub(super) async fn serve<S>(mut stream: S, peer: Peer, port: Arc<Port>, seat: Option<Seat>)
where
    S: AsyncRead + AsyncWrite + BreakOff + Unpin + Send + 'static,
{
    let idle_timeout = port.current().service.policy.idle_timeout;
    let head_timeout = HEAD_TIMEOUT.min(idle_timeout);
    let mut drain = port.drain();
    let begun = tokio::select! {
        begun = timeout(head_timeout, begin(&mut stream, &peer)) => begun,
        // Nothing has been asked for yet.
        () = asked(&mut drain) => return,
    };
    let (is_http2, begin) = match begun {
        Ok(Ok(begun)) => begun,
        Ok(Err(error)) => {
            tracing::trace!(client = %peer.client, %error, "a connection ended before its first request");
            return;
        }
        Err(_) => {
            tracing::trace!(client = %peer.client, "a connection asked for nothing");
            return;
        }
    };
    let activity = Arc::new(Activity::new());
    let mut guard = Guard::new(stream, begin, head_timeout, activity.clone());
    if is_http2 {
        guard.pass_all();
        let connection = Connection::new(port, peer, activity, None, seat);
        let served = Streams::new(guard, connection.clone());
        drive(served, &connection, idle_timeout).await;
    } else {
        let connection = Connection::new(port, peer, activity, Some(guard.told()), seat);
        let io = TokioIo::new(guard);
        let served = http1_builder()
            .serve_connection(io, connection.service())
            .with_upgrades();
        drive(served, &connection, idle_timeout).await;
        let tunnel = lock(&connection.tunnel).take();
        if let Some(tunnel) = tunnel {
            tunnel.run().await;
        }
    }
}

/// Whether it is HTTP/2, and what was read to find out: as ALPN has it, or without TLS by how it begins.
async fn begin(stream: &mut (impl AsyncRead + Unpin), peer: &Peer) -> std::io::Result<(bool, BytesMut)> {
    let mut begin = BytesMut::new();
    if let Some(tls) = &peer.tls {
        return Ok((tls.alpn.as_deref() == Some(b"h2"), begin));
    }
    while begin.len() < PREFACE.len() && PREFACE.starts_with(&begin) {
        if stream.read_buf(&mut begin).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok((begin.starts_with(PREFACE), begin))
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // The guard looks after heads; this is a second bolt.
        .header_read_timeout(None)
        .max_headers(FIELDS_MAX)
        .max_buf_size(HTTP1_BUFFER_BYTES_MAX);
    builder
}

/// A connection that can be told to end.
trait Served {
    /// No request is to follow those that are under way.
    fn end(self: Pin<&mut Self>);
}

impl<I, S, F> Served for http1::UpgradeableConnection<I, S>
where
    I: Read + Write + Unpin + Send + 'static,
    S: HttpService<Incoming, ResBody = AnswerBody, Error = Infallible, Future = F>,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Served for Streams<S> {
    fn end(mut self: Pin<&mut Self>) {
        Streams::end(&mut self);
    }
}

/// Serves requests until the connection ends: by itself, when nothing has happened on it for too long, or when the port
/// drains, as soon as what is under way is done.
async fn drive<E: Display>(
    served: impl Served + Future<Output = Result<(), E>>,
    connection: &Connection,
    idle_timeout: Duration,
) {
    let mut served = pin!(served);
    let mut drain = connection.port.drain();
    let activity = &connection.activity;
    let mut told_at: Option<Instant> = None;
    loop {
        let until = lasts_until(activity, told_at, idle_timeout);
        tokio::select! {
            // First, so that an answer that goes out afterwards says that it is the last.
            biased;
            () = asked(&mut drain), if told_at.is_none() => {
                told_at = Some(Instant::now());
                served.as_mut().end();
            }
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(client = %connection.peer.client, %error, "a connection ended with an error");
                }
                return;
            }
            () = sleep_until(until) => {
                if Instant::now() < lasts_until(activity, told_at, idle_timeout) {
                    continue;
                }
                if told_at.is_some() || activity.is_busy() {
                    activity.give_up();
                    return;
                }
                told_at = Some(Instant::now());
                served.as_mut().end();
            }
        }
    }
}

/// How long a connection lasts if nothing happens on it. Requests are given up by themselves before that.
fn lasts_until(activity: &Activity, told_at: Option<Instant>, idle_timeout: Duration) -> Instant {
    let silent_until = activity.silence().lasts_until(idle_timeout);
    match told_at {
        _ if activity.is_busy() => silent_until + END_PATIENCE,
        Some(told_at) => told_at + END_PATIENCE,
        None => silent_until,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
