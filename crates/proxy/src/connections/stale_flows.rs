//! Selection of stale conntrack entries (EPT-22). An entry overrides the rules: after a change, the kernel continues to
//! send its flow to the endpoint. Entries of UDP and SCTP are therefore stale when their endpoint is removed. Unlike
//! kube-proxy, the selection includes frontends without endpoints, deleted Services, and TCP connections from before
//! the first rules.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use api::object::Protocol;
use plan::{Changes, Family, Plan};

/// A conntrack entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrackedFlow {
    pub(crate) protocol: Protocol,
    /// Original destination.
    pub(crate) destination: SocketAddr,
    /// Endpoint that replies; the destination itself without translation.
    pub(crate) endpoint: SocketAddr,
    /// True if a packet of the endpoint was seen.
    pub(crate) is_replied: bool,
}

impl TrackedFlow {
    /// Returns true for a UDP request to an endpoint that has not responded.
    pub(crate) fn is_request(&self) -> bool {
        let is_translated = self.endpoint != self.destination;
        self.protocol == Protocol::Udp && is_translated && !self.is_replied
    }
}

/// Flows that may be stale after a change.
#[derive(Debug, Default)]
pub(crate) struct CleanupScope {
    /// True for all flows: after a start, earlier changes are unknown.
    has_all_flows: bool,
    addresses: HashSet<(Protocol, SocketAddr)>,
    node_ports: HashSet<(Protocol, Family, u16)>,
    /// First and last ports of ranges.
    ranges: HashMap<(Protocol, IpAddr), BTreeSet<(u16, u16)>>,
}

impl CleanupScope {
    /// Returns the flows that `changes`, which led to `plan`, may have made stale.
    pub(crate) fn after(plan: &Plan, changes: &Changes) -> Self {
        let mut scope = Self {
            has_all_flows: changes.needs_full_write,
            ..Self::default()
        };
        let changed = changes.services.iter();
        for port in changed.flat_map(|service| plan.ports_of(service).chain(plan.ranges_of(service))) {
            if port.key.protocol != Protocol::Tcp {
                for frontend in &port.frontends {
                    scope.add(
                        port.key.protocol,
                        port.key.family,
                        frontend.address,
                        (frontend.port, frontend.last_port),
                    );
                }
            }
        }
        let withdrawn = changes.withdrawn.iter();
        for gone in withdrawn.filter(|gone| gone.protocol != Protocol::Tcp) {
            let ports = (gone.port, gone.last_port);
            scope.add(gone.protocol, gone.family, gone.address, ports);
        }
        scope
    }

    /// Returns true if no flow can be stale.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_all_flows
            && self.addresses.is_empty()
            && self.node_ports.is_empty()
            && self.ranges.is_empty()
    }

    /// Returns true if all flows may be stale, TCP connections included.
    pub(crate) fn has_all_flows(&self) -> bool {
        self.has_all_flows
    }

    /// Returns true if flows of a protocol and family can be stale. The kernel reads its whole table for each list,
    /// about 10 ms, so a list without possible stale flows is not requested.
    pub(crate) fn includes_flows_of(&self, protocol: Protocol, family: Family) -> bool {
        let is_same = |other: Protocol, address: IpAddr| other == protocol && Family::of(address) == family;
        self.has_all_flows
            || self
                .addresses
                .iter()
                .any(|(other, address)| is_same(*other, address.ip()))
            || self
                .node_ports
                .iter()
                .any(|(other, other_family, _)| (*other, *other_family) == (protocol, family))
            || self
                .ranges
                .keys()
                .any(|(other, address)| is_same(*other, *address))
    }

    /// Adds the flows of another scope.
    pub(crate) fn merge(&mut self, other: Self) {
        self.has_all_flows |= other.has_all_flows;
        self.addresses.extend(other.addresses);
        self.node_ports.extend(other.node_ports);
        for (key, ranges) in other.ranges {
            self.ranges.entry(key).or_default().extend(ranges);
        }
    }

    /// Returns true if a flow is stale. Its frontend no longer leads to its endpoint, or the frontend no longer exists
    /// and the destination was translated.
    pub(crate) fn is_stale(&self, plan: &Plan, flow: &TrackedFlow) -> bool {
        if flow.protocol == Protocol::Tcp {
            return self.is_untranslated_tcp(plan, flow);
        }
        if !self.includes(plan, flow) {
            return false;
        }
        let address = flow.destination.ip();
        let owner = plan.frontend_at(flow.protocol, flow.destination);
        let is_translated = flow.endpoint != flow.destination;
        match owner {
            Some((port, _)) => !port.serves(flow.endpoint, flow.destination.port()),
            // Without a change of this frontend, only destinations in the Service CIDRs certainly belong to Services.
            None if self.names_frontend(plan, flow) => is_translated,
            None => is_translated && plan.settings().is_in_service_cidr(address),
        }
    }

    /// Returns true for a TCP connection that a client opened to a cluster IP before the first rules. The entry has
    /// no translation. The kernel therefore does not send the packets to an endpoint, and the client would wait until
    /// its timeout.
    fn is_untranslated_tcp(&self, plan: &Plan, flow: &TrackedFlow) -> bool {
        self.has_all_flows
            && flow.endpoint == flow.destination
            && plan.settings().is_in_service_cidr(flow.destination.ip())
            && plan.frontend_at(Protocol::Tcp, flow.destination).is_some()
    }

    fn includes(&self, plan: &Plan, flow: &TrackedFlow) -> bool {
        self.has_all_flows || self.names_frontend(plan, flow)
    }

    fn names_frontend(&self, plan: &Plan, flow: &TrackedFlow) -> bool {
        let address = flow.destination.ip();
        let node_port = (flow.protocol, Family::of(address), flow.destination.port());
        self.addresses.contains(&(flow.protocol, flow.destination))
            || self.has_range(flow.protocol, flow.destination)
            || (self.node_ports.contains(&node_port) && plan.settings().accepts_node_port(address))
    }

    fn has_range(&self, protocol: Protocol, destination: SocketAddr) -> bool {
        let ranges = self.ranges.get(&(protocol, destination.ip()));
        ranges.is_some_and(|ranges| {
            let mut ranges = ranges.iter();
            ranges.any(|(first, last)| (*first..=*last).contains(&destination.port()))
        })
    }

    /// Adds the flows of a frontend from its first to its last port.
    fn add(
        &mut self,
        protocol: Protocol,
        family: Family,
        address: Option<IpAddr>,
        (port, last_port): (u16, u16),
    ) {
        match address {
            Some(address) if port != last_port => {
                let ranges = self.ranges.entry((protocol, address)).or_default();
                ranges.insert((port, last_port));
            }
            Some(address) => {
                self.addresses.insert((protocol, SocketAddr::new(address, port)));
            }
            None => {
                self.node_ports.insert((protocol, family, port));
            }
        }
    }
}

#[cfg(test)]
mod tests;
