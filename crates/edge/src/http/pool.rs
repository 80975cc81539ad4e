//! Pooled connections to one backend.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use http::Version;
use hyper::client::conn::http1;
use tokio::time::Instant;

use super::http2_client::{BodyTask, Http2Client};
use super::request_body::RequestBody;

/// Maximum number of idle HTTP/1.1 connections to a backend. Further ones are closed.
const IDLE_MAX: usize = 128;
/// Time for which an idle connection is kept. Most servers close theirs later.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of HTTP/2 connections that requests share.
const SHARED_MAX: usize = 8;
/// Maximum number of requests that share a connection before another one is opened. Servers commonly allow 100 and
/// more; further requests wait.
const STREAMS_MAX: usize = 100;
/// Time until a connection must accept the next request after a response. The task of the connection runs within this
/// time.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

/// Pooled connections. Dropping this closes them.
#[derive(Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<PoolState>>);

/// Connections to a backend.
#[derive(Debug, Default)]
struct PoolState {
    idle: Vec<IdleHttp1>,
    shared: Vec<SharedHttp2>,
    is_swept: bool,
    /// Increases when the pool is cleared: connections of earlier generations do not return.
    generation: u64,
}

/// A connection without a request.
#[derive(Debug)]
struct IdleHttp1 {
    sender: http1::SendRequest<RequestBody>,
    since: Instant,
    /// Thread of its task, from which it is fastest.
    thread: ThreadId,
}

/// A connection with several streams.
#[derive(Clone, Debug)]
struct SharedHttp2 {
    connection: Http2Client,
    streams: Arc<AtomicUsize>,
}

/// Connection that takes a request.
#[derive(Debug)]
pub(crate) enum RequestSender {
    /// HTTP/1.1: one request at a time.
    Http1(Http1),
    /// HTTP/2: several requests.
    Http2(Http2),
}

/// HTTP/1.1 connection, and the pool to which it returns.
#[derive(Debug)]
pub(crate) struct Http1 {
    /// Sends requests.
    pub sender: http1::SendRequest<RequestBody>,
    pool: Weak<Mutex<PoolState>>,
    thread: ThreadId,
    generation: u64,
}

/// Share of an HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    /// Sends requests.
    pub connection: Http2Client,
    /// Task that sends the rest of the body, if one is needed.
    pub sending: Option<BodyTask>,
    streams: Arc<AtomicUsize>,
}

impl Pool {
    /// Takes a pooled connection. `is_http1` excludes connections of HTTP/2. With `is_careful`, the pool checks once more
    /// that the backend has not closed the connection. Requests that cannot be sent again need this check.
    pub(crate) async fn take(&self, is_http1: bool, is_careful: bool) -> Option<RequestSender> {
        if !is_http1 && let Some(shared) = self.state().share() {
            return Some(RequestSender::Http2(shared));
        }
        loop {
            let (idle, generation) = self.state().pop()?;
            let IdleHttp1 {
                mut sender, thread, ..
            } = idle;
            if is_careful {
                // The connection's task runs first, and reads data that the kernel has received.
                tokio::task::yield_now().await;
            }
            let is_ready = sender.is_ready()
                || matches!(
                    tokio::time::timeout(READY_TIMEOUT, sender.ready()).await,
                    Ok(Ok(()))
                );
            if is_ready && !sender.is_closed() {
                let pool = Arc::downgrade(&self.0);
                return Some(RequestSender::Http1(Http1 {
                    sender,
                    pool,
                    thread,
                    generation,
                }));
            }
        }
    }

    /// Returns a new HTTP/1.1 connection, whose task runs on this thread.
    pub(crate) fn add_http1(&self, sender: http1::SendRequest<RequestBody>) -> RequestSender {
        let generation = self.state().generation;
        RequestSender::Http1(Http1 {
            sender,
            pool: Arc::downgrade(&self.0),
            thread: thread::current().id(),
            generation,
        })
    }

    /// Returns a new HTTP/2 connection, which other requests may share from now on.
    pub(crate) fn add_http2(&self, connection: Http2Client) -> RequestSender {
        let shared = SharedHttp2 {
            connection,
            streams: Arc::default(),
        };
        let mut state = self.state();
        if state.shared.len() < SHARED_MAX {
            state.shared.push(shared.clone());
        }
        drop(state);
        RequestSender::Http2(shared.stream())
    }

    /// Closes idle connections, and those in use when their requests end: the backend is removed, or its protocol
    /// changes.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.idle.clear();
        state.shared.clear();
        state.generation += 1;
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        lock(&self.0)
    }
}

impl RequestSender {
    /// Version of HTTP of the connection.
    pub(crate) fn version(&self) -> Version {
        match self {
            Self::Http1(_) => Version::HTTP_11,
            Self::Http2(_) => Version::HTTP_2,
        }
    }
}

impl Http1 {
    /// Returns the connection to the pool after the last response has ended.
    pub(crate) fn release(self) {
        let Some(pool) = self.pool.upgrade() else { return };
        if self.sender.is_closed() {
            return;
        }
        let mut state = lock(&pool);
        if state.idle.len() >= IDLE_MAX || state.generation != self.generation {
            return;
        }
        state.idle.push(IdleHttp1 {
            sender: self.sender,
            since: Instant::now(),
            thread: self.thread,
        });
        if !std::mem::replace(&mut state.is_swept, true) {
            drop(tokio::spawn(close_idle_connections(Arc::downgrade(&pool))));
        }
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SharedHttp2 {
    fn stream(&self) -> Http2 {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Http2 {
            connection: self.connection.clone(),
            sending: None,
            streams: self.streams.clone(),
        }
    }
}

impl PoolState {
    /// Returns the connection that was used last, preferably of this thread. Other connections therefore become idle
    /// and are closed.
    fn pop(&mut self) -> Option<(IdleHttp1, u64)> {
        let thread = thread::current().id();
        self.idle.retain(|idle| !idle.sender.is_closed());
        let found = self.idle.iter().rposition(|idle| idle.thread == thread);
        let idle = match found {
            Some(found) => Some(self.idle.remove(found)),
            None => self.idle.pop(),
        };
        Some((idle?, self.generation))
    }

    /// Returns the least used connection, if it has room or no more may be opened.
    fn share(&mut self) -> Option<Http2> {
        self.shared.retain(|shared| !shared.connection.is_closed());
        let streams = |shared: &SharedHttp2| shared.streams.load(Ordering::Relaxed);
        let best = self.shared.iter().min_by_key(|shared| streams(shared))?;
        let is_full = streams(best) >= STREAMS_MAX;
        (!is_full || self.shared.len() >= SHARED_MAX).then(|| best.stream())
    }
}

/// Closes connections whose idle timeout has expired. Returns when no connection is idle.
async fn close_idle_connections(pool: Weak<Mutex<PoolState>>) {
    loop {
        tokio::time::sleep(IDLE_TIMEOUT / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut state = lock(&pool);
        state
            .idle
            .retain(|idle| idle.since.elapsed() < IDLE_TIMEOUT && !idle.sender.is_closed());
        state.shared.retain(|shared| !shared.connection.is_closed());
        if state.idle.is_empty() {
            state.is_swept = false;
            return;
        }
    }
}

fn lock(state: &Mutex<PoolState>) -> MutexGuard<'_, PoolState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
