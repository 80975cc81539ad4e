//! The threads that serve connections, one a core, each with a runtime of its own: a connection's sockets wake the thread
//! that serves it and no other.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use slab::Slab;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::backends::Backend;
use crate::inbound::{self, Arrival};
use crate::load::Load;
use crate::outbound::spare;
use crate::port::{Port, Seat};
use crate::sockets;

/// Threads at most.
pub(crate) const THREADS_MAX: usize = 64;
/// Connections taken from one listener before others have their turn.
const TAKEN_MAX: usize = 64;
/// Pause after a connection could not be taken: the usual cause is a want of descriptors, which no hurry mends.
const PAUSE: Duration = Duration::from_millis(20);
/// How far off a thread's next timer is at most while connections come. The runtime tells itself by an `eventfd` of each
/// timer that is due before all others, also where it need not be woken: with connections that each have little time to
/// reach a backend and much time then, that is a system call and a turn for nothing a connection. Shorter than all of those.
const TIMER_PERIOD: Duration = Duration::from_millis(500);

thread_local! {
    /// When this thread's own timer is due.
    static TIMER: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// All threads. Dropping this ends them, and all connections.
#[derive(Debug)]
pub(crate) struct Workers {
    team: Arc<[Arc<Worker>]>,
    end: watch::Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

/// A thread, as others see it.
#[derive(Debug)]
pub(crate) struct Worker {
    runtime: Handle,
    connections: Mutex<Slab<Connection>>,
    load: Arc<Load>,
}

#[derive(Debug)]
struct Connection {
    abort: AbortHandle,
    backend: Option<Arc<Backend>>,
}

/// A connection's place with its thread, which it has until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    worker: Arc<Worker>,
    key: usize,
}

/// A socket that connections are taken from.
pub(crate) struct Door {
    /// The socket.
    pub socket: Arc<OwnedFd>,
    /// Its address.
    pub at: SocketAddr,
    /// Whose connections.
    pub port: Arc<Port>,
    /// Dropped by the other side when no more are to be taken.
    pub stop: watch::Receiver<()>,
}

impl Workers {
    /// Starts so many threads, in the network namespace of this one.
    pub fn start(count: usize) -> io::Result<Self> {
        let (end, _) = watch::channel(());
        let mut team = Vec::new();
        let mut threads = Vec::new();
        for number in 0..count {
            let (runtime, thread) = spawn_runtime(format!("edge-{number}"), end.subscribe())?;
            team.push(Arc::new(Worker {
                runtime,
                connections: Mutex::default(),
                load: Arc::default(),
            }));
            threads.push(thread);
        }
        Ok(Self {
            team: team.into(),
            end,
            threads,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.team.len()
    }

    /// Has a thread take connections from a socket.
    pub fn take_connections(&self, number: usize, door: Door) {
        if let Some(worker) = self.team.get(number % self.count().max(1)) {
            let (worker, team) = (worker.clone(), self.team.clone());
            worker.runtime.clone().spawn(take_connections(worker, team, door));
        }
    }

    /// Has a thread do something until it is aborted or ends.
    pub fn spawn(&self, number: usize, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(worker) = self.team.get(number % self.count().max(1)) {
            worker.runtime.spawn(work);
        }
    }

    /// Ends the connections to a backend.
    pub fn cut(&self, backend: &Arc<Backend>) {
        self.abort(|connection| {
            let of = connection.backend.as_ref();
            of.is_some_and(|of| Arc::ptr_eq(of, backend))
        });
    }

    /// Ends all connections.
    pub fn cut_all(&self) {
        self.abort(|_| true);
    }

    fn abort(&self, which: impl Fn(&Connection) -> bool) {
        for worker in self.team.iter() {
            let connections = worker.connections.lock().unwrap_or_else(PoisonError::into_inner);
            let chosen = connections.iter().filter(|(_, connection)| which(connection));
            let handles: Vec<AbortHandle> = chosen.map(|(_, connection)| connection.abort.clone()).collect();
            drop(connections);
            handles.iter().for_each(AbortHandle::abort);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.end.send_replace(());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the edge has panicked");
            }
        }
    }
}

/// Starts a thread with a runtime that works until it is told to end.
pub(crate) fn spawn_runtime(
    name: String,
    mut end: watch::Receiver<()>,
) -> io::Result<(Handle, JoinHandle<()>)> {
    let (send, receive) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                // Whoever waits for it learns the same from a sender that is gone, but for the reason.
                if let Err(SendError(unheard)) = send.send(Err(error)) {
                    tracing::debug!(?unheard, "nobody waits for a thread that does not start");
                }
                return;
            }
        };
        if send.send(Ok(runtime.handle().clone())).is_err() {
            tracing::debug!("nobody waits for a thread that has started");
            return;
        }
        // An error says that the other side is gone, which is an end too.
        if runtime.block_on(end.changed()).is_err() {
            tracing::trace!("a thread ends with what it worked for");
        }
    })?;
    let handle = receive.recv().map_err(io::Error::other)??;
    Ok((handle, thread))
}

