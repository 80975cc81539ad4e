//! Admission of connections, flows and requests: limits of the process, of a namespace, of a Service and of a client.
//!
//! - [`shares`]: parts of the process's connections, and the connections of each client
//! - [`connection_rate`] (pure): new connections per second of each client
//! - [`bandwidth`] (pure): bytes per second of a Service

pub(crate) mod bandwidth;
mod connection_rate;
pub(crate) mod shares;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use counting::client_network;
use ipnet::IpNet;

use crate::counters::PortCounters;
use crate::refusal::ConnectionRefusal;
use crate::settings::{Limits, Policy};
use bandwidth::{BandwidthReservation, Rate, TokenBucket};
use connection_rate::ConnectionRates;
use shares::{ClientConnections, ClientSlot, Shares};

/// Number of open connections, flows and further requests of a namespace, which its Services share.
pub(crate) type NamespaceLoad = Arc<AtomicUsize>;

/// Open connections, flows and further requests of all ports of an edge.
#[derive(Debug)]
pub(crate) struct ProcessConnections {
    open: AtomicUsize,
    open_max: usize,
    shares: Shares,
    clients: ClientConnections,
}

impl ProcessConnections {
    /// Creates an admission of at most `open_max` connections, which Services and clients share by `shares`.
    pub(crate) fn new(open_max: usize, shares: Shares) -> Self {
        Self {
            open: AtomicUsize::new(0),
            open_max,
            shares,
            clients: ClientConnections::default(),
        }
    }

    /// Returns the number of open connections, flows and further requests.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns the limit of open connections, flows and further requests.
    pub(crate) fn open_max(&self) -> usize {
        self.open_max
    }
}

/// Load of a Service, which its ports share.
#[derive(Debug)]
pub(crate) struct ServiceLoad {
    /// Key of the counts of connections by client. No other Service of this process has it.
    connection_load_id: u64,
    /// Key of the counts of requests by client. No other Service of this process has it.
    request_load_id: u64,
    namespace: NamespaceLoad,
    open: AtomicU32,
    /// Requests with a [`RequestPermit`].
    requests: AtomicU32,
    rates: Mutex<ConnectionRates>,
    received: Arc<TokenBucket>,
    sent: Arc<TokenBucket>,
    /// Limit of the directions that have no limit of their own.
    both: Arc<TokenBucket>,
    started_at: Instant,
}

impl Default for ServiceLoad {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            connection_load_id: NEXT.fetch_add(1, Ordering::Relaxed),
            request_load_id: NEXT.fetch_add(1, Ordering::Relaxed),
            namespace: NamespaceLoad::default(),
            open: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            rates: Mutex::default(),
            received: Arc::default(),
            sent: Arc::default(),
            both: Arc::default(),
            started_at: Instant::now(),
        }
    }
}

impl ServiceLoad {
    /// Creates the load of a Service in the namespace with this load.
    pub(crate) fn in_namespace(namespace: NamespaceLoad) -> Self {
        Self {
            namespace,
            ..Self::default()
        }
    }
}

/// Admission at one port.
#[derive(Debug)]
pub(crate) struct Admission {
    process: Arc<ProcessConnections>,
    service: Arc<ServiceLoad>,
    counters: Arc<PortCounters>,
}

impl Admission {
    /// Creates the admission at a port of a Service with this load.
    pub(crate) fn new(
        process: Arc<ProcessConnections>,
        service: Arc<ServiceLoad>,
        counters: Arc<PortCounters>,
    ) -> Self {
        Self {
            process,
            service,
            counters,
        }
    }

    /// Counts one more connection or flow, until the permit is dropped.
    ///
    /// # Errors
    /// The limit that is reached: of the process, of the share of the Service or its namespace, or of `limits`.
    pub(crate) fn permit(self: &Arc<Self>, limits: &Limits) -> Result<ConnectionPermit, ConnectionRefusal> {
        // Dropped on an error, which takes the counts back.
        let permit = ConnectionPermit {
            admission: self.clone(),
            client: None,
        };
        let open = self.process.open.fetch_add(1, Ordering::Relaxed);
        let open_of_service = self.service.open.fetch_add(1, Ordering::Relaxed);
        self.service.namespace.fetch_add(1, Ordering::Relaxed);
        self.counters.connection_opened();
        let max = limits.connections_max;
        if open >= self.process.open_max {
            Err(ConnectionRefusal::ProcessConnections)
        } else if !self.has_share(open) {
            Err(ConnectionRefusal::ServiceShare)
        } else if max != 0 && open_of_service >= max {
            Err(ConnectionRefusal::ServiceConnections)
        } else {
            Ok(permit)
        }
    }

