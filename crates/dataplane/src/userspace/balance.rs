//! Which endpoint a connection goes to: schedulers, affinity, and who has been tried. Pure but for a number that
//! callers draw by chance, and the time that they tell.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plan::{Scheduler, ServicePortPlan, Set};

/// Clients that a Service port remembers. Beyond that, new ones are not remembered until some expire: who comes
/// once from each of many addresses must not take this node's memory.
pub const AFFINITIES_MAX: usize = 65_536;

/// An endpoint, and how many connections it has from here.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its address.
    pub address: SocketAddr,
    /// Its connections.
    pub connections: Arc<AtomicUsize>,
}

/// A connection that counts as its endpoint's until it is dropped.
#[derive(Debug)]
pub struct Counted(Arc<AtomicUsize>);

impl Endpoint {
    /// Counts a connection.
    pub fn count(&self) -> Counted {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Counted(self.connections.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The endpoints of one set of a Service port, and who goes where.
#[derive(Debug, Default)]
pub struct Balance {
    endpoints: Vec<Endpoint>,
    /// Flows to these go on, usable or not.
    serving: Vec<SocketAddr>,
    scheduler: Scheduler,
    affinity: Option<Duration>,
    /// Clients with their endpoint and their last connection.
    clients: HashMap<IpAddr, (SocketAddr, Instant)>,
    /// Whose turn it is.
    turn: usize,
    places: Vec<SocketAddr>,
}

impl Balance {
    /// Takes over what the plan has for a set. Endpoints that stay keep their connections and clients.
    pub fn set(&mut self, port: &ServicePortPlan, set: Set) {
        let mut former = std::mem::take(&mut self.endpoints);
        let endpoints = port.backends(set).iter().map(|backend| {
            let known = former
                .iter()
                .position(|endpoint| endpoint.address == backend.address);
            known
                .map(|index| former.swap_remove(index))
                .unwrap_or_else(|| Endpoint {
                    address: backend.address,
                    connections: Arc::default(),
                })
        });
        self.endpoints = endpoints.collect();
        self.serving.clone_from(&port.serving);
        self.scheduler = port.scheduler;
        self.affinity = port
            .affinity_seconds
            .map(|seconds| Duration::from_secs(seconds.into()));
        let endpoints = &self.endpoints;
        match self.affinity {
            Some(_) => self
                .clients
                .retain(|_, (address, _)| endpoints.iter().any(|e| e.address == *address)),
            None => self.clients = HashMap::new(),
        }
        self.places = match self.scheduler {
            Scheduler::Maglev => {
                let addresses = endpoints.iter().map(|endpoint| endpoint.address).collect();
                maglev::lookup_table(addresses, |address: &SocketAddr| address.to_string().into_bytes())
            }
            _ => Vec::new(),
        };
    }

    /// Whether a flow to an endpoint may go on.
    pub fn serves(&self, address: SocketAddr) -> bool {
        self.serving.binary_search(&address).is_ok() || self.endpoints.iter().any(|e| e.address == address)
    }

    /// The endpoint for a client's next connection, none of those that it has tried in vain. `chance` is any number.
    pub fn choose(
        &mut self,
        client: SocketAddr,
        tried: &[SocketAddr],
        now: Instant,
        chance: u64,
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
        let endpoint = self.schedule(client, tried, chance)?;
        if let Some(affinity) = affinity {
            self.remember(client.ip(), endpoint.address, now, affinity);
        }
        Some(endpoint)
    }

    /// Lets go of a client whose endpoint refuses.
    pub fn forget(&mut self, client: IpAddr, endpoint: SocketAddr) {
        if self
            .clients
            .get(&client)
            .is_some_and(|(address, _)| *address == endpoint)
        {
            self.clients.remove(&client);
        }
    }

    fn schedule(&mut self, client: SocketAddr, tried: &[SocketAddr], chance: u64) -> Option<Endpoint> {
        if self.scheduler == Scheduler::Maglev {
            let start = maglev::hash(client.to_string().as_bytes()) as usize;
            let places = self.places.iter().cycle().skip(start % self.places.len().max(1));
            let address = places
                .take(self.places.len())
                .find(|address| !tried.contains(address))?;
            return self
                .endpoints
                .iter()
                .find(|endpoint| endpoint.address == *address)
                .cloned();
        }
        let left: Vec<&Endpoint> = self
            .endpoints
            .iter()
            .filter(|endpoint| !tried.contains(&endpoint.address))
            .collect();
        let pick = |number: usize| left.get(number % left.len().max(1)).copied();
        match self.scheduler {
            Scheduler::RoundRobin => {
                self.turn = self.turn.wrapping_add(1);
                pick(self.turn)
            }
            Scheduler::LeastConnections => {
                // From a place by chance on, so that equals share.
                let from = chance as usize % left.len().max(1);
                let (before, behind) = left.split_at_checked(from)?;
                let in_turn = behind.iter().chain(before);
                in_turn
                    .min_by_key(|endpoint| endpoint.connections.load(Ordering::Relaxed))
                    .copied()
            }
            Scheduler::Random | Scheduler::Maglev => pick(chance as usize),
        }
        .cloned()
    }

    fn remember(&mut self, client: IpAddr, address: SocketAddr, now: Instant, affinity: Duration) {
        if self.clients.len() >= AFFINITIES_MAX && !self.clients.contains_key(&client) {
            self.clients
                .retain(|_, (_, last)| now.saturating_duration_since(*last) < affinity);
            if self.clients.len() >= AFFINITIES_MAX {
                return;
            }
        }
        self.clients.insert(client, (address, now));
    }
}

#[cfg(test)]
mod tests;
