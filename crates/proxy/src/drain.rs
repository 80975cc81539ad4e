//! Draining of TCP connections to endpoints that have left: they are reset after a period (annotation
//! `service.portolan.dev/drain-seconds`).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use api::object::{ObjectKey, Protocol};
use dataplane::ServiceSockets;
use plan::{Changes, Family, Plan, PortKey, ServicePortPlan};

use crate::stale_flows::TrackedFlow;

/// Maximum of recorded departures; connections to further endpoints are not drained.
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
            key: port.key.clone(),
            seconds: port.drain_seconds?,
            serving: port.serving.clone(),
            frontends: port
                .frontends
                .iter()
                .map(|frontend| (frontend.address, frontend.port))
                .collect(),
        })
    }
}

/// An endpoint that has left a Service port.
#[derive(Clone, Debug)]
struct Departure {
    at: Instant,
    endpoint: SocketAddr,
    from: Draining,
}

/// Endpoints that have left, with the deadlines of their connections.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    ports: HashMap<ObjectKey, Vec<Draining>>,
    departures: Vec<Departure>,
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
        self.departures.iter().map(|departure| departure.at).min()
    }

    /// Removes and returns the departures whose deadline has passed.
    pub(crate) fn due(&mut self, now: Instant) -> Due {
        let mut due: HashMap<SocketAddr, Vec<Draining>> = HashMap::new();
        self.departures.retain(|departure| {
            let stays = departure.at > now;
            if !stays {
                let from = departure.from.clone();
                due.entry(departure.endpoint).or_default().push(from);
            }
            stays
        });
        Due(due)
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
        let is_known = self
            .departures
            .iter()
            .any(|known| known.endpoint == flow.endpoint && known.from.key == owner.key);
        if let Some(draining) = Draining::of(owner).filter(|_| !is_known) {
            self.record_departure(flow.endpoint, draining, now);
        }
    }

    /// Returns true if no Service drains.
    pub(crate) fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    fn record_service(&mut self, plan: &Plan, service: &ObjectKey, now: Instant) {
        let ports: Vec<Draining> = plan.ports_of(service).filter_map(Draining::of).collect();
        let former = if ports.is_empty() {
            self.ports.remove(service)
        } else {
            self.ports.insert(service.clone(), ports.clone())
        };
        let serves = |key: &PortKey, endpoint: &SocketAddr| {
            let port = ports.iter().find(|port| port.key == *key);
            port.is_some_and(|port| port.serving.binary_search(endpoint).is_ok())
        };
        // Without the annotation, connections stay.
        let drains = |key: &PortKey| {
            let port = plan.ports_of(service).find(|port| port.key == *key);
            port.is_none_or(|port| port.drain_seconds.is_some())
        };
        self.departures.retain(|departure| {
            let key = &departure.from.key;
            key.service != *service || (drains(key) && !serves(key, &departure.endpoint))
        });
        for port in former.into_iter().flatten().filter(|port| drains(&port.key)) {
            for endpoint in &port.serving {
                let is_known = |known: &Departure| known.endpoint == *endpoint && known.from.key == port.key;
                if !serves(&port.key, endpoint) && !self.departures.iter().any(is_known) {
                    self.record_departure(*endpoint, port.clone(), now);
                }
            }
        }
    }

    fn record_departure(&mut self, endpoint: SocketAddr, from: Draining, now: Instant) {
        if self.departures.len() < DEPARTURES_MAX {
            self.departures.push(Departure {
                at: now + Duration::from_secs(u64::from(from.seconds)),
                endpoint,
                from,
            });
        }
    }
}

/// Departures whose deadline has passed, by endpoint.
#[derive(Debug)]
pub(crate) struct Due(HashMap<SocketAddr, Vec<Draining>>);

impl Due {
    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the endpoints, each with its Service. Endpoints that another port of the Service still serves are
    /// omitted: their connections cannot be distinguished.
    pub(crate) fn endpoints(&self, plan: &Plan) -> ServiceSockets {
        let departures = self.0.iter().flat_map(|(endpoint, ports)| {
            let services = ports.iter().map(|port| &port.key.service);
            services.map(move |service| (service, endpoint))
        });
        let has_left = |service: &ObjectKey, endpoint: &SocketAddr| {
            let mut ports = plan.ports_of(service);
            ports.all(|port| {
                port.key.protocol != Protocol::Tcp || port.serving.binary_search(endpoint).is_err()
            })
        };
        departures
            .filter(|&(service, endpoint)| has_left(service, endpoint))
            .map(|(service, endpoint)| (service.clone(), *endpoint))
            .collect()
    }

    /// Returns true if a connection has to end: it leads through a frontend to an endpoint that left it.
    pub(crate) fn ends(&self, plan: &Plan, flow: &TrackedFlow) -> bool {
        let left = self.0.get(&flow.endpoint).into_iter().flatten();
        let at = flow.destination;
        left.flat_map(|port| &port.frontends)
            .any(|(address, port)| match address {
                Some(address) => at == SocketAddr::new(*address, *port),
                None => at.port() == *port && plan.settings().accepts_node_port(at.ip()),
            })
    }
}

#[cfg(test)]
mod tests;
