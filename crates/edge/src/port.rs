//! A Service's port as it is served: what all of its connections share.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use rustls::ClientConfig;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};

use crate::backends::{Backend, Backends, Chosen};
use crate::bandwidth::{Bucket, Rate, Turns};
use crate::counters::{Counters, Refusal};
use crate::http::Requests;
use crate::http::cookie::StickyKeys;
use crate::limits::Rates;
use crate::log::Log;
use crate::settings::{Frontend, Limits, Listener, ServiceName, ServiceSettings};
use crate::shares::{Clients, Counted, Shares};
use crate::tls;

/// TCP or UDP: a Service may have the same number for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Transport {
    /// What a frontend needs.
    pub fn of(frontend: &Frontend) -> Self {
        match frontend {
            Frontend::Udp => Self::Udp,
            Frontend::Tcp | Frontend::Ssl(_) | Frontend::Http { .. } | Frontend::Https(_) => Self::Tcp,
        }
    }

    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Which port of which Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortKey {
    /// The Service.
    pub service: ServiceName,
    /// The port that clients use.
    pub port: u16,
    /// For connections or for datagrams.
    pub transport: Transport,
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.service, self.port, self.transport.name())
    }
}

/// What a port is to do at the moment. Replaced as a whole when settings change; connections that began with the former
/// one keep what they need of it.
#[derive(Debug)]
pub struct Current {
    /// The Service's.
    pub service: Arc<ServiceSettings>,
    /// The port's.
    pub listener: Listener,
    /// Where lines about its connections and requests go.
    pub log: Option<Arc<Log>>,
    /// How TLS ends here; `None` for frontends without TLS, and while no certificate can be used.
    pub(crate) tls: Option<Arc<tls::Ending>>,
}

/// What all ports of an edge share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The zone of this node; read when settings are taken over.
    zone: Mutex<Option<Arc<str>>>,
    /// TLS to backends, whose certificates are not looked at.
    pub tls_to_backends: Arc<ClientConfig>,
    /// Connections and flows that are open, of all ports.
    pub open: AtomicUsize,
    /// How many may be.
    pub open_max: usize,
    /// How Services and clients share them.
    shares: Shares,
    /// The connections of each client of each Service.
    clients: Clients,
    /// What makes the values of cookies.
    pub sticky_keys: ArcSwap<StickyKeys>,
    /// Tasks that take connections.
    pub takers: AtomicUsize,
    /// The edge ends, and what is still open is cut off.
    pub is_cut_off: AtomicBool,
}

impl Shared {
    /// For an edge in a zone that can bear so many connections.
    pub fn new(
        zone: Option<Arc<str>>,
        open_max: usize,
        shares: Shares,
        sticky_keys: StickyKeys,
    ) -> Result<Self, rustls::Error> {
        Ok(Self {
            zone: Mutex::new(zone),
            tls_to_backends: Arc::new(trust::client_config_without_verification()?),
            open: AtomicUsize::new(0),
            open_max,
            shares,
            clients: Clients::default(),
            sticky_keys: ArcSwap::from_pointee(sticky_keys),
            takers: AtomicUsize::new(0),
            is_cut_off: AtomicBool::new(false),
        })
    }

    fn zone(&self) -> Option<Arc<str>> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This node is in that zone from now on; whether it was in another one. [`Port::look_around`] is to follow.
    pub fn set_zone(&self, zone: Option<Arc<str>>) -> bool {
        let mut is = self.zone.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = *is != zone;
        *is = zone;
        has_changed
    }
}

/// What the ports of a Service share.
#[derive(Debug)]
pub(crate) struct Load {
    /// Of all Services of this process, this one's alone.
    number: u64,
    open: AtomicU32,
    rates: Mutex<Rates>,
    /// Bytes from clients, bytes to them, and bytes of both, as far as they are bound.
    received: Arc<Bucket>,
    sent: Arc<Bucket>,
    both: Arc<Bucket>,
    began: Instant,
}

