//! UDP relay. The client's address identifies a flow. Each flow has its own socket to an endpoint until it is idle. A
//! flow begins only if the rules redirect the client to the listener.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::object::{ObjectKey, Protocol};
use netlink::conntrack::Conntrack;
use relay::EncapsulationPorts;
use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::task::{AbortHandle, JoinSet};

use super::balancer::ConnectionCount;
use super::connection_permits::{ConnectionPermit, ConnectionPermits};
use super::{SharedBalancer, random};

/// Maximum size of a datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Idle time after which a flow ends: the conntrack timeout of flows with replies.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of flows per listener, so that one Service leaves room for others.
const FLOWS_MAX: usize = 4_096;
/// Pause after a receive error.
const RECEIVE_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// State of the kernel that all UDP listeners read.
#[derive(Debug)]
pub(super) struct KernelState {
    /// Connection tracking, which knows the original destinations of datagrams.
    conntrack: Mutex<Conntrack>,
    /// Ports to which no listener sends.
    encapsulation_ports: EncapsulationPorts,
}

impl KernelState {
    /// Creates the state from a connection to connection tracking.
    pub(super) fn new(conntrack: Conntrack) -> Self {
        Self {
            conntrack: Mutex::new(conntrack),
            encapsulation_ports: EncapsulationPorts::default(),
        }
    }
}

/// Flow of one client.
struct Flow {
    endpoint: SocketAddr,
    socket: Arc<UdpSocket>,
    /// Time of the last datagram, in milliseconds since the start of the listener's task.
    last: Arc<AtomicU64>,
    replies: AbortHandle,
    /// Count of the endpoint's flows.
    _connection_count: ConnectionCount,
    _permit: ConnectionPermit,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.replies.abort();
    }
}

/// Relays the datagrams of a Service's listener at an address as long as permits are available. The flows end with
/// this future.
pub(super) async fn serve(
    socket: UdpSocket,
    address: SocketAddr,
    service: ObjectKey,
    balancer: Arc<SharedBalancer>,
    permits: Arc<ConnectionPermits>,
    kernel: Arc<KernelState>,
) {
    let mut flows = Flows {
        socket: Arc::new(socket),
        address,
        service,
        kernel,
        balancer,
        permits,
        flows: HashMap::new(),
        replies: JoinSet::new(),
        start: Instant::now(),
    };
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut removal = tokio::time::interval(IDLE_TIMEOUT / 4);
    loop {
        tokio::select! {
            received = flows.socket.recv_from(&mut buffer) => match received {
                Ok((bytes, client)) => flows.forward(client, buffer.get(..bytes).unwrap_or_default()).await,
                Err(error) => {
                    tracing::debug!(%error, "datagram not received");
                    tokio::time::sleep(RECEIVE_RETRY_PAUSE).await;
                }
            },
            Some(ended) = flows.replies.join_next() => {
                if let Ok((client, endpoint)) = ended {
                    flows.flows.remove(&client);
                    flows.balancer.lock().forget_affinity(client.ip(), endpoint);
                }
            }
            _ = removal.tick() => flows.remove_idle(),
        }
    }
}

/// Socket of a frontend, and its flows.
struct Flows {
    socket: Arc<UdpSocket>,
    address: SocketAddr,
    service: ObjectKey,
    kernel: Arc<KernelState>,
    balancer: Arc<SharedBalancer>,
    permits: Arc<ConnectionPermits>,
    flows: HashMap<SocketAddr, Flow>,
    /// Tasks that relay replies. Each returns its client and endpoint when the endpoint refuses.
    replies: JoinSet<(SocketAddr, SocketAddr)>,
    start: Instant,
}

impl Flows {
    /// Forwards a datagram of a client. Undeliverable datagrams are dropped.
    async fn forward(&mut self, client: SocketAddr, datagram: &[u8]) {
        let is_served = |flow: &Flow| self.balancer.lock().serves(flow.endpoint);
        if self.flows.get(&client).is_some_and(|flow| !is_served(flow)) {
            self.flows.remove(&client);
        }
        let now = milliseconds(self.start);
        let mut tried = Vec::new();
        while let Some(flow) = self.flow(client, &tried).await {
            flow.last.store(now, Ordering::Relaxed);
            // The runtime does not know yet that a new socket is writable, so this bypasses it.
            match SockRef::from(&*flow.socket).send(datagram) {
                Ok(_) => return,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // The endpoint refused an earlier datagram; another endpoint gets this one.
                Err(error) => {
                    tracing::debug!(%error, endpoint = %flow.endpoint, "endpoint refused a datagram");
                    tried.push(flow.endpoint);
                    self.flows.remove(&client);
                }
            }
        }
    }

