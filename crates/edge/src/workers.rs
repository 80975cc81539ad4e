//! Threads that serve connections. Each has a runtime of its own. The sockets of a connection therefore wake only the
//! thread that serves it.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, SendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::admission::ConnectionPermit;
use crate::backends::Backend;
use crate::connections::ConnectionTable;
use crate::inbound::{self, AcceptedConnection};
use crate::outbound::socket_reuse;
use crate::port::Port;
use crate::sockets;
use crate::worker_load::WorkerLoad;

/// Maximum number of connections accepted from one listener before other tasks run.
const ACCEPTS_PER_POLL_MAX: usize = 64;
/// Pause after a failed accept. The usual cause is a lack of descriptors, and an immediate retry would fail again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Period of a timer of each thread, which is set while connections arrive.
///
/// The runtime writes to its `eventfd` when a new timer is due before all others, even if it is awake. A connection has
/// a short timer while it connects to a backend, and a long one afterwards. Without an earlier timer, each would cost a
/// system call and a wake-up. The period is shorter than all timers of connections.
const TIMER_PERIOD: Duration = Duration::from_millis(500);

thread_local! {
    /// Deadline of this thread's own timer.
    static TIMER_DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// All threads. Dropping this stops them and closes all connections.
#[derive(Debug)]
pub(crate) struct Workers {
    workers: Arc<[Arc<Worker>]>,
    stop: watch::Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

/// Shared part of one thread.
#[derive(Debug)]
pub(crate) struct Worker {
    runtime: Handle,
    connections: Arc<ConnectionTable>,
    load: Arc<WorkerLoad>,
}

/// Listening socket for an accept loop.
pub(crate) struct ListenerHandle {
    /// Descriptor of the socket.
    pub socket: Arc<OwnedFd>,
    /// Address of the socket.
    pub address: SocketAddr,
    /// Port that the connections belong to.
    pub port: Arc<Port>,
    /// Dropping the sender stops the loop.
    pub stop: watch::Receiver<()>,
}

/// Accepted connection with a permit, until the thread that serves it has received it.
struct PermittedConnection {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
    port: Arc<Port>,
    permit: ConnectionPermit,
}

impl Workers {
    /// Starts `count` threads in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The error of the system if it provides no thread or no descriptor.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let (stop, _) = watch::channel(());
        let mut workers = Vec::new();
        let mut threads = Vec::new();
        for number in 0..count {
            let (runtime, thread) = spawn_runtime(format!("edge-{number}"), stop.subscribe())?;
            workers.push(Arc::new(Worker {
                runtime,
                connections: Arc::default(),
                load: Arc::default(),
            }));
            threads.push(thread);
        }
        Ok(Self {
            workers: workers.into(),
            stop,
            threads,
        })
    }

    /// Returns the number of threads.
    pub(crate) fn count(&self) -> usize {
        self.workers.len()
    }

    /// Runs an accept loop on one of the threads.
    pub(crate) fn accept_connections(&self, number: usize, listener: ListenerHandle) {
        if let Some(worker) = self.workers.get(number % self.count().max(1)) {
            let (worker, workers) = (worker.clone(), self.workers.clone());
            worker
                .runtime
                .clone()
                .spawn(accept_connections(worker, workers, listener));
        }
    }

    /// Runs a task on one of the threads.
    pub(crate) fn spawn(&self, number: usize, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(worker) = self.workers.get(number % self.count().max(1)) {
            worker.runtime.spawn(task);
        }
    }

    /// Aborts the connections to a backend.
    pub(crate) fn abort_connections_to(&self, backend: &Arc<Backend>) {
        for worker in self.workers.iter() {
            worker.connections.abort_to(backend);
        }
    }

    /// Aborts all connections.
    pub(crate) fn abort_all_connections(&self) {
        for worker in self.workers.iter() {
            worker.connections.abort_all();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.send_replace(());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("worker thread of the edge panicked");
            }
        }
    }
}

/// Starts a thread whose runtime works until `stop` changes or its sender is dropped.
///
/// # Errors
/// The error of the system if it provides no thread or no descriptor.
pub(crate) fn spawn_runtime(
    name: String,
    mut stop: watch::Receiver<()>,
) -> io::Result<(Handle, JoinHandle<()>)> {
    let (send, receive) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                if let Err(SendError(error)) = send.send(Err(error)) {
                    tracing::debug!(?error, "error of the runtime not reported; the edge is stopped");
                }
                return;
            }
        };
        if send.send(Ok(runtime.handle().clone())).is_err() {
            tracing::debug!("thread stopped before its start was complete");
            return;
        }
        // An error means that the sender was dropped, which stops the thread as well.
        if runtime.block_on(stop.changed()).is_err() {
            tracing::trace!("thread stopped");
        }
    })?;
    let handle = receive.recv().map_err(io::Error::other)??;
    Ok((handle, thread))
}