impl Default for Load {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            open: AtomicU32::new(0),
            rates: Mutex::default(),
            received: Arc::default(),
            sent: Arc::default(),
            both: Arc::default(),
            began: Instant::now(),
        }
    }
}

/// A port.
#[derive(Debug)]
pub struct Port {
    /// Which one.
    pub key: PortKey,
    current: ArcSwap<Current>,
    backends: Backends,
    counters: Counters,
    requests: Requests,
    drain: watch::Sender<bool>,
    changed: Notify,
    load: Arc<Load>,
    pub(crate) shared: Arc<Shared>,
}

impl Port {
    /// A port that begins with these settings.
    pub(crate) fn new(key: PortKey, current: Current, load: Arc<Load>, shared: Arc<Shared>) -> Self {
        let backends = Backends::default();
        backends.set(&current.service, &current.listener, shared.zone().as_deref());
        Self {
            key,
            current: ArcSwap::from_pointee(current),
            backends,
            counters: Counters::default(),
            requests: Requests::default(),
            drain: watch::Sender::new(false),
            changed: Notify::new(),
            load,
            shared,
        }
    }

    /// Goes on with other settings. Returns the backends that left.
    pub(crate) fn set(&self, current: Current) -> Vec<Arc<Backend>> {
        let zone = self.shared.zone();
        let left = self
            .backends
            .set(&current.service, &current.listener, zone.as_deref());
        let former_protocol = self.current.load().listener.backend_protocol;
        if current.listener.backend_protocol != former_protocol {
            // What is kept speaks the former one.
            let backends = self.backends.all();
            backends.iter().for_each(|backend| backend.pool().clear());
        }
        self.current.store(Arc::new(current));
        self.changed.notify_waiters();
        left
    }

    /// Finds out anew which backends are near. Settings must not be taken over at the same time.
    pub(crate) fn look_around(&self) {
        let current = self.current.load();
        let zone = self.shared.zone();
        // The backends are the same, so none leaves.
        self.backends
            .set(&current.service, &current.listener, zone.as_deref());
    }

    /// What it is to do now.
    pub fn current(&self) -> Arc<Current> {
        self.current.load_full()
    }

    /// Ready when other settings than those at the time of this call are in force.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// The backend for a client's new connection or request, none of those that were tried in vain; nothing if there is
    /// none. It counts as the backend's until it is dropped.
    pub fn choose(&self, client: IpAddr, tried: &[SocketAddr]) -> Option<Chosen> {
        self.backends.choose(client, tried)
    }

    /// The backend that one of these numbers stands for in cookies, if it may take a request.
    pub fn choose_by_cookie(&self, numbers: &[u64]) -> Option<Chosen> {
        let keys = self.shared.sticky_keys.load_full();
        let service = &self.key.service;
        self.backends
            .choose_by(|backend| backend.cookie_numbers(&keys, service).is_meant_by(numbers))
    }

    /// The number that stands for a backend in cookies.
    pub fn cookie_number(&self, backend: &Backend) -> u64 {
        let keys = self.shared.sticky_keys.load_full();
        backend.cookie_numbers(&keys, &self.key.service).told()
    }

    /// Its backends.
    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    /// What is counted of its requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// What is counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Becomes true when connections are to end as soon as they decently can: the edge drains, or the port is no more.
    pub fn drain(&self) -> watch::Receiver<bool> {
        self.drain.subscribe()
    }

    /// Has its connections end; see [`Port::drain`].
    pub(crate) fn begin_draining(&self) {
        self.drain.send_replace(true);
    }

