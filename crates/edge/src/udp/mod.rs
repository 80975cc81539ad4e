//! UDP flows. A flow belongs to a client's address and has its own socket towards its backend. It ends when it is idle
//! for too long, or makes room for others.

mod eviction;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::admission::ConnectionPermit;
use crate::admission::bandwidth::BandwidthReservation;
use crate::backends::{Backend, ChosenBackend};
use crate::port::Port;
use crate::refusal::ConnectionRefusal;
use eviction::{FlowUse, least_used};

/// Longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Maximum number of flows of one socket: those of one port leave room for others.
const FLOWS_MAX: usize = 16_384;
/// Flows that end at once to make room. One pass over all flows then serves as many new ones.
const FLOWS_EVICTED: usize = FLOWS_MAX / 64;
/// Maximum number of datagrams received before other tasks run.
const DATAGRAMS_PER_POLL_MAX: usize = 64;
/// Maximum number of backends that are tried for one datagram.
const ATTEMPTS_MAX: usize = 4;
/// Shortest and longest interval between removals of idle flows.
const REMOVAL_INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Pause after a failed read of the socket.
const PAUSE: Duration = Duration::from_millis(20);
/// Time for which responses to the last datagrams are forwarded after the socket is closed.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_secs(2);

/// Forwards the datagrams of a socket until `stop` changes.
pub(crate) async fn serve(socket: OwnedFd, port: Arc<Port>, mut stop: watch::Receiver<()>) {
    let accept_loop = port.accept_loop();
    let socket = match UdpSocket::from_std(socket.into()) {
        Ok(socket) => Arc::new(socket),
        Err(error) => return tracing::error!(%error, port = %port.key, "socket not registered"),
    };
    let mut flows = Flows {
        socket: socket.clone(),
        flows: HashMap::new(),
        responses: JoinSet::new(),
        started_at: Instant::now(),
        last_removal: Instant::now(),
        port,
    };
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let pause = flows.removal_interval();
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            Some(finished) = flows.responses.join_next(), if !flows.responses.is_empty() => {
                if let Ok(client) = finished {
                    flows.flows.remove(&client);
                }
            }
            ready = socket.readable() => {
                if let Err(error) = ready.and_then(|()| flows.receive(&mut buffer)) {
                    tracing::debug!(%error, port = %flows.port.key, "receiving datagrams failed; retrying");
                    tokio::time::sleep(PAUSE).await;
                }
                tokio::task::yield_now().await;
            }
            () = tokio::time::sleep(pause) => {}
        }
        flows.remove_idle_flows(pause);
    }
    if !flows.flows.is_empty() {
        tokio::time::sleep(LAST_RESPONSES_TIMEOUT).await;
    }
    drop(accept_loop);
}

/// Socket of a port, and its flows.
struct Flows {
    port: Arc<Port>,
    socket: Arc<UdpSocket>,
    flows: HashMap<SocketAddr, Flow>,
    /// Tasks that wait for responses. A task returns the client of its flow when the backend refuses datagrams, which
    /// ends the flow.
    responses: JoinSet<SocketAddr>,
    started_at: Instant,
    last_removal: Instant,
}

/// Flow of one client.
struct Flow {
    chosen: ChosenBackend,
    socket: Arc<UdpSocket>,
    /// Milliseconds from `Flows::started_at` to the last datagram of either side.
    last: Arc<AtomicU64>,
    /// True after the first response.
    has_response: Arc<AtomicBool>,
    /// True if the client has sent a datagram after a response.
    is_confirmed: bool,
    /// Bandwidth of datagrams from the client, if limited.
    received: Option<BandwidthReservation>,
    responses: AbortHandle,
    _permit: ConnectionPermit,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.responses.abort();
    }
}