/// Takes connections from a socket until it is told to stop, then those that wait there: their clients hold them for open.
async fn take_connections(worker: Arc<Worker>, team: Arc<[Arc<Worker>]>, door: Door) {
    let Door {
        socket,
        at,
        port,
        mut stop,
    } = door;
    let taking = Taking::begin(&port);
    let socket = match sockets::awaited(socket, Interest::READABLE) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!(%error, %at, "connections cannot be taken"),
    };
    loop {
        let mut ready = tokio::select! {
            biased;
            _ = stop.changed() => break,
            ready = socket.readable() => match ready {
                Ok(ready) => ready,
                Err(error) => return tracing::error!(%error, %at, "connections cannot be taken any more"),
            },
        };
        for taken in 0..TAKEN_MAX {
            match ready.try_io(|socket| accept_next(socket.get_ref(), taken)) {
                Ok(Ok((stream, from))) => arrive(&worker, &team, stream, from, at, &port),
                Ok(Err(error)) if is_gone(&error) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, %at, "a connection is not taken yet");
                    spare::close_all();
                    tokio::time::sleep(PAUSE).await;
                    break;
                }
                Err(_would_block) => break,
            }
        }
        tokio::task::yield_now().await;
    }
    while let Ok((stream, from)) = accept(socket.get_ref()) {
        arrive(&worker, &team, stream, from, at, &port);
    }
    drop(taking);
}

/// Counts a task that takes connections.
pub(crate) struct Taking(Arc<Port>);

impl Taking {
    /// It begins.
    pub fn begin(port: &Arc<Port>) -> Self {
        port.shared.takers.fetch_add(1, Ordering::Relaxed);
        Self(port.clone())
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.shared.takers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes a connection after so many others. Whether there is a further one is asked first: that costs a tenth of an attempt
/// to take one that is not there, which is a twentieth of all that a short connection costs.
fn accept_next(socket: &OwnedFd, taken: usize) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut asked = [PollFd::new(socket, PollFlags::IN)];
    if taken > 0 && poll(&mut asked, Some(&Timespec::default()))? == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    accept(socket)
}

fn accept(socket: &OwnedFd) -> io::Result<(OwnedFd, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, from) = rustix::io::retry_on_intr(|| acceptfrom_with(socket, flags))?;
    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
    let from = from.ok_or(io::Error::from(Errno::AFNOSUPPORT))?;
    Ok((stream, from))
}

/// A client that gave up before it was taken.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionAborted
}

/// Finds a thread for a connection, mostly this one.
fn arrive(
    worker: &Arc<Worker>,
    team: &[Arc<Worker>],
    stream: OwnedFd,
    from: SocketAddr,
    at: SocketAddr,
    port: &Arc<Port>,
) {
    let seat = match port.seat() {
        Ok(seat) => seat,
        Err(why) => {
            port.counters().refused(why);
            tracing::debug!(port = %port.key, client = %from, reason = why.reason(), "a client is sent away");
            let told = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            return told.unwrap_or_else(|error| tracing::debug!(%error, "a client is not told by a reset"));
        }
    };
    let other = team
        .iter()
        .min_by_key(|other| other.load.count())
        .filter(|other| worker.load.is_more_than(&other.load));
    let stream = std::net::TcpStream::from(stream);
    let arrival = (stream, from, at, port.clone(), seat);
    match other {
        Some(other) => {
            let chosen = other.clone();
            other.runtime.spawn(async move { begin(&chosen, arrival) });
        }
        None => begin(worker, arrival),
    }
}

/// Has a timer be due before those of the connections.
fn keep_timer() {
    let now = Instant::now();
    if TIMER.get().is_none_or(|due| due <= now) {
        TIMER.set(Some(now + TIMER_PERIOD));
        tokio::spawn(tokio::time::sleep(TIMER_PERIOD));
    }
}

/// Begins to serve a connection, on its thread.
fn begin(worker: &Arc<Worker>, arrival: (std::net::TcpStream, SocketAddr, SocketAddr, Arc<Port>, Seat)) {
    let (stream, from, at, port, seat) = arrival;
    keep_timer();
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "a connection cannot be waited for"),
    };
    let arrival = Arrival {
        stream,
        from,
        at,
        port,
        seat,
    };
    let mut connections = worker.connections.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = connections.vacant_entry();
    let place = Place {
        worker: worker.clone(),
        key: entry.key(),
    };
    // It is this thread's: it does not run before the entry is there.
    let serving = worker.load.clone().counting(inbound::serve(arrival, place));
    let task = tokio::spawn(serving);
    entry.insert(Connection {
        abort: task.abort_handle(),
        backend: None,
    });
}

impl Place {
    /// The connection is one to this backend.
    pub fn belongs_to(&self, backend: &Arc<Backend>) {
        let mut connections = self
            .worker
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = connections.get_mut(self.key) {
            connection.backend = Some(backend.clone());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = self
            .worker
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // What it held is dropped with the lock free.
        let gone = connections.try_remove(self.key);
        drop(connections);
        drop(gone);
    }
}
