//! Queries in datagrams: one socket and one thread for each core, which share a port (SO_REUSEPORT).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Handle;

use super::datagrams::{self, Batch};
use super::respond::{Pending, Reaction, Responder, Transport};
use crate::records::Scratch;

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

/// Opens a socket for each loop.
pub(super) fn bind(address: SocketAddr, loops: usize) -> io::Result<Vec<UdpSocket>> {
    (0..loops).map(|_| bind_one(address)).collect()
}

impl UdpLoops {
    /// Starts a loop for each socket. Queries that need upstream are answered on `runtime`.
    pub(super) fn start(
        sockets: Vec<UdpSocket>,
        responder: &Arc<Responder>,
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
    runtime: Handle,
    stopping: Arc<AtomicBool>,
}

impl Worker {
    fn run(self) {
        let mut batch = Batch::new();
        let mut scratch = Scratch::default();
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
            for slot in slots {
                let (query, answer) = slot.split();
                match self
                    .responder
                    .respond(query, Transport::Udp, answer, &mut scratch)
                {
                    Reaction::Send(octets) => slot.answer_octets = octets,
                    Reaction::Ask(pending) => self.ask(*pending, slot.query().to_vec(), slot.route()),
                }
            }
            batch.send(&self.socket, count);
        }
    }

    /// Has a query answered with help from upstream; how many at once is bounded by its admission.
    fn ask(&self, pending: Pending, message: Vec<u8>, route: datagrams::Route) {
        let (socket, responder) = (self.socket.clone(), self.responder.clone());
        self.runtime.spawn(async move {
            let answer = responder.complete(pending, &message, Transport::Udp).await;
            if let Err(error) = datagrams::send(&socket, &route, &answer) {
                tracing::debug!(%error, "an answer could not be sent");
            }
        });
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
    if address.ip().is_unspecified() {
        datagrams::tell_address_asked(&socket, address.is_ipv6())?;
    }
    Ok(socket)
}
