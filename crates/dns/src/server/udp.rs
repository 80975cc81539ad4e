//! Queries in datagrams: one socket and one thread for each core, which share a port (SO_REUSEPORT).

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
use super::limit::{Leave, RateLimit};
use super::respond::{Lane, Peer, Pending, Reaction, Responder, Transport};
use crate::wire::{Reply, ResponseCode, UDP_OCTETS_MIN, parse_query};

/// Octets of datagrams that the kernel may keep while a loop is busy, so that a burst is not lost.
const RECEIVE_BUFFER_OCTETS: usize = 4 << 20;
/// Pause after a failed receive, so that an error that stays does not burn the core.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// The loops of one address.
#[derive(Debug)]
pub(super) struct UdpLoops {
    sockets: Vec<Arc<UdpSocket>>,
    threads: Vec<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
}

/// The rates at which networks of clients are answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// That of clients which are answered.
    pub(super) answers: Option<Arc<RateLimit>>,
    /// That of clients which are refused.
    pub(super) refusals: Option<Arc<RateLimit>>,
}

/// Opens a socket for each loop.
pub(super) fn bind(address: SocketAddr, loops: usize) -> io::Result<Vec<UdpSocket>> {
    (0..loops).map(|_| bind_one(address)).collect()
}

impl UdpLoops {
    /// Starts a loop for each socket. Queries that need upstream are answered on `runtime`.
    pub(super) fn start(
        sockets: Vec<UdpSocket>,
        responder: &Arc<Responder>,
        limits: &Limits,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let mut loops = Self {
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
                stopping: loops.stopping.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("dns-udp-{number}"));
            loops.threads.push(thread.spawn(move || worker.run())?);
            loops.sockets.push(socket);
        }
        Ok(loops)
    }
}

impl Drop for UdpLoops {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        for socket in &self.sockets {
            datagrams::wake(socket);
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a DNS loop had panicked");
            }
        }
    }
}

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
        let mut lane = self.responder.lane();
        let started = Instant::now();
        while !self.stopping.load(Ordering::Acquire) {
            let slots = match batch.receive(&self.socket) {
                Ok(slots) => slots,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot receive queries");
                    std::thread::sleep(FAILURE_PAUSE);
                    continue;
                }
            };
            let count = slots.len();
            let now_ms = started.elapsed().as_millis() as u32; // wraps, as the limiter expects
            for slot in slots {
                // One query that meets a defect does not end the service of all others.
                let served = catch_unwind(AssertUnwindSafe(|| self.serve(slot, &mut lane, now_ms)));
                if served.is_err() {
                    slot.answer_octets = 0;
                    self.responder.metrics().panics.fetch_add(1, Ordering::Relaxed);
                }
            }
            batch.send(&self.socket, count);
        }
    }

    fn serve(&self, slot: &mut Slot, lane: &mut Lane, now_ms: u32) {
        let Some(address) = slot.route().client() else {
            return;
        };
        let is_allowed = self.responder.allows(address);
        let limit = match is_allowed {
            true => &self.limits.answers,
            false => &self.limits.refusals,
        };
        let leave = limit
            .as_ref()
            .map_or(Leave::Whole, |limit| limit.take(address, now_ms));
        // A truncated refusal would tell a client to come back over TCP, to be refused there.
        if leave == Leave::None || (leave == Leave::Cut && !is_allowed) {
            lane.counters.held_back.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let peer = Peer {
            address,
            transport: Transport::Udp,
        };
        let (query, answer) = slot.split();
        if leave == Leave::Cut {
            lane.counters.cut.fetch_add(1, Ordering::Relaxed);
            slot.answer_octets = truncated(query, answer);
            return;
        }
        match self.responder.respond(query, peer, answer, lane) {
            Reaction::Send(octets) => slot.answer_octets = octets,
            Reaction::SendAndFetch(octets, question) => {
                slot.answer_octets = octets;
                let _entered = self.runtime.enter();
                self.responder.fetch(&question);
            }
            Reaction::Ask(pending) => self.ask(*pending, slot.route()),
            // Zones go over connections only, which `respond` knows.
            Reaction::Transfer(_) => {}
        }
    }

    /// Has a query answered with help from upstream; how many at once is bounded by its admission.
    fn ask(&self, pending: Pending, route: datagrams::Route) {
        let (socket, responder) = (self.socket.clone(), self.responder.clone());
        self.runtime.spawn(async move {
            let answer = responder.complete(pending).await;
            if let Err(error) = datagrams::send(&socket, &route, &answer) {
                tracing::debug!(%error, "an answer could not be sent");
            }
        });
    }
}

/// Writes an answer without records that tells the client to come again over TCP.
fn truncated(query: &[u8], answer: &mut [u8]) -> usize {
    match parse_query(query) {
        Ok(query) => {
            let mut reply = Reply::new(&query, answer, UDP_OCTETS_MIN);
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
        // `0.0.0.0` may be listened on beside `[::]`.
        socket.set_only_v6(true)?;
    }
    if let Err(error) = socket.set_recv_buffer_size(RECEIVE_BUFFER_OCTETS) {
        tracing::debug!(%error, "the receive buffer stays as it is");
    }
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    if let Err(error) = datagrams::ignore_path_mtu(&socket, address.is_ipv6()) {
        tracing::debug!(%error, "reports of smaller path MTUs are taken, and may make answers come in fragments");
    }
    if address.ip().is_unspecified() {
        datagrams::tell_address_asked(&socket, address.is_ipv6())?;
    }
    Ok(socket)
}