    /// Counts one more request of a connection that has others under way, until the permit is dropped. The limits that
    /// the Service itself sets concern connections only.
    ///
    /// # Errors
    /// The limit that is reached: of the process, or of the share of the Service, its namespace or the client.
    pub(crate) fn permit_request(
        self: &Arc<Self>,
        client: IpAddr,
    ) -> Result<RequestPermit, ConnectionRefusal> {
        // Dropped on an error, which takes the counts back.
        let mut permit = RequestPermit {
            admission: self.clone(),
            client: None,
        };
        let (process, service) = (&self.process, &self.service);
        let open = process.open.fetch_add(1, Ordering::Relaxed);
        service.requests.fetch_add(1, Ordering::Relaxed);
        service.namespace.fetch_add(1, Ordering::Relaxed);
        if open >= process.open_max {
            return Err(ConnectionRefusal::ProcessConnections);
        }
        if !self.has_share(open) {
            return Err(ConnectionRefusal::ServiceShare);
        }
        let client_max = process.shares.client_max(process.open_max);
        let slot = process
            .clients
            .acquire(service.request_load_id, client.to_canonical(), client_max);
        permit.client = slot.map_err(|_| ConnectionRefusal::ClientConnections)?;
        Ok(permit)
    }

    /// Returns the number of requests that a connection may have under way if its client has no other connection: the
    /// first one, and the share of a client.
    pub(crate) fn requests_max(&self) -> u32 {
        let process = &self.process;
        process.shares.client_max(process.open_max).saturating_add(1)
    }

    /// Returns true if the Service and its namespace, which the caller has counted one more for, have their shares, when
    /// `open` of all were open before.
    fn has_share(&self, open: usize) -> bool {
        let (process, service) = (&self.process, &self.service);
        let counted =
            [&service.open, &service.requests].map(|count| u64::from(count.load(Ordering::Relaxed)));
        let before = counted.iter().sum::<u64>().saturating_sub(1);
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let before_in_namespace = service.namespace.load(Ordering::Relaxed).saturating_sub(1);
        let (shares, open_max) = (&process.shares, process.open_max);
        shares.has_room(before, open, open_max)
            && shares.has_room_in_namespace(before_in_namespace, open, open_max)
    }

    /// Checks the client of a connection: its address, its connections and its rate. After the check, `permit` also
    /// counts against the limits of the client.
    ///
    /// # Errors
    /// The rule or limit that refuses the client.
    pub(crate) fn admit_client(
        &self,
        client: IpAddr,
        policy: &Policy,
        permit: &mut ConnectionPermit,
    ) -> Result<(), ConnectionRefusal> {
        let ranges = &policy.source_ranges;
        let client = client.to_canonical();
        if !ranges.is_empty() && !contain(ranges, client) {
            return Err(ConnectionRefusal::SourceRange);
        }
        let limits = &policy.limits;
        if permit.client.is_none() {
            let process = &self.process;
            let client_max = match limits.connections_per_client {
                0 => process.shares.client_max(process.open_max),
                own => own,
            };
            let slot = process
                .clients
                .acquire(self.service.connection_load_id, client, client_max);
            permit.client = slot.map_err(|_| ConnectionRefusal::ClientConnections)?;
        }
        let per_second = limits.connections_per_second;
        // Without a limit, connections do not contend for the lock.
        if per_second == 0 {
            return Ok(());
        }
        let mut rates = self.service.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.service.started_at.elapsed();
        if rates.admit(client_network(client), per_second, now) {
            Ok(())
        } else {
            Err(ConnectionRefusal::Rate)
        }
    }

    /// Returns the bandwidth reservations of a new connection or flow: for bytes from its client, and for bytes to it.
    /// `None` for a direction without a limit.
    pub(crate) fn bandwidth(&self, limits: &Limits) -> [Option<BandwidthReservation>; 2] {
        let service = &self.service;
        [
            (&service.received, limits.received_bytes_per_second),
            (&service.sent, limits.sent_bytes_per_second),
        ]
        .map(|(bucket, per_second)| {
            let of_both = || Rate::new(limits.both_bytes_per_second).map(|rate| (&service.both, rate));
            let own = Rate::new(per_second).map(|rate| (bucket, rate));
            let (bucket, rate) = own.or_else(of_both)?;
            Some(BandwidthReservation::new(bucket.clone(), rate))
        })
    }

    /// Returns the instant from which the times of bandwidth reservations count.
    pub(crate) fn bandwidth_epoch(&self) -> Instant {
        self.service.started_at
    }
}

/// Right to serve one connection or flow, which counts against the limits until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    admission: Arc<Admission>,
    /// Present once the client is known.
    client: Option<ClientSlot>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Admission {
            process,
            service,
            counters,
        } = &*self.admission;
        if let Some(slot) = &self.client {
            process.clients.release(slot);
        }
        process.open.fetch_sub(1, Ordering::Relaxed);
        service.open.fetch_sub(1, Ordering::Relaxed);
        service.namespace.fetch_sub(1, Ordering::Relaxed);
        counters.connection_closed();
    }
}

/// Right to forward one more request of an HTTP/2 connection, which counts against the limits until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    admission: Arc<Admission>,
    client: Option<ClientSlot>,
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let Admission { process, service, .. } = &*self.admission;
        if let Some(slot) = &self.client {
            process.clients.release(slot);
        }
        process.open.fetch_sub(1, Ordering::Relaxed);
        service.requests.fetch_sub(1, Ordering::Relaxed);
        service.namespace.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns true if one of these ranges, which are in order, contains an address.
fn contain(ranges: &[IpNet], address: IpAddr) -> bool {
    let after = ranges.partition_point(|range| range.network() <= address);
    let before = after.checked_sub(1).and_then(|index| ranges.get(index));
    before.is_some_and(|range| range.contains(&address))
}

#[cfg(test)]
pub(crate) mod tests;
