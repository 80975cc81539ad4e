//! Which UDP and SCTP flows are stale. The kernel remembers where it sent a flow and goes on sending
//! there, whatever the rules say by now; so what is stale must be taken from its memory (EPT-22, and
//! where the reference does less: also at zero endpoints and after a Service is gone).

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use api::object::Protocol;
use plan::{Changes, Family, Plan};

/// A flow as the kernel remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) protocol: Protocol,
    /// Where the client sends to.
    pub(crate) destination: SocketAddr,
    /// Who answers; the destination itself if nothing was translated.
    pub(crate) answered_by: SocketAddr,
}

/// The flows that may be stale after a change.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// All of them: after a start nobody knows what has changed meanwhile.
    everything: bool,
    addresses: HashSet<(Protocol, SocketAddr)>,
    node_ports: HashSet<(Protocol, Family, u16)>,
}

impl Scope {
    /// The flows that `changes`, which led to `plan`, may have made stale.
    pub(crate) fn of(plan: &Plan, changes: &Changes) -> Self {
        let mut scope = Self {
            everything: changes.everything,
            ..Self::default()
        };
        for port in changes.services.iter().flat_map(|service| plan.ports_of(service)) {
            if port.key.protocol != Protocol::Tcp {
                for frontend in &port.frontends {
                    scope.add(
                        port.key.protocol,
                        port.key.family,
                        frontend.address,
                        frontend.port,
                    );
                }
            }
        }
        for gone in &changes.withdrawn {
            scope.add(gone.protocol, gone.family, gone.address, gone.port);
        }
        scope
    }

    /// Whether no flow can be stale.
    pub(crate) fn is_empty(&self) -> bool {
        !self.everything && self.addresses.is_empty() && self.node_ports.is_empty()
    }

    /// Takes in what another scope has.
    pub(crate) fn merge(&mut self, other: Self) {
        self.everything |= other.everything;
        self.addresses.extend(other.addresses);
        self.node_ports.extend(other.node_ports);
    }

    /// Whether a flow is stale: its frontend has an owner and does not send to who answers it; or its
    /// frontend is gone and somebody else than the destination answers.
    pub(crate) fn is_stale(&self, plan: &Plan, flow: &Flow) -> bool {
        if flow.protocol == Protocol::Tcp || !self.concerns(plan, flow) {
            return false;
        }
        let address = flow.destination.ip();
        let owner = plan.frontend_at(flow.protocol, flow.destination);
        let is_translated = flow.answered_by != flow.destination;
        match owner {
            Some((port, _)) => port.serving.binary_search(&flow.answered_by).is_err(),
            // Without a change that names it, only what is surely a Service's is taken away.
            None if self.names(plan, flow) => is_translated,
            None => is_translated && plan.settings().is_in_service_cidr(address),
        }
    }

    fn concerns(&self, plan: &Plan, flow: &Flow) -> bool {
        self.everything || self.names(plan, flow)
    }

    fn names(&self, plan: &Plan, flow: &Flow) -> bool {
        let address = flow.destination.ip();
        let node_port = (flow.protocol, Family::of(address), flow.destination.port());
        self.addresses.contains(&(flow.protocol, flow.destination))
            || (self.node_ports.contains(&node_port) && plan.settings().accepts_node_port(address))
    }

    fn add(&mut self, protocol: Protocol, family: Family, address: Option<IpAddr>, port: u16) {
        match address {
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
