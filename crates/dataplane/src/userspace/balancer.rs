//! Selection of endpoints: schedulers, session affinity, and retries. The code is pure; callers pass the time and a
//! random number.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plan::{EndpointSet, Scheduler, ServicePortPlan};

/// Maximum number of clients with affinity per Service port. Further clients have no affinity until some expire, so
/// that many source addresses cannot exhaust the memory of this node.
pub(super) const AFFINITIES_MAX: usize = 65_536;
/// Minimum time between two searches of a full table for clients whose affinity has expired, which read all of it.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// An endpoint with the number of its connections from this process.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// Number of open connections.
    pub connections: Arc<AtomicUsize>,
}

/// Guard that counts a connection of an endpoint until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionCount(Arc<AtomicUsize>);

impl Endpoint {
    /// Counts a connection.
    pub(super) fn count_connection(&self) -> ConnectionCount {
        self.connections.fetch_add(1, Ordering::Relaxed);
        ConnectionCount(self.connections.clone())
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Endpoints of one set of a Service port, with scheduler and affinities.
#[derive(Debug, Default)]
pub(super) struct Balancer {
    endpoints: Vec<Endpoint>,
    /// Endpoints whose existing flows continue, whether or not they are usable for new ones.
    serving: Vec<SocketAddr>,
    scheduler: Scheduler,
    /// Maximum share of connections that end after endpoints were added, in percent.
    rebalance_percent: Option<u8>,
    affinity: Option<Duration>,
    /// Affinity of clients: endpoint and time of the last connection.
    clients: HashMap<IpAddr, (SocketAddr, Instant)>,
    /// Time of the last search for expired affinities.
    swept: Option<Instant>,
    /// Index for round robin.
    next_index: usize,
    maglev_table: Vec<SocketAddr>,
}

impl Balancer {
    /// Applies the plan of a set. Endpoints that stay keep their connection counts and affinities.
    pub(super) fn set(&mut self, port: &ServicePortPlan, set: EndpointSet) {
        let former = std::mem::take(&mut self.endpoints);
        let mut former: HashMap<SocketAddr, Endpoint> = former
            .into_iter()
            .map(|endpoint| (endpoint.address, endpoint))
            .collect();
        let endpoints = port.backends(set).iter().map(|backend| {
            former.remove(&backend.address).unwrap_or_else(|| Endpoint {
                address: backend.address,
                connections: Arc::default(),
            })
        });
        self.endpoints = endpoints.collect();
        self.serving.clone_from(&port.serving);
        self.scheduler = port.scheduler;
        self.rebalance_percent = port.rebalance_percent;
        self.affinity = port
            .affinity_seconds
            .map(|seconds| Duration::from_secs(seconds.into()));
        let endpoints = &self.endpoints;
        match self.affinity {
            Some(_) => {
                let addresses: HashSet<SocketAddr> =
                    endpoints.iter().map(|endpoint| endpoint.address).collect();
                self.clients.retain(|_, (address, _)| addresses.contains(address));
            }
            None => self.clients = HashMap::new(),
        }
        self.maglev_table = match self.scheduler {
            Scheduler::Maglev => {
                let addresses = endpoints.iter().map(|endpoint| endpoint.address).collect();
                maglev::lookup_table(addresses, |address: &SocketAddr| address.to_string().into_bytes())
            }
            _ => Vec::new(),
        };
    }

    /// Returns the endpoints and the maximum share of connections that end after endpoints were added; `None` if none
    /// end.
    pub(super) fn rebalancing(&self) -> Option<(Vec<SocketAddr>, u8)> {
        let addresses = self.endpoints.iter().map(|endpoint| endpoint.address);
        Some((addresses.collect(), self.rebalance_percent?))
    }

    /// Returns true if flows to an endpoint may continue.
    pub(super) fn serves(&self, address: SocketAddr) -> bool {
        self.serving.binary_search(&address).is_ok()
            || self.endpoints.iter().any(|endpoint| endpoint.address == address)
    }

    /// Returns the endpoint for the next connection of a client, except those in `tried`. `random` is an arbitrary
    /// number.
    pub(super) fn choose(
        &mut self,
        client: SocketAddr,
        tried: &[SocketAddr],
        now: Instant,
        random: u64,
    ) -> Option<Endpoint> {
        let affinity = self.affinity;
        if let (Some(affinity), Some((address, last))) = (affinity, self.clients.get_mut(&client.ip()))
            && now.saturating_duration_since(*last) < affinity
            && !tried.contains(address)
            && let Some(endpoint) = self
                .endpoints
                .iter()
                .find(|endpoint| endpoint.address == *address)
        {
            *last = now;
            return Some(endpoint.clone());
        }
        let endpoint = self.schedule(client, tried, random)?;
        if let Some(affinity) = affinity {
            self.record_affinity(client.ip(), endpoint.address, now, affinity);
        }
        Some(endpoint)
    }

    /// Deletes the affinity of a client to an endpoint that refuses.
    pub(super) fn forget_affinity(&mut self, client: IpAddr, endpoint: SocketAddr) {
        if self
            .clients
            .get(&client)
            .is_some_and(|(address, _)| *address == endpoint)
        {
            self.clients.remove(&client);
        }
    }

    /// Chooses an endpoint by the scheduler, except among those that were tried.
    fn schedule(&mut self, client: SocketAddr, tried: &[SocketAddr], random: u64) -> Option<Endpoint> {
        if self.scheduler == Scheduler::Maglev {
            let start = maglev::hash(client.to_string().as_bytes()) as usize;
            let maglev_table = self
                .maglev_table
                .iter()
                .cycle()
                .skip(start % self.maglev_table.len().max(1));
            let address = maglev_table
                .take(self.maglev_table.len())
                .find(|address| !tried.contains(address))?;
            return self
                .endpoints
                .iter()
                .find(|endpoint| endpoint.address == *address)
                .cloned();
        }
        let candidates: Vec<&Endpoint> = self
            .endpoints
            .iter()
            .filter(|endpoint| !tried.contains(&endpoint.address))
            .collect();
        let pick = |number: usize| candidates.get(number % candidates.len().max(1)).copied();
        match self.scheduler {
            Scheduler::RoundRobin => {
                self.next_index = self.next_index.wrapping_add(1);
                pick(self.next_index)
            }
            Scheduler::LeastConnections => {
                // Starting at a random index distributes connections among endpoints with equal counts.
                let from = random as usize % candidates.len().max(1);
                let (before, after) = candidates.split_at_checked(from)?;
                let rotated = after.iter().chain(before);
                rotated
                    .min_by_key(|endpoint| endpoint.connections.load(Ordering::Relaxed))
                    .copied()
            }
            Scheduler::Random | Scheduler::Maglev | Scheduler::Ipvs(_) => pick(random as usize),
        }
        .cloned()
    }

    fn record_affinity(&mut self, client: IpAddr, address: SocketAddr, now: Instant, affinity: Duration) {
        if self.clients.len() >= AFFINITIES_MAX && !self.clients.contains_key(&client) {
            let is_due = |swept: Instant| now.saturating_duration_since(swept) >= SWEEP_INTERVAL;
            if self.swept.is_none_or(is_due) {
                self.swept = Some(now);
                self.clients
                    .retain(|_, (_, last)| now.saturating_duration_since(*last) < affinity);
            }
            if self.clients.len() >= AFFINITIES_MAX {
                return;
            }
        }
        self.clients.insert(client, (address, now));
    }
}

#[cfg(test)]
mod tests;