/// Accepts connections until the loop is stopped. Then accepts the connections in the backlog, because their clients
/// have completed the TCP handshake.
async fn accept_connections(worker: Arc<Worker>, workers: Arc<[Arc<Worker>]>, listener: ListenerHandle) {
    let ListenerHandle {
        socket,
        address,
        port,
        mut stop,
    } = listener;
    let accept_loop = port.accept_loop();
    let socket = match sockets::register(socket, Interest::READABLE) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!(%error, %address, "listener not registered"),
    };
    loop {
        let mut ready = tokio::select! {
            biased;
            _ = stop.changed() => break,
            ready = socket.readable() => match ready {
                Ok(ready) => ready,
                Err(error) => return tracing::error!(%error, %address, "listener failed"),
            },
        };
        for accepted in 0..ACCEPTS_PER_POLL_MAX {
            match ready.try_io(|socket| accept_next(socket.get_ref(), accepted)) {
                Ok(Ok((stream, peer))) => dispatch(&worker, &workers, stream, peer, address, &port),
                Ok(Err(error)) if is_aborted(&error) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, %address, "accept failed; retrying");
                    // The usual cause is a lack of descriptors.
                    socket_reuse::clear();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    break;
                }
                Err(_would_block) => break,
            }
        }
        tokio::task::yield_now().await;
    }
    while let Ok((stream, peer)) = accept_socket(socket.get_ref()) {
        dispatch(&worker, &workers, stream, peer, address, &port);
    }
    drop(accept_loop);
}

/// Accepts a connection, after `accepted` others of the same poll.
fn accept_next(socket: &OwnedFd, accepted: usize) -> io::Result<(OwnedFd, SocketAddr)> {
    // poll(2) needs a tenth of the CPU time of a failing accept(2), which needs a twentieth of that of a short
    // connection.
    let mut readable = [PollFd::new(socket, PollFlags::IN)];
    if accepted > 0 && poll(&mut readable, Some(&Timespec::default()))? == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    accept_socket(socket)
}

fn accept_socket(socket: &OwnedFd) -> io::Result<(OwnedFd, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, peer) = rustix::io::retry_on_intr(|| acceptfrom_with(socket, flags))?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    let peer = peer.ok_or(io::Error::from(Errno::AFNOSUPPORT))?;
    Ok((stream, peer))
}

/// Returns true if the client closed the connection before it was accepted.
fn is_aborted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionAborted
}

/// Takes a permit for a connection and chooses the thread that serves it, in most cases this one.
fn dispatch(
    worker: &Arc<Worker>,
    workers: &[Arc<Worker>],
    stream: OwnedFd,
    peer: SocketAddr,
    local: SocketAddr,
    port: &Arc<Port>,
) {
    let permit = match port.permit() {
        Ok(permit) => permit,
        Err(refusal) => {
            port.counters.refused(refusal);
            tracing::debug!(port = %port.key, client = %peer, reason = refusal.reason(), "connection refused");
            let reset = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            return reset
                .unwrap_or_else(|error| tracing::debug!(%error, "SO_LINGER not set; the connection is refused without a reset"));
        }
    };
    let other = workers
        .iter()
        .min_by_key(|other| other.load.count())
        .filter(|other| worker.load.exceeds(&other.load));
    let connection = PermittedConnection {
        stream: std::net::TcpStream::from(stream),
        peer,
        local,
        port: port.clone(),
        permit,
    };
    match other {
        Some(other) => {
            let chosen = other.clone();
            other
                .runtime
                .spawn(async move { spawn_connection(&chosen, connection) });
        }
        None => spawn_connection(worker, connection),
    }
}

/// Keeps a timer that is due before those of the connections; see [`TIMER_PERIOD`].
fn keep_early_timer() {
    let now = Instant::now();
    if TIMER_DEADLINE.get().is_none_or(|deadline| deadline <= now) {
        TIMER_DEADLINE.set(Some(now + TIMER_PERIOD));
        tokio::spawn(tokio::time::sleep(TIMER_PERIOD));
    }
}

/// Starts the task of a connection. Runs on the thread of `worker`.
fn spawn_connection(worker: &Arc<Worker>, connection: PermittedConnection) {
    let PermittedConnection {
        stream,
        peer,
        local,
        port,
        permit,
    } = connection;
    keep_early_timer();
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "connection not registered"),
    };
    let connection = AcceptedConnection {
        stream,
        peer,
        local,
        port,
        permit,
    };
    worker.connections.insert(|slot| {
        let serving = worker.load.clone().track(inbound::serve(connection, slot));
        tokio::spawn(serving).abort_handle()
    });
}
