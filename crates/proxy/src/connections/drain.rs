//! Draining of TCP connections to endpoints that have left: they are reset after a period (annotation
//! `service.portolan.dev/drain-seconds`).

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::object::{ObjectKey, Protocol};
use dataplane::ServiceSockets;
use plan::{Changes, Family, Plan, PortKey, ServicePortPlan};

use crate::connections::stale_flows::TrackedFlow;

/// Maximum number of recorded departures; connections to further endpoints are not drained.
const DEPARTURES_MAX: usize = 65_536;

/// A Service port that drains.
#[derive(Clone, Debug, PartialEq)]
struct Draining {
    key: PortKey,
    seconds: u32,
    /// Serving endpoints, sorted.
    serving: Vec<SocketAddr>,
    frontends: Vec<(Option<IpAddr>, u16)>,
}

impl Draining {
    fn of(port: &ServicePortPlan) -> Option<Self> {
        Some(Self {
            serving: port.serving.clone(),
            ..Self::without_endpoints(port)?
        })
    }

    fn without_endpoints(port: &ServicePortPlan) -> Option<Self> {
        Some(Self {
            key: port.key.clone(),
            seconds: port.drain_seconds?,
            serving: Vec::new(),
            frontends: port
                .frontends
                .iter()
                .map(|frontend| (frontend.address, frontend.port))
                .collect(),
        })
    }
}

/// Departure of an endpoint from a Service port.
#[derive(Debug)]
struct Departure {
    /// Deadline of the connections.
    at: Instant,
    from: Arc<Draining>,
}

/// Endpoints that have left, with the deadlines of their connections.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    ports: HashMap<ObjectKey, Vec<Arc<Draining>>>,
    departures: HashMap<(SocketAddr, PortKey), Departure>,
}

impl Drains {
    /// Records changes that were applied.
    pub(crate) fn record(&mut self, plan: &Plan, changes: &Changes, now: Instant) {
        if changes.needs_full_write {
            let known: Vec<ObjectKey> = self.ports.keys().cloned().collect();
            for service in plan.services().chain(&known) {
                self.record_service(plan, service, now);
            }
        } else {
            for service in &changes.services {
                self.record_service(plan, service, now);
            }
        }
    }

    /// Returns the next deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.departures.values().map(|departure| departure.at).min()
    }

    /// Removes and returns the departures whose deadline has passed.
    pub(crate) fn due(&mut self, now: Instant) -> DueDepartures {
        let mut due: HashMap<SocketAddr, DueEndpoint> = HashMap::new();
        self.departures.retain(|(endpoint, key), departure| {
            let stays = departure.at > now;
            if !stays {
                let due = due.entry(*endpoint).or_default();
                due.services.insert(key.service.clone());
                due.frontends.extend(&departure.from.frontends);
            }
            stays
        });
        DueDepartures(due)
    }

    /// Records a connection from before the start of this process. If its endpoint has left, the departure counts as
    /// now.
    pub(crate) fn record_connection(&mut self, plan: &Plan, flow: &TrackedFlow, now: Instant) {
        let (address, port) = (flow.destination.ip(), flow.destination.port());
        let family = Family::of(address);
        let owner = plan
            .frontend(family, Some(address), Protocol::Tcp, port)
            .or_else(|| plan.frontend(family, None, Protocol::Tcp, port));
        let Some((owner, _)) = owner.filter(|(port, _)| port.drain_seconds.is_some()) else {
            return;
        };
        let has_left = owner.serving.binary_search(&flow.endpoint).is_err();
        if !has_left || flow.endpoint == flow.destination {
            return;
        }
        if !self.is_known(flow.endpoint, &owner.key)
            && let Some(draining) = Draining::without_endpoints(owner)
        {
            self.record_departure(flow.endpoint, Arc::new(draining), now);
        }
    }

    /// Returns true if no Service drains.
    pub(crate) fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    fn record_service(&mut self, plan: &Plan, service: &ObjectKey, now: Instant) {
        let ports = plan.ports_of(service).filter_map(Draining::of);
        let ports: Vec<Arc<Draining>> = ports.map(Arc::new).collect();
        let former = if ports.is_empty() {
            self.ports.remove(service)
        } else {
            self.ports.insert(service.clone(), ports.clone())
        };
        // A Service has room for tens of thousands of ports.
        let by_key: HashMap<&PortKey, &Arc<Draining>> = ports.iter().map(|port| (&port.key, port)).collect();
        let serves = |key: &PortKey, endpoint: &SocketAddr| {
            let port = by_key.get(key);
            port.is_some_and(|port| port.serving.binary_search(endpoint).is_ok())
        };
        // Without the annotation, connections stay.
        let stay = plan.ports_of(service).filter(|port| port.drain_seconds.is_none());
        let stay: HashSet<&PortKey> = stay.map(|port| &port.key).collect();
        self.departures.retain(|(endpoint, key), _| {
            key.service != *service || (!stay.contains(key) && !serves(key, endpoint))
        });
        let drained = former.iter().flatten().filter(|port| !stay.contains(&port.key));
        for port in drained {
            for endpoint in &port.serving {
                if !serves(&port.key, endpoint) && !self.is_known(*endpoint, &port.key) {
                    self.record_departure(*endpoint, Arc::clone(port), now);
                }
            }
        }
    }

    fn is_known(&self, endpoint: SocketAddr, port: &PortKey) -> bool {
        self.departures.contains_key(&(endpoint, port.clone()))
    }

    fn record_departure(&mut self, endpoint: SocketAddr, from: Arc<Draining>, now: Instant) {
        if self.departures.len() < DEPARTURES_MAX {
            let at = now + Duration::from_secs(u64::from(from.seconds));
            let key = (endpoint, from.key.clone());
            self.departures.insert(key, Departure { at, from });
        }
    }
}

