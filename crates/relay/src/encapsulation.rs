//! UDP ports that carry encapsulated packets between hosts, such as VXLAN.
//!
//! The hosts of an overlay network accept encapsulated packets by the address of their sender. A relay sends the
//! datagrams of its clients from an address of its own host. If a backend has such a port, clients therefore send packets
//! with any content and any source into the overlay network. No relay may send to these ports. The address of the backend
//! makes no difference, because a relay does not know all addresses of the other hosts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use netlink::route::{Connection, RouteError};

#[cfg(test)]
mod tests;

/// Age from which the ports are read again.
const AGE_MAX: Duration = Duration::from_secs(1);

/// UDP port of two-tier forwarding. Its nodes accept packets of all nodes, also of those that have no such link because
/// their proxy has another mode.
pub const TWO_TIER_PORT: u16 = 8_473;

/// UDP ports of the VXLAN, Geneve and bareudp links of this host, and [`TWO_TIER_PORT`].
#[derive(Debug, Default)]
pub struct EncapsulationPorts {
    last: Mutex<Reading>,
}

/// Last ports that were read.
#[derive(Debug, Default)]
struct Reading {
    ports: Vec<u16>,
    at: Option<Instant>,
}

impl EncapsulationPorts {
    /// Returns true if a link in the network namespace of the calling thread has this port, or two-tier forwarding has it.
    /// At most once a second, the call reads the links. If that fails, the former ports stay valid.
    pub fn contains(&self, port: u16) -> bool {
        if port == TWO_TIER_PORT {
            return true;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.at.is_none_or(|at| at.elapsed() >= AGE_MAX) {
            last.at = Some(Instant::now());
            match read() {
                Ok(ports) => last.ports = ports,
                Err(error) => tracing::warn!(%error, "ports of encapsulation not read; former ports used"),
            }
        }
        last.ports.contains(&port)
    }
}

fn read() -> Result<Vec<u16>, RouteError> {
    let links = Connection::open()?.links()?;
    Ok(links.iter().filter_map(|link| link.encapsulation_port).collect())
}
