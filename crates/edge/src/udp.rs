//! Datagrams: a flow is a client's address; each has a socket of its own towards its backend, until it is silent for too
//! long.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::backends::{Backend, Chosen};
use crate::bandwidth::Turns;
use crate::counters::Refusal;
use crate::port::{Port, Seat};
use crate::workers::Taking;

/// The longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Flows of one socket at most: those of one port leave room for others.
const FLOWS_MAX: usize = 16_384;
/// Datagrams taken before others have their turn.
const TAKEN_MAX: usize = 64;
/// Backends that are asked for one datagram.
const TRIES_MAX: usize = 4;
/// How often silent flows are looked for, at most and at least.
const SWEEP: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Pause after the socket could not be read.
const PAUSE: Duration = Duration::from_millis(20);
/// When no more datagrams are taken, how long answers to the last ones are passed on.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Passes on datagrams that come to a socket, until it is told to stop.
pub(crate) async fn serve(socket: OwnedFd, port: Arc<Port>, mut stop: watch::Receiver<()>) {
    let taking = Taking::begin(&port);
    let socket = match UdpSocket::from_std(socket.into()) {
        Ok(socket) => Arc::new(socket),
        Err(error) => return tracing::error!(%error, port = %port.key, "datagrams cannot be taken"),
    };
    let mut flows = Flows {
        socket: socket.clone(),
        flows: HashMap::new(),
        answers: JoinSet::new(),
        began: Instant::now(),
        swept: Instant::now(),
        port,
    };
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let pause = flows.sweep_interval();
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            Some(ended) = flows.answers.join_next(), if !flows.answers.is_empty() => {
                if let Ok(client) = ended {
                    flows.flows.remove(&client);
                }
            }
            ready = socket.readable() => {
                if let Err(error) = ready.and_then(|()| flows.take(&mut buffer)) {
                    tracing::debug!(%error, port = %flows.port.key, "a datagram is not taken");
                    tokio::time::sleep(PAUSE).await;
                }
                tokio::task::yield_now().await;
            }
            () = tokio::time::sleep(pause) => {}
        }
        flows.sweep(pause);
    }
    if !flows.flows.is_empty() {
        tokio::time::sleep(LAST_ANSWERS).await;
    }
    drop(taking);
}

struct Flows {
    port: Arc<Port>,
    socket: Arc<UdpSocket>,
    flows: HashMap<SocketAddr, Flow>,
    /// The tasks that wait for answers; each says whose flow ends with it, since its backend refuses.
    answers: JoinSet<SocketAddr>,
    began: Instant,
    swept: Instant,
}