impl Flows {
    /// Receives the datagrams that are there.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        for _ in 0..DATAGRAMS_PER_POLL_MAX {
            match self.socket.try_recv_from(buffer) {
                Ok((bytes, client)) => self.forward(client, buffer.get(..bytes).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Forwards a client's datagram. A datagram that no backend takes is lost, as UDP permits.
    fn forward(&mut self, client: SocketAddr, datagram: &[u8]) {
        if self
            .flows
            .get(&client)
            .is_some_and(|flow| flow.chosen.backend.is_removed())
        {
            self.flows.remove(&client);
        }
        let now = self.now();
        let mut tried = Vec::new();
        while tried.len() < ATTEMPTS_MAX {
            if !self.flows.contains_key(&client) {
                match self.open_flow(client, &tried, now) {
                    Ok(flow) => drop(self.flows.insert(client, flow)),
                    Err(refusal) => return self.port.counters.refused(refusal),
                }
            }
            let Some(flow) = self.flows.get_mut(&client) else {
                return;
            };
            flow.last.store(now, Ordering::Relaxed);
            flow.is_confirmed |= flow.has_response.load(Ordering::Relaxed);
            let elapsed = self.port.admission.bandwidth_epoch().elapsed();
            if let Some(reservation) = &mut flow.received
                && tried.is_empty()
                && !reservation.admits_datagram(datagram.len(), elapsed)
            {
                return self.port.counters.refused(ConnectionRefusal::Bandwidth);
            }
            // A new socket is writable, and the runtime has not observed this yet.
            match socket2::SockRef::from(&*flow.socket).send(datagram) {
                Ok(_) => return self.port.counters.received(datagram.len() as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The backend has refused an earlier datagram, so another one gets this.
                Err(error) => {
                    let backend = &flow.chosen.backend;
                    tracing::debug!(%error, backend = %backend.address, "datagram refused by the backend");
                    backend.record_failure(error.to_string());
                    self.port.policy.backends().record_connect(backend, false);
                    tried.push(backend.address);
                    self.flows.remove(&client);
                }
            }
        }
    }

    /// Opens a flow from a client to a backend that was not tried before.
    fn open_flow(
        &mut self,
        client: SocketAddr,
        tried: &[SocketAddr],
        now: u64,
    ) -> Result<Flow, ConnectionRefusal> {
        let mut permit = self.port.permit()?;
        self.port.admit_client(client.ip(), &mut permit)?;
        let chosen = self
            .port
            .policy
            .choose(client.ip(), tried)
            .ok_or(ConnectionRefusal::NoBackend)?;
        if self.port.is_encapsulation_port(chosen.backend.address) {
            let reason = "its port is one of encapsulation between hosts, such as VXLAN";
            chosen.backend.record_failure(reason.to_owned());
            return Err(ConnectionRefusal::NoBackend);
        }
        let socket = connect_socket(chosen.backend.address).map_err(|error| {
            tracing::debug!(%error, "socket of a new flow not opened");
            ConnectionRefusal::NoBackend
        })?;
        if self.flows.len() >= FLOWS_MAX {
            self.evict();
        }
        let socket = Arc::new(socket);
        let last = Arc::new(AtomicU64::new(now));
        let has_response = Arc::<AtomicBool>::default();
        let limits = self.port.policy.settings().service.policy.limits;
        let [received, sent] = self.port.admission.bandwidth(&limits);
        let responses = ResponseForwarder {
            client,
            backend: chosen.backend.clone(),
            from: socket.clone(),
            to: self.socket.clone(),
            last: last.clone(),
            has_response: has_response.clone(),
            sent,
            started_at: self.started_at,
            port: self.port.clone(),
        };
        Ok(Flow {
            chosen,
            socket,
            last,
            has_response,
            is_confirmed: false,
            received,
            responses: self.responses.spawn(responses.forward()),
            _permit: permit,
        })
    }

    /// Removes idle flows, and those whose backend is removed or may not receive datagrams.
    fn remove_idle_flows(&mut self, interval: Duration) {
        if self.last_removal.elapsed() < interval {
            return;
        }
        self.last_removal = Instant::now();
        let now = self.now();
        let idle_timeout = self.port.policy.settings().service.policy.idle_timeout;
        self.flows.retain(|_, flow| {
            let idle = now.saturating_sub(flow.last.load(Ordering::Relaxed));
            let backend = &flow.chosen.backend;
            Duration::from_millis(idle) < idle_timeout
                && !backend.is_removed()
                && !self.port.is_encapsulation_port(backend.address)
        });
    }

    /// Ends the flows that are used least.
    fn evict(&mut self) {
        let flows = self.flows.iter().map(|(client, flow)| {
            let last = flow.last.load(Ordering::Relaxed);
            let is_confirmed = flow.is_confirmed;
            (*client, FlowUse { is_confirmed, last })
        });
        let clients = least_used(flows, FLOWS_EVICTED);
        tracing::debug!(port = %self.port.key, flows = clients.len(), "flows ended; the socket had the maximum");
        for client in clients {
            self.flows.remove(&client);
        }
    }

    fn removal_interval(&self) -> Duration {
        let idle_timeout = self.port.policy.settings().service.policy.idle_timeout;
        (idle_timeout / 4).clamp(REMOVAL_INTERVAL.0, REMOVAL_INTERVAL.1)
    }

    fn now(&self) -> u64 {
        milliseconds(self.started_at)
    }
}

fn connect_socket(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// Forwards the datagrams of a backend to a client.
struct ResponseForwarder {
    client: SocketAddr,
    backend: Arc<Backend>,
    from: Arc<UdpSocket>,
    to: Arc<UdpSocket>,
    last: Arc<AtomicU64>,
    has_response: Arc<AtomicBool>,
    /// Bandwidth of datagrams to the client, if limited.
    sent: Option<BandwidthReservation>,
    started_at: Instant,
    port: Arc<Port>,
}

impl ResponseForwarder {
    /// Forwards datagrams until the backend refuses. Returns the client.
    async fn forward(mut self) -> SocketAddr {
        loop {
            if self.from.readable().await.is_err() {
                return self.client;
            }
            // Allocated only while there is something to read: an idle flow needs no buffer.
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            loop {
                match self.from.try_recv(&mut buffer) {
                    Ok(bytes) => {
                        self.last.store(milliseconds(self.started_at), Ordering::Relaxed);
                        self.has_response.store(true, Ordering::Relaxed);
                        self.port.policy.backends().record_connect(&self.backend, true);
                        let elapsed = self.port.admission.bandwidth_epoch().elapsed();
                        if let Some(reservation) = &mut self.sent
                            && !reservation.admits_datagram(bytes, elapsed)
                        {
                            self.port.counters.refused(ConnectionRefusal::Bandwidth);
                            continue;
                        }
                        let response = buffer.get(..bytes).unwrap_or_default();
                        match self.to.send_to(response, self.client).await {
                            Ok(bytes) => self.port.counters.sent(bytes as u64),
                            Err(error) => tracing::trace!(%error, "response not sent"),
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return self.client,
                }
            }
        }
    }
}

fn milliseconds(started_at: Instant) -> u64 {
    u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
}