    /// Whether the edge ends and what is still open is cut off.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.shared.is_cut_off.load(Ordering::Relaxed)
    }

    /// A place for one more connection or flow, which it has until that is dropped.
    pub(crate) fn seat(self: &Arc<Self>) -> Result<Seat, Refusal> {
        let max = self.current.load().service.policy.limits.connections_max;
        let seat = Seat {
            port: self.clone(),
            counted: None,
        };
        let of_all = self.shared.open.fetch_add(1, Ordering::Relaxed);
        let of_service = self.load.open.fetch_add(1, Ordering::Relaxed);
        self.counters.connection_begins();
        if of_all >= self.shared.open_max {
            Err(Refusal::ProcessConnections)
        } else if !self.has_share(of_service, of_all) {
            Err(Refusal::ServiceShare)
        } else if max != 0 && of_service >= max {
            Err(Refusal::ServiceConnections)
        } else {
            Ok(seat)
        }
    }

    /// Whether the Service may have one more connection than these, of all that are open.
    fn has_share(&self, of_service: u32, of_all: usize) -> bool {
        let shared = &self.shared;
        let of_service = usize::try_from(of_service).unwrap_or(usize::MAX);
        shared.shares.has_room(of_service, of_all, shared.open_max)
    }

    /// Whether a client may come in, has not too many connections, and comes within its rate. `seat` is its connection's.
    pub(crate) fn admit(&self, client: IpAddr, seat: &mut Seat) -> Result<(), Refusal> {
        let current = self.current.load();
        let ranges = &current.service.policy.source_ranges;
        let client = client.to_canonical();
        if !ranges.is_empty() && !ranges.iter().any(|range| range.contains(&client)) {
            return Err(Refusal::SourceRange);
        }
        let limits = &current.service.policy.limits;
        if seat.counted.is_none() {
            let shared = &self.shared;
            let client_max = match limits.connections_per_client {
                0 => shared.shares.client_max(shared.open_max),
                own => own,
            };
            let counted = shared.clients.enter(self.load.number, client, client_max);
            seat.counted = counted.map_err(|_| Refusal::ClientConnections)?;
        }
        let per_second = limits.connections_per_second;
        if per_second == 0 {
            return Ok(());
        }
        let mut rates = self.load.rates.lock().unwrap_or_else(PoisonError::into_inner);
        match rates.admit(client, per_second, self.load.began.elapsed()) {
            true => Ok(()),
            false => Err(Refusal::Rate),
        }
    }

    /// A new connection's or flow's turns in the bandwidths of the Service: for what comes from its client, and for what goes
    /// there. None where there is no bound.
    pub(crate) fn turns(&self, limits: &Limits) -> [Option<Turns>; 2] {
        [
            (&self.load.received, limits.received_bytes_per_second),
            (&self.load.sent, limits.sent_bytes_per_second),
        ]
        .map(|(bucket, per_second)| {
            let of_both = || Rate::new(limits.both_bytes_per_second).map(|rate| (&self.load.both, rate));
            let own = Rate::new(per_second).map(|rate| (bucket, rate));
            let (bucket, rate) = own.or_else(of_both)?;
            Some(Turns::new(bucket.clone(), rate))
        })
    }

    /// What the times of turns are counted from.
    pub(crate) fn turns_began(&self) -> Instant {
        self.load.began
    }

    /// Whether those who connect from there are to tell by a PROXY header for whom they do.
    pub(crate) fn expects_header_from(&self, address: IpAddr) -> bool {
        let current = self.current.load();
        let trusted = &current.service.policy.proxy_protocol_from;
        trusted
            .iter()
            .any(|range| range.contains(&address.to_canonical()))
    }
}

/// A place that a connection or flow has.
#[derive(Debug)]
pub(crate) struct Seat {
    port: Arc<Port>,
    /// Once it is known whose it is.
    counted: Option<Counted>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(counted) = &self.counted {
            self.port.shared.clients.leave(counted);
        }
        self.port.shared.open.fetch_sub(1, Ordering::Relaxed);
        self.port.load.open.fetch_sub(1, Ordering::Relaxed);
        self.port.counters.connection_ends();
    }
}

#[cfg(test)]
pub(crate) mod tests;
