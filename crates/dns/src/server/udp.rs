//! Queries over UDP: one socket and one thread per core, which share a port (SO_REUSEPORT).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Handle;

use super::datagrams::{self, Batch, Slot};
use super::respond::{Peer, PendingQuery, Reaction, Responder, Transport, WorkerState};
use super::response_rate::{Decision, RateLimit};
use crate::wire::{Reply, ResponseCode, UDP_BYTES_MIN, parse_query};

/// Receive buffer of a socket in bytes; it holds a burst while a worker is busy.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Pause after a failed receive, so that a permanent error does not occupy a core.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// Workers of one address.
#[derive(Debug)]
pub(super) struct UdpWorkers {
    sockets: Vec<Arc<UdpSocket>>,
    threads: Vec<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
}

/// Rate limits per network of clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// Limit for allowed clients.
    pub(super) responses: Option<Arc<RateLimit>>,
    /// Limit for refused clients.
    pub(super) refusals: Option<Arc<RateLimit>>,
}

/// Opens a socket for each worker.
pub(super) fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<UdpSocket>> {
    (0..workers).map(|_| bind_one(address)).collect()
}

impl UdpWorkers {
    /// Starts a worker for each socket. Queries that need a resolver complete on `runtime`.
    pub(super) fn start(
        sockets: Vec<UdpSocket>,
        responder: &Arc<Responder>,
        limits: &Limits,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let mut workers = Self {
            sockets: Vec::new(),
            threads: Vec::new(),
            stopping,
        };
        for (number, socket) in sockets.into_iter().enumerate() {
            let socket = Arc::new(socket);
            let worker = Worker {
                socket: socket.clone(),
                responder: responder.clone(),
                limits: limits.clone(),
                runtime: runtime.clone(),
                stopping: workers.stopping.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("dns-udp-{number}"));
            workers.threads.push(thread.spawn(move || worker.run())?);
            workers.sockets.push(socket);
        }
        Ok(workers)
    }
}

impl Drop for UdpWorkers {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        for socket in &self.sockets {
            datagrams::wake(socket);
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("DNS worker panicked");
            }
        }
    }
}

/// Thread that answers queries of a socket.
struct Worker {
    socket: Arc<UdpSocket>,
    responder: Arc<Responder>,
    limits: Limits,
    runtime: Handle,
    stopping: Arc<AtomicBool>,
}

impl Worker {
    fn run(self) {
        let mut batch = Batch::new();
        let mut state = self.responder.worker_state();
        let started = Instant::now();
        while !self.stopping.load(Ordering::Acquire) {
            let slots = match batch.receive(&self.socket) {
                Ok(slots) => slots,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::warn!(%error, "receive failed");
                    std::thread::sleep(FAILURE_PAUSE);
                    continue;
                }
            };
            let count = slots.len();
            let now_milliseconds = started.elapsed().as_millis() as u32; // wraps, as the limiter expects
            for slot in slots {
                // A panic in one query does not end the worker.
                let served = catch_unwind(AssertUnwindSafe(|| {
                    self.serve(slot, &mut state, now_milliseconds)
                }));
                if served.is_err() {
                    slot.response_bytes = 0;
                    self.responder.metrics().panics.fetch_add(1, Ordering::Relaxed);
                }
            }
            batch.send(&self.socket, count);
        }
    }

    /// Answers the query in a slot. Drops or truncates responses above the rate of the client.
    fn serve(&self, slot: &mut Slot, state: &mut WorkerState, now_milliseconds: u32) {
        let Some(address) = slot.route().client() else {
            return;
        };
        let is_allowed = self.responder.allows(address);
        let limit = if is_allowed {
            &self.limits.responses
        } else {
            &self.limits.refusals
        };
        let decision = limit
            .as_ref()
            .map_or(Decision::Send, |limit| limit.take(address, now_milliseconds));
        // A truncated refusal would make the client retry over TCP, only to be refused there.
        if decision == Decision::Drop || (decision == Decision::Truncate && !is_allowed) {
            state.counters.rate_limit_drops.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let peer = Peer {
            address,
            transport: Transport::Udp,
        };
        let (query, response) = slot.split();
        if decision == Decision::Truncate {
            state
                .counters
                .rate_limit_truncations
                .fetch_add(1, Ordering::Relaxed);
            slot.response_bytes = write_truncated(query, response);
            return;
        }
        match self.responder.respond(query, peer, response, state) {
            Reaction::Send(length) => slot.response_bytes = length,
            Reaction::SendAndPrefetch(length, question) => {
                slot.response_bytes = length;
                let _entered = self.runtime.enter();
                self.responder.prefetch(&question);
            }
            Reaction::Forward(pending) => self.forward(*pending, slot.route()),
            // Zone transfers use connections only; `respond` never returns one for UDP.
            Reaction::Transfer(_) => {}
        }
    }

    /// Completes a query with a resolver; its admission bounds the number of such tasks.
    fn forward(&self, pending: PendingQuery, route: datagrams::Route) {
        let (socket, responder) = (self.socket.clone(), self.responder.clone());
        self.runtime.spawn(async move {
            let response = responder.complete(pending).await;
            if let Err(error) = datagrams::send(&socket, &route, &response) {
                tracing::debug!(%error, "response not sent");
            }
        });
    }
}

/// Writes a truncated response without records, which makes the client retry over TCP.
fn write_truncated(query: &[u8], response: &mut [u8]) -> usize {
    match parse_query(query) {
        Ok(query) => {
            let mut reply = Reply::new(&query, response, UDP_BYTES_MIN);
            reply.set_truncated();
            reply.finish(ResponseCode::NoError)
        }
        Err(_) => 0,
    }
}

fn bind_one(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        // Allows a second socket on `0.0.0.0` in addition to `[::]`.
        socket.set_only_v6(true)?;
    }
    if let Err(error) = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES) {
        tracing::debug!(%error, "receive buffer not enlarged");
    }
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    if let Err(error) = datagrams::ignore_path_mtu(&socket, address.is_ipv6()) {
        tracing::debug!(%error, "path MTU reports not ignored; responses may be fragmented");
    }
    if address.ip().is_unspecified() {
        datagrams::enable_packet_info(&socket, address.is_ipv6())?;
    }
    Ok(socket)
}
