//! Host ports: ports of the node that lead to ports of its Pods (`hostPort` and `hostIP` of containers).
//!
//! The rules are in an nftables table of their own. They stay when the agent exits. The next agent reads them from the
//! records of the Pods.

pub mod admission;
mod table;
mod watch;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::object::Protocol;
use netlink::conntrack::{Conntrack, ConntrackError, Family, Flow};
use netlink::nftables::{CommitError, Monitor, Nftables, ReadError};
use serde::{Deserialize, Serialize};

use crate::object::{ContainerPort, Pod};

pub use table::{TABLE, remove_table};
pub use watch::watch;

#[cfg(test)]
mod tests;

/// Host ports of one Pod at most, in both families. The rules of all Pods fit into one transaction.
const HOST_PORTS_MAX: usize = 1024;

/// Port of the node that leads to a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPort {
    /// Address of the node; `None` for all addresses of the family. `::` stands for the IPv6 addresses at which no other
    /// Pod has the port.
    pub host_ip: Option<IpAddr>,
    /// Port of the node.
    pub host_port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Address and port of the Pod.
    pub target: SocketAddr,
}

/// Reason why host ports are not available.
#[derive(Debug, thiserror::Error)]
pub enum HostPortError {
    /// Another Pod of the node uses the port. It is free when that Pod has ended.
    #[error("host port {protocol} {port} is in use by the Pod with UID {uid}", protocol = protocol.as_str())]
    Taken {
        /// Port of the node.
        port: u16,
        /// Transport protocol.
        protocol: Protocol,
        /// UID of the other Pod.
        uid: String,
    },
    /// The Pod has too many host ports. A retry does not help.
    #[error("expected at most {HOST_PORTS_MAX} host ports of all families, found {found}; remove some")]
    TooMany {
        /// Number of the Pod's host ports.
        found: usize,
    },
    /// The kernel has no nftables.
    #[error("host ports: cannot use nftables: {0}")]
    Open(std::io::Error),
    /// The kernel rejects the rules.
    #[error("host ports: {0}")]
    Commit(#[from] CommitError),
    /// The kernel does not report the state of nftables.
    #[error("host ports: {0}")]
    Read(#[from] ReadError),
}

impl HostPort {
    /// Returns the host ports of a Pod with these addresses. A host IP limits a port to its family, also `0.0.0.0` and `::`
    /// (as the CNI plugin portmap).
    pub fn of_pod(pod: &Pod, addresses: &[IpAddr]) -> Vec<Self> {
        admission::host_ports(pod)
            .flat_map(|port| Self::of_port(port, addresses))
            .collect()
    }

    fn of_port(port: &ContainerPort, addresses: &[IpAddr]) -> Vec<Self> {
        let named: Option<IpAddr> = port.host_ip.parse().ok();
        if named.is_none() && !port.host_ip.is_empty() {
            return Vec::new();
        }
        let is_served = |address: &&IpAddr| named.is_none_or(|named| named.is_ipv4() == address.is_ipv4());
        let served = addresses.iter().filter(is_served);
        served
            .map(|address| Self {
                host_ip: named.filter(|named| *named != IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
                host_port: port.host_port,
                protocol: port.protocol,
                target: SocketAddr::new(*address, port.container_port),
            })
            .collect()
    }

    fn collides(&self, other: &Self) -> bool {
        let is_any = self.host_ip.is_none() || other.host_ip.is_none();
        self.host_port == other.host_port
            && self.protocol == other.protocol
            && self.target.is_ipv4() == other.target.is_ipv4()
            && (is_any || self.host_ip == other.host_ip)
    }

    /// Returns the address at which alone the port is served; `None` for all addresses of its family.
    fn only_address(&self) -> Option<IpAddr> {
        self.host_ip.filter(|ip| !ip.is_unspecified())
    }

    /// Returns true for a flow to this port that the rules did not translate and that has no answer.
    fn is_lost(&self, flow: &Flow) -> bool {
        let destination = flow.original.destination;
        destination.port() == self.host_port
            && destination.is_ipv4() == self.target.is_ipv4()
            && self.only_address().is_none_or(|ip| ip == destination.ip())
            && flow.reply.source == destination
            && !flow.is_replied
    }

    /// Returns true for a flow that the rules of this port translated.
    fn is_served(&self, flow: &Flow) -> bool {
        flow.original.destination.port() == self.host_port && flow.reply.source == self.target
    }
}

/// Host ports of all Pods of the node.
#[derive(Debug, Default)]
pub struct HostPorts {
    rules: Mutex<Rules>,
}

/// Host ports of all Pods, and the connection that writes their rules.
#[derive(Debug, Default)]
struct Rules {
    /// Ports by UID of the Pod.
    pods: BTreeMap<String, Vec<HostPort>>,
    /// Connection of all own transactions, from the first one on. The monitor ignores them by its port ID.
    nftables: Option<Nftables>,
}

impl Rules {
    /// Writes the table.
    fn write(&mut self) -> Result<(), HostPortError> {
        table::write(open_connection(&mut self.nftables)?, &self.pods)
    }
}

/// Opens the connection, unless it is open.
fn open_connection(connection: &mut Option<Nftables>) -> Result<&mut Nftables, HostPortError> {
    let nftables = match connection.take() {
        Some(nftables) => nftables,
        None => Nftables::open().map_err(HostPortError::Open)?,
    };
    Ok(connection.insert(nftables))
}

impl HostPorts {
    /// Replaces all host ports with those of the Pods that an earlier agent left.
    ///
    /// # Errors
    /// See [`HostPortError`].
    pub fn restore(
        &self,
        left: impl IntoIterator<Item = (String, Vec<HostPort>)>,
    ) -> Result<(), HostPortError> {
        let mut rules = self.lock();
        rules.pods = left.into_iter().filter(|(_, ports)| !ports.is_empty()).collect();
        rules.write()
    }

    /// Adds the host ports of a Pod, in place of its earlier ones. On failure the Pod has none.
    ///
    /// # Errors
    /// See [`HostPortError`].
    pub fn add(&self, uid: &str, ports: Vec<HostPort>) -> Result<(), HostPortError> {
        if ports.len() > HOST_PORTS_MAX {
            return Err(HostPortError::TooMany { found: ports.len() });
        }
        self.remove(uid)?;
        if ports.is_empty() {
            return Ok(());
        }
        let mut rules = self.lock();
        check_free(&rules.pods, &ports)?;
        rules.pods.insert(uid.to_owned(), ports.clone());
        if let Err(error) = rules.write() {
            rules.pods.remove(uid);
            return Err(error);
        }
        delete_flows(&ports, HostPort::is_lost);
        Ok(())
    }

    /// Removes the host ports of a Pod, if it has any.
    ///
    /// # Errors
    /// See [`HostPortError`].
    pub fn remove(&self, uid: &str) -> Result<(), HostPortError> {
        let mut rules = self.lock();
        let Some(ports) = rules.pods.remove(uid) else {
            return Ok(());
        };
        rules.write()?;
        delete_flows(&ports, HostPort::is_served);
        Ok(())
    }

    /// Writes all rules again, after another program changed them.
    fn rewrite(&self) -> Result<(), HostPortError> {
        self.lock().write()
    }

    /// Opens a monitor of changes by other programs.
    fn monitor(&self) -> Result<Monitor, HostPortError> {
        let mut rules = self.lock();
        let nftables = open_connection(&mut rules.nftables)?;
        // The kernel assigns the port ID with the first request.
        nftables.generation()?;
        let own_port = nftables.port().map_err(HostPortError::Open)?;
        Monitor::open(TABLE, own_port).map_err(HostPortError::Open)
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_free(pods: &BTreeMap<String, Vec<HostPort>>, ports: &[HostPort]) -> Result<(), HostPortError> {
    for (uid, taken) in pods {
        let collision = ports
            .iter()
            .find(|port| taken.iter().any(|other| port.collides(other)));
        if let Some(port) = collision {
            return Err(HostPortError::Taken {
                port: port.host_port,
                protocol: port.protocol,
                uid: uid.clone(),
            });
        }
    }
    Ok(())
}

/// Deletes the conntrack entries of UDP flows that a change made stale. TCP clients connect again.
fn delete_flows(ports: &[HostPort], is_stale: fn(&HostPort, &Flow) -> bool) {
    let ports: Vec<&HostPort> = ports
        .iter()
        .filter(|port| port.protocol == Protocol::Udp)
        .collect();
    if ports.is_empty() {
        return;
    }
    let delete = || -> Result<(), ConntrackError> {
        let mut conntrack = Conntrack::open()?;
        for family in [Family::V4, Family::V6] {
            let stale = conntrack.flows(family, Protocol::Udp.number(), |flow| {
                ports.iter().any(|port| is_stale(port, flow))
            })?;
            for flow in stale {
                conntrack.delete(&flow)?;
            }
        }
        Ok(())
    };
    if let Err(error) = delete() {
        tracing::warn!(%error, "conntrack entries of host ports not deleted");
    }
}
