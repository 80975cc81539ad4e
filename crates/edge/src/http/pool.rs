//! Connections to one backend that are kept for further requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use http::Version;
use hyper::client::conn::http1;
use tokio::time::Instant;

use super::backend_streams::{BackendStreams, Sending};
use super::request_body::RequestBody;

/// Idle connections of HTTP/1.1 that are kept to a backend; more are closed.
const IDLE_MAX: usize = 128;
/// How long an idle one is kept. Most servers close theirs later.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// Connections of HTTP/2 that requests share.
const SHARED_MAX: usize = 8;
/// Requests that share one at once, before another is opened. Servers commonly allow 100 and more; what is above that
/// waits.
const STREAMS_MAX: usize = 100;
/// How long a connection whose answer has ended may take until it takes the next request: its task is about to run.
const READY_PATIENCE: Duration = Duration::from_millis(100);

/// Kept connections. Dropping it closes them.
#[derive(Debug, Default)]
pub struct Pool(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    idle: Vec<Idle>,
    shared: Vec<Shared>,
    is_swept: bool,
    /// Grows when all are closed: what was in use then is not kept afterwards.
    generation: u64,
}

#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Instant,
    /// Where its task runs: it is quickest from there.
    thread: ThreadId,
}

#[derive(Clone, Debug)]
struct Shared {
    connection: BackendStreams,
    streams: Arc<AtomicUsize>,
}

/// A connection that takes a request.
#[derive(Debug)]
pub enum Sender {
    /// For one request at a time.
    Http1(Http1),
    /// For several.
    Http2(Http2),
}

/// A connection of HTTP/1.1, and where it is kept afterwards.
#[derive(Debug)]
pub struct Http1 {
    /// Sends requests.
    pub sender: http1::SendRequest<RequestBody>,
    pool: Weak<Mutex<Kept>>,
    thread: ThreadId,
    generation: u64,
}

/// A share of a connection of HTTP/2.
#[derive(Debug)]
pub struct Http2 {
    /// Sends requests.
    pub connection: BackendStreams,
    /// What is still to be sent of the one that it was taken for.
    pub sending: Option<Sending>,
    streams: Arc<AtomicUsize>,
}

impl Pool {
    /// A kept connection. With `is_http1`, none of HTTP/2. With `is_careful`, whether a connection has just been closed is
    /// looked at once more: for requests that cannot be sent again.
    pub async fn take(&self, is_http1: bool, is_careful: bool) -> Option<Sender> {
        if !is_http1 && let Some(shared) = self.kept().share() {
            return Some(Sender::Http2(shared));
        }
        loop {
            let (idle, generation) = self.kept().pop()?;
            let Idle {
                mut sender, thread, ..
            } = idle;
            if is_careful {
                // What has come from the kernel reaches the connection's task before this one goes on.
                tokio::task::yield_now().await;
            }
            let is_ready = sender.is_ready()
                || matches!(
                    tokio::time::timeout(READY_PATIENCE, sender.ready()).await,
                    Ok(Ok(()))
                );
            if is_ready && !sender.is_closed() {
                let pool = Arc::downgrade(&self.0);
                return Some(Sender::Http1(Http1 {
                    sender,
                    pool,
                    thread,
                    generation,
                }));
            }
        }
    }

    /// A new connection of HTTP/1.1, whose task runs on this thread.
    pub fn http1(&self, sender: http1::SendRequest<RequestBody>) -> Sender {
        let generation = self.kept().generation;
        Sender::Http1(Http1 {
            sender,
            pool: Arc::downgrade(&self.0),
            thread: thread::current().id(),
            generation,
        })
    }

    /// A new connection of HTTP/2, which others may share from now on.
    pub fn http2(&self, connection: BackendStreams) -> Sender {
        let shared = Shared {
            connection,
            streams: Arc::default(),
        };
        let mut kept = self.kept();
        if kept.shared.len() < SHARED_MAX {
            kept.shared.push(shared.clone());
        }
        drop(kept);
        Sender::Http2(shared.stream())
    }

    /// Closes all that is kept, and what is in use when it is not used any more: the backend has left, or is spoken to in
    /// another way.
    pub fn clear(&self) {
        let mut kept = self.kept();
        kept.idle.clear();
        kept.shared.clear();
        kept.generation += 1;
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.0)
    }
}

impl Sender {
    /// The version of HTTP that it speaks.
    pub fn version(&self) -> Version {
        match self {
            Self::Http1(_) => Version::HTTP_11,
            Self::Http2(_) => Version::HTTP_2,
        }
    }
}

impl Http1 {
    /// Keeps it for the next request: the last answer has ended.
    pub fn keep(self) {
        let Some(pool) = self.pool.upgrade() else { return };
        if self.sender.is_closed() {
            return;
        }
        let mut kept = lock(&pool);
        if kept.idle.len() >= IDLE_MAX || kept.generation != self.generation {
            return;
        }
        kept.idle.push(Idle {
            sender: self.sender,
            since: Instant::now(),
            thread: self.thread,
        });
        if !std::mem::replace(&mut kept.is_swept, true) {
            drop(tokio::spawn(sweep(Arc::downgrade(&pool))));
        }
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    fn stream(&self) -> Http2 {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Http2 {
            connection: self.connection.clone(),
            sending: None,
            streams: self.streams.clone(),
        }
    }
}

impl Kept {
    /// The one that was used last, if possible one of this thread: so those that are not needed grow old.
    fn pop(&mut self) -> Option<(Idle, u64)> {
        let thread = thread::current().id();
        self.idle.retain(|idle| !idle.sender.is_closed());
        let found = self.idle.iter().rposition(|idle| idle.thread == thread);
        let idle = match found {
            Some(found) => Some(self.idle.remove(found)),
            None => self.idle.pop(),
        };
        Some((idle?, self.generation))
    }

    /// The least used one, as long as it has room or no more may be opened.
    fn share(&mut self) -> Option<Http2> {
        self.shared.retain(|shared| !shared.connection.is_closed());
        let streams = |shared: &Shared| shared.streams.load(Ordering::Relaxed);
        let best = self.shared.iter().min_by_key(|shared| streams(shared))?;
        let is_full = streams(best) >= STREAMS_MAX;
        (!is_full || self.shared.len() >= SHARED_MAX).then(|| best.stream())
    }
}

/// Closes what has been idle for too long, until nothing is idle.
async fn sweep(pool: Weak<Mutex<Kept>>) {
    loop {
        tokio::time::sleep(IDLE_TIME / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut kept = lock(&pool);
        kept.idle
            .retain(|idle| idle.since.elapsed() < IDLE_TIME && !idle.sender.is_closed());
        kept.shared.retain(|shared| !shared.connection.is_closed());
        if kept.idle.is_empty() {
            kept.is_swept = false;
            return;
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
