//! UDP: a flow is a client's address; each has a socket of its own towards its endpoint, until it is idle.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

use super::balance::Counted;
use super::{Place, chance};

/// The longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// A flow in which nobody has said anything for so long is forgotten: as long as the kernel remembers flows that
/// have answers.
const IDLE: Duration = Duration::from_secs(120);
/// Most flows of one place, so that one Service leaves room for others.
const FLOWS_MAX: usize = 4_096;
/// Pause after a socket could not be read.
const PAUSE: Duration = Duration::from_millis(20);

/// One client's flow.
struct Flow {
    endpoint: SocketAddr,
    socket: Arc<UdpSocket>,
    /// Milliseconds since the start of the place's loop at which somebody last said something.
    last: Arc<AtomicU64>,
    answers: AbortHandle,
    /// The flow counts as its endpoint's.
    _counted: Counted,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

/// Passes on datagrams for a place, as long as `open` has room for flows. Its flows end with it.
pub async fn serve(socket: UdpSocket, place: Arc<Place>, open: Arc<Semaphore>) {
    let mut flows = Flows {
        socket: Arc::new(socket),
        place,
        open,
        flows: HashMap::new(),
        answers: JoinSet::new(),
        start: Instant::now(),
    };
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut sweep = tokio::time::interval(IDLE / 4);
    loop {
        tokio::select! {
            received = flows.socket.recv_from(&mut buffer) => match received {
                Ok((bytes, client)) => flows.pass_on(client, buffer.get(..bytes).unwrap_or_default()).await,
                Err(error) => {
                    tracing::debug!(%error, "a datagram is not taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(ended) = flows.answers.join_next() => {
                if let Ok((client, endpoint)) = ended {
                    flows.flows.remove(&client);
                    flows.place.balance().forget(client.ip(), endpoint);
                }
            }
            _ = sweep.tick() => flows.sweep(),
        }
    }
}

struct Flows {
    socket: Arc<UdpSocket>,
    place: Arc<Place>,
    open: Arc<Semaphore>,
    flows: HashMap<SocketAddr, Flow>,
    /// The tasks that wait for answers; each tells its client and its endpoint when that refuses.
    answers: JoinSet<(SocketAddr, SocketAddr)>,
    start: Instant,
}

impl Flows {
    /// Passes on what a client says. What cannot be passed on is lost, as datagrams may be.
    async fn pass_on(&mut self, client: SocketAddr, datagram: &[u8]) {
        let may_go_on = |flow: &Flow| self.place.balance().serves(flow.endpoint);
        if self.flows.get(&client).is_some_and(|flow| !may_go_on(flow)) {
            self.flows.remove(&client);
        }
        let now = milliseconds(self.start);
        let mut tried = Vec::new();
        while let Some(flow) = self.flow(client, &tried).await {
            flow.last.store(now, Ordering::Relaxed);
            // A new socket is not known to be writable yet, though it is.
            match SockRef::from(&*flow.socket).send(datagram) {
                Ok(_) => return,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // The endpoint has refused an earlier datagram: another one gets this.
                Err(error) => {
                    tracing::debug!(%error, endpoint = %flow.endpoint, "an endpoint refuses");
                    tried.push(flow.endpoint);
                    self.flows.remove(&client);
                }
            }
        }
    }

    /// The flow of a client; a new one if it has none.
    async fn flow(&mut self, client: SocketAddr, tried: &[SocketAddr]) -> Option<&Flow> {
        if !self.flows.contains_key(&client) {
            let flow = self.begin(client, tried).await?;
            self.flows.insert(client, flow);
        }
        self.flows.get(&client)
    }

    async fn begin(&mut self, client: SocketAddr, tried: &[SocketAddr]) -> Option<Flow> {
        if self.flows.len() >= FLOWS_MAX {
            self.forget_oldest();
        }
        let permit = self.open.clone().try_acquire_owned().ok()?;
        let endpoint = self
            .place
            .balance()
            .choose(client, tried, Instant::now(), chance())?;
        let any: SocketAddr = match endpoint.address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = match UdpSocket::bind(any).await {
            Ok(socket) => Arc::new(socket),
            Err(error) => {
                tracing::debug!(%error, "no socket for a flow");
                return None;
            }
        };
        socket.connect(endpoint.address).await.ok()?;
        let last = Arc::new(AtomicU64::new(milliseconds(self.start)));
        let answers = Answers {
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
            answers: self.answers.spawn(answers.pass_on()),
            _counted: endpoint.count(),
            _permit: permit,
        })
    }

    fn sweep(&mut self) {
        let now = milliseconds(self.start);
        let is_fresh = |flow: &Flow| {
            let idle = now.saturating_sub(flow.last.load(Ordering::Relaxed));
            Duration::from_millis(idle) < IDLE && self.place.balance().serves(flow.endpoint)
        };
        self.flows.retain(|_, flow| is_fresh(flow));
    }

    fn forget_oldest(&mut self) {
        let oldest = self
            .flows
            .iter()
            .min_by_key(|(_, flow)| flow.last.load(Ordering::Relaxed));
        if let Some(client) = oldest.map(|(client, _)| *client) {
            self.flows.remove(&client);
        }
    }
}

/// What an endpoint answers to a client.
struct Answers {
    client: SocketAddr,
    endpoint: SocketAddr,
    from: Arc<UdpSocket>,
    to: Arc<UdpSocket>,
    last: Arc<AtomicU64>,
    start: Instant,
}

impl Answers {
    /// Passes them on until the endpoint refuses.
    async fn pass_on(self) -> (SocketAddr, SocketAddr) {
        loop {
            if self.from.readable().await.is_err() {
                return (self.client, self.endpoint);
            }
            // Only as long as there is something to read does a buffer cost memory.
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            loop {
                match self.from.try_recv(&mut buffer) {
                    Ok(bytes) => {
                        self.last.store(milliseconds(self.start), Ordering::Relaxed);
                        let answer = buffer.get(..bytes).unwrap_or_default();
                        if let Err(error) = self.to.send_to(answer, self.client).await {
                            tracing::trace!(%error, "an answer is lost");
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