/// One client's flow.
struct Flow {
    chosen: Chosen,
    socket: Arc<UdpSocket>,
    /// Milliseconds since the flows began at which somebody last said something.
    last: Arc<AtomicU64>,
    /// Its client's turns, if the bandwidth is bound.
    received: Option<Turns>,
    answers: AbortHandle,
    _seat: Seat,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

impl Flows {
    /// Takes datagrams as long as there are any.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        for _ in 0..TAKEN_MAX {
            match self.socket.try_recv_from(buffer) {
                Ok((bytes, client)) => self.pass_on(client, buffer.get(..bytes).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Passes on what a client says. What cannot be passed on is lost, as datagrams may be.
    fn pass_on(&mut self, client: SocketAddr, datagram: &[u8]) {
        if self
            .flows
            .get(&client)
            .is_some_and(|flow| flow.chosen.backend.has_left())
        {
            self.flows.remove(&client);
        }
        let now = self.now();
        let mut tried = Vec::new();
        while tried.len() < TRIES_MAX {
            if !self.flows.contains_key(&client) {
                match self.begin(client, &tried, now) {
                    Ok(flow) => drop(self.flows.insert(client, flow)),
                    Err(why) => return self.port.counters().refused(why),
                }
            }
            let Some(flow) = self.flows.get_mut(&client) else {
                return;
            };
            flow.last.store(now, Ordering::Relaxed);
            let elapsed = self.port.turns_began().elapsed();
            if let Some(turns) = &mut flow.received
                && tried.is_empty()
                && !turns.admit(datagram.len(), elapsed)
            {
                return self.port.counters().refused(Refusal::Bandwidth);
            }
            // A new socket is not known to be writable yet, though it is.
            match socket2::SockRef::from(&*flow.socket).send(datagram) {
                Ok(_) => return self.port.counters().received(datagram.len() as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The backend has refused an earlier datagram: another one gets this.
                Err(error) => {
                    let backend = &flow.chosen.backend;
                    tracing::debug!(%error, backend = %backend.address, "a backend refuses");
                    backend.remember_failure(error.to_string());
                    self.port.backends().note(backend, false);
                    tried.push(backend.address);
                    self.flows.remove(&client);
                }
            }
        }
    }

    fn begin(&mut self, client: SocketAddr, tried: &[SocketAddr], now: u64) -> Result<Flow, Refusal> {
        if self.flows.len() >= FLOWS_MAX {
            return Err(Refusal::ProcessConnections);
        }
        let mut seat = self.port.seat()?;
        self.port.admit(client.ip(), &mut seat)?;
        let chosen = self.port.choose(client.ip(), tried).ok_or(Refusal::NoBackend)?;
        let socket = connected(chosen.backend.address).map_err(|error| {
            tracing::debug!(%error, "no socket for a flow");
            Refusal::NoBackend
        })?;
        let socket = Arc::new(socket);
        let last = Arc::new(AtomicU64::new(now));
        let limits = self.port.current().service.policy.limits;
        let [received, sent] = self.port.turns(&limits);
        let answers = Answers {
            client,
            backend: chosen.backend.clone(),
            from: socket.clone(),
            to: self.socket.clone(),
            last: last.clone(),
            sent,
            began: self.began,
            port: self.port.clone(),
        };
        Ok(Flow {
            chosen,
            socket,
            last,
            received,
            answers: self.answers.spawn(answers.pass_on()),
            _seat: seat,
        })
    }

    /// Forgets silent flows, and those whose backend left.
    fn sweep(&mut self, interval: Duration) {
        if self.swept.elapsed() < interval {
            return;
        }
        self.swept = Instant::now();
        let now = self.now();
        let idle_timeout = self.port.current().service.policy.idle_timeout;
        self.flows.retain(|_, flow| {
            let idle = now.saturating_sub(flow.last.load(Ordering::Relaxed));
            Duration::from_millis(idle) < idle_timeout && !flow.chosen.backend.has_left()
        });
    }

    fn sweep_interval(&self) -> Duration {
        let idle_timeout = self.port.current().service.policy.idle_timeout;
        (idle_timeout / 4).clamp(SWEEP.0, SWEEP.1)
    }

    fn now(&self) -> u64 {
        milliseconds(self.began)
    }
}

fn connected(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// What a backend answers to a client.
struct Answers {
    client: SocketAddr,
    backend: Arc<Backend>,
    from: Arc<UdpSocket>,
    to: Arc<UdpSocket>,
    last: Arc<AtomicU64>,
    /// The backend's turns, if the bandwidth is bound.
    sent: Option<Turns>,
    began: Instant,
    port: Arc<Port>,
}

impl Answers {
    /// Passes them on until the backend refuses; then whose they were.
    async fn pass_on(mut self) -> SocketAddr {
        loop {
            if self.from.readable().await.is_err() {
                return self.client;
            }
            // Only as long as there is something to read does a buffer cost memory.
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            loop {
                match self.from.try_recv(&mut buffer) {
                    Ok(bytes) => {
                        self.last.store(milliseconds(self.began), Ordering::Relaxed);
                        self.port.backends().note(&self.backend, true);
                        let elapsed = self.port.turns_began().elapsed();
                        if let Some(turns) = &mut self.sent
                            && !turns.admit(bytes, elapsed)
                        {
                            self.port.counters().refused(Refusal::Bandwidth);
                            continue;
                        }
                        let answer = buffer.get(..bytes).unwrap_or_default();
                        match self.to.send_to(answer, self.client).await {
                            Ok(bytes) => self.port.counters().sent(bytes as u64),
                            Err(error) => tracing::trace!(%error, "an answer is lost"),
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return self.client,
                }
            }
        }
    }
}

fn milliseconds(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
