//! Virtual servers of a plan: one for each address, protocol and port of a Service that IPVS can serve (IPV-01).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use api::object::ObjectKey;
use netlink::ipvs::{ServerId, VirtualServer};
use plan::{Family, Frontend, IpvsScheduler, Plan, Scheduler, ServicePortPlan, Settings};

use crate::nftables::virtual_set;

/// Desired virtual server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedServer {
    /// Properties of the server.
    pub server: VirtualServer,
    /// Destinations, each with weight 1.
    pub destinations: BTreeSet<SocketAddr>,
    /// True if the link of this mode holds the address; false if it is an address of the node.
    pub needs_address: bool,
}

/// Returns the virtual servers of a Service.
pub(super) fn servers_of(plan: &Plan, service: &ObjectKey) -> Vec<PlannedServer> {
    let mut servers = Vec::new();
    for port in plan.ports_of(service) {
        for frontend in &port.frontends {
            append(plan, port, frontend, &mut servers);
        }
    }
    servers
}

fn append(plan: &Plan, port: &ServicePortPlan, frontend: &Frontend, servers: &mut Vec<PlannedServer>) {
    let Some(set) = virtual_set(port, frontend) else {
        return;
    };
    let settings = plan.settings();
    let destinations = port.backends(set).iter().map(|backend| backend.address);
    let destinations: BTreeSet<SocketAddr> = destinations.collect();
    let (scheduler, scheduler_flags) = kernel_scheduler(port.scheduler);
    let addresses = match frontend.address {
        Some(address) => vec![address],
        None => node_port_addresses(plan, port, frontend.port),
    };
    servers.extend(addresses.into_iter().map(|address| PlannedServer {
        server: VirtualServer {
            id: ServerId {
                address,
                protocol: port.key.protocol.number(),
                port: frontend.port,
            },
            scheduler: scheduler.to_owned(),
            scheduler_flags,
            persistence_seconds: port.affinity_seconds,
        },
        destinations: destinations.clone(),
        needs_address: !settings.is_own(address),
    }));
}

/// Returns the addresses at which a node port has a virtual server. An external IP of another Service takes precedence.
fn node_port_addresses(plan: &Plan, port: &ServicePortPlan, number: u16) -> Vec<IpAddr> {
    let family = port.key.family;
    let is_free = |address: &IpAddr| {
        plan.frontend(family, Some(*address), port.key.protocol, number)
            .is_none()
    };
    let mut addresses = own_addresses(plan.settings(), family);
    addresses.retain(is_free);
    addresses
}

fn own_addresses(settings: &Settings, family: Family) -> Vec<IpAddr> {
    settings.node_port_ips(family).unwrap_or_else(|| {
        let node_addresses = settings.node_addresses.iter().copied();
        node_addresses
            .filter(|address| Family::of(*address) == family && settings.accepts_node_port(*address))
            .collect()
    })
}

/// Returns the name of a scheduler in the kernel, and its flags. `mh` hashes the client's port, too, as kube-proxy
/// requests. `mh` and `sh` choose another destination if the hashed one has weight 0, as terminating endpoints have.
/// Otherwise they refuse the connection.
pub(super) fn kernel_scheduler(scheduler: Scheduler) -> (&'static str, u32) {
    match scheduler {
        Scheduler::Random | Scheduler::RoundRobin => ("rr", 0),
        Scheduler::LeastConnections => ("lc", 0),
        Scheduler::Maglev | Scheduler::Ipvs(IpvsScheduler::Mh) => {
            ("mh", VirtualServer::FALLBACK | VirtualServer::HASH_PORT)
        }
        Scheduler::Ipvs(IpvsScheduler::Sh) => ("sh", VirtualServer::FALLBACK),
        Scheduler::Ipvs(scheduler) => (scheduler.as_str(), 0),
    }
}

#[cfg(test)]
mod tests;