    /// Returns the flow of a client; opens one if needed.
    async fn flow(&mut self, client: SocketAddr, tried: &[SocketAddr]) -> Option<&Flow> {
        if !self.flows.contains_key(&client) {
            let flow = self.open_flow(client, tried).await?;
            self.flows.insert(client, flow);
        }
        self.flows.get(&client)
    }

    /// Opens a flow from a client to an endpoint. Returns `None` without a redirect, a permit or an endpoint.
    async fn open_flow(&mut self, client: SocketAddr, tried: &[SocketAddr]) -> Option<Flow> {
        if !self.is_redirected(client) {
            return None;
        }
        if self.flows.len() >= FLOWS_MAX {
            self.evict_oldest();
        }
        let permit = self.permits.acquire(&self.service).ok()?;
        let permit = permit.for_client(client.ip()).ok()?;
        let endpoint = self
            .balancer
            .lock()
            .choose(client, tried, Instant::now(), random())?;
        if self.is_encapsulation_port(endpoint.address) {
            tracing::debug!(service = %self.service, endpoint = %endpoint.address, "no flow to a port of encapsulation");
            return None;
        }
        let any: SocketAddr = match endpoint.address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = match UdpSocket::bind(any).await {
            Ok(socket) => Arc::new(socket),
            Err(error) => {
                tracing::debug!(%error, "no socket for a UDP flow");
                return None;
            }
        };
        socket.connect(endpoint.address).await.ok()?;
        let last = Arc::new(AtomicU64::new(milliseconds(self.start)));
        let replies = ReplyRelay {
            client,
            endpoint: endpoint.address,
            from: socket.clone(),
            to: self.socket.clone(),
            last: last.clone(),
            start: self.start,
        };
        Some(Flow {
            endpoint: endpoint.address,
            socket,
            last,
            replies: self.replies.spawn(replies.run()),
            _connection_count: endpoint.count_connection(),
            _permit: permit,
        })
    }

    /// Returns true if the original destination of a client's datagrams differs from the listener's address. A client
    /// that sends to the listener directly bypasses the rules that restrict access.
    fn is_redirected(&self, client: SocketAddr) -> bool {
        let conntrack = self.kernel.conntrack.lock();
        let mut conntrack = conntrack.unwrap_or_else(PoisonError::into_inner);
        match conntrack.original_destination(Protocol::Udp.number(), client, self.address) {
            Ok(original) => original.is_some_and(|original| {
                original.ip() != self.address.ip() || original.port() != self.address.port()
            }),
            Err(error) => {
                tracing::debug!(%error, "original destination unknown");
                false
            }
        }
    }

    /// Returns true if the host of this process receives encapsulated packets at the port of an endpoint.
    fn is_encapsulation_port(&self, endpoint: SocketAddr) -> bool {
        self.kernel.encapsulation_ports.contains(endpoint.port())
    }

    /// Removes idle flows, and those to endpoints that may not continue.
    fn remove_idle(&mut self) {
        let now = milliseconds(self.start);
        let (balancer, ports) = (&self.balancer, &self.kernel.encapsulation_ports);
        let is_fresh = |flow: &Flow| {
            let idle = now.saturating_sub(flow.last.load(Ordering::Relaxed));
            Duration::from_millis(idle) < IDLE_TIMEOUT
                && balancer.lock().serves(flow.endpoint)
                && !ports.contains(flow.endpoint.port())
        };
        self.flows.retain(|_, flow| is_fresh(flow));
    }

    fn evict_oldest(&mut self) {
        let oldest = self
            .flows
            .iter()
            .min_by_key(|(_, flow)| flow.last.load(Ordering::Relaxed));
        if let Some(client) = oldest.map(|(client, _)| *client) {
            self.flows.remove(&client);
        }
    }
}

/// Relay of replies from an endpoint to a client.
struct ReplyRelay {
    client: SocketAddr,
    endpoint: SocketAddr,
    from: Arc<UdpSocket>,
    to: Arc<UdpSocket>,
    last: Arc<AtomicU64>,
    start: Instant,
}

impl ReplyRelay {
    /// Relays replies until the endpoint refuses.
    async fn run(self) -> (SocketAddr, SocketAddr) {
        loop {
            if self.from.readable().await.is_err() {
                return (self.client, self.endpoint);
            }
            // The buffer exists only while datagrams are readable, to save memory.
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            loop {
                match self.from.try_recv(&mut buffer) {
                    Ok(bytes) => {
                        self.last.store(milliseconds(self.start), Ordering::Relaxed);
                        let reply = buffer.get(..bytes).unwrap_or_default();
                        if let Err(error) = self.to.send_to(reply, self.client).await {
                            tracing::trace!(%error, "reply not sent");
                        }
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(_) => return (self.client, self.endpoint),
                }
            }
        }
    }
}

fn milliseconds(start: Instant) -> u64 {
    start.elapsed().as_millis() as u64
}