/// Endpoint with departures whose deadline has passed.
#[derive(Debug, Default)]
struct DueEndpoint {
    services: HashSet<ObjectKey>,
    /// Addresses and ports that led to the endpoint; a node port has no address.
    frontends: HashSet<(Option<IpAddr>, u16)>,
}

/// Departures whose deadline has passed, by endpoint.
#[derive(Debug)]
pub(crate) struct DueDepartures(HashMap<SocketAddr, DueEndpoint>);

impl DueDepartures {
    /// Returns true if no departures are due.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the endpoints, each with its Service. Endpoints that another port of the Service still serves are
    /// omitted: their connections cannot be distinguished.
    pub(crate) fn endpoints(&self, plan: &Plan) -> ServiceSockets {
        let services: HashSet<&ObjectKey> = self.0.values().flat_map(|due| &due.services).collect();
        let serving = |service: &ObjectKey| -> HashSet<SocketAddr> {
            let tcp = plan
                .ports_of(service)
                .filter(|port| port.key.protocol == Protocol::Tcp);
            tcp.flat_map(|port| &port.serving).copied().collect()
        };
        let serving: HashMap<&ObjectKey, HashSet<SocketAddr>> = services
            .into_iter()
            .map(|service| (service, serving(service)))
            .collect();
        let departures = self.0.iter().flat_map(|(endpoint, due)| {
            let services = due.services.iter();
            services.map(move |service| (service, endpoint))
        });
        departures
            .filter(|(service, endpoint)| {
                let serving = serving.get(service);
                serving.is_none_or(|serving| !serving.contains(*endpoint))
            })
            .map(|(service, endpoint)| (service.clone(), *endpoint))
            .collect()
    }

    /// Returns true if a connection has to end: it leads through a frontend to an endpoint that left it.
    pub(crate) fn ends(&self, plan: &Plan, flow: &TrackedFlow) -> bool {
        let Some(due) = self.0.get(&flow.endpoint) else {
            return false;
        };
        let (address, port) = (flow.destination.ip(), flow.destination.port());
        due.frontends.contains(&(Some(address), port))
            || (due.frontends.contains(&(None, port)) && plan.settings().accepts_node_port(address))
    }
}

#[cfg(test)]
mod tests;
