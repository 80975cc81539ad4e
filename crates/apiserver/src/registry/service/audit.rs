//! Whether the records of what is allocated and the Services agree: for people who look over a store that no server
//! runs on, and for tests of what crashes leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use store::Entry;

use super::repair::{Books, ServiceRecord};

/// Something that is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allocated {
    /// A cluster IP.
    Address(IpAddr),
    /// A node port, or the port of a health check.
    Port(u16),
}

impl fmt::Display for Allocated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allocated::Address(address) => write!(f, "address {address}"),
            Allocated::Port(port) => write!(f, "node port {port}"),
        }
    }
}

/// A disagreement between the Services and the records. Services are named `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// Several Services have it.
    #[error("{what} is used by several Services: {}", services.join(", "))]
    Doubled {
        /// What they have.
        what: Allocated,
        /// Which they are.
        services: Vec<String>,
    },
    /// A Service has it, and it is not recorded, or as another's: it may be given out again.
    #[error("{what} of Service {service} is recorded as {}", recorded.as_deref().unwrap_or("free"))]
    NotRecorded {
        /// What it has.
        what: Allocated,
        /// The Service.
        service: String,
        /// Whose it is by the record.
        recorded: Option<String>,
    },
    /// It is recorded for a Service that does not have it: it is never given out.
    #[error("{what} is recorded for Service {service}, which does not use it")]
    Leaked {
        /// What is recorded.
        what: Allocated,
        /// The Service that it is recorded for.
        service: String,
    },
    /// An object cannot be read.
    #[error("{key} cannot be read: {reason}")]
    Unreadable {
        /// Key.
        key: String,
        /// Why.
        reason: String,
    },
}

/// Compares everything in a store. Nothing is found when all is well.
pub fn audit(entries: &[Entry]) -> Vec<Disagreement> {
    let mut findings = Vec::new();
    let mut books = Books::default();
    for entry in entries {
        if let Err(error) = books.enter(entry) {
            findings.push(Disagreement::Unreadable {
                key: entry.key.to_string(),
                reason: error.to_string(),
            });
        }
    }
    let mut used: BTreeMap<Allocated, BTreeSet<String>> = BTreeMap::new();
    for service in &books.services {
        let name = format!("{}/{}", service.namespace, service.name);
        for what in allocated(service) {
            used.entry(what).or_default().insert(name.clone());
        }
    }
    compare(&used, &recorded(&books), &mut findings);
    findings
}

fn compare(
    used: &BTreeMap<Allocated, BTreeSet<String>>,
    recorded: &BTreeMap<Allocated, String>,
    findings: &mut Vec<Disagreement>,
) {
    for (what, services) in used {
        if services.len() > 1 {
            findings.push(Disagreement::Doubled {
                what: *what,
                services: services.iter().cloned().collect(),
            });
            continue;
        }
        let owner = recorded.get(what);
        findings.extend(
            services
                .iter()
                .filter(|service| owner != Some(service))
                .map(|service| Disagreement::NotRecorded {
                    what: *what,
                    service: service.clone(),
                    recorded: owner.cloned(),
                }),
        );
    }
    for (what, service) in recorded {
        if !used.contains_key(what) {
            findings.push(Disagreement::Leaked {
                what: *what,
                service: service.clone(),
            });
        }
    }
}

/// What a Service has.
fn allocated(service: &ServiceRecord) -> impl Iterator<Item = Allocated> {
    let addresses = service.cluster_ips.iter();
    let addresses = addresses.filter_map(|address| address.parse().ok());
    let ports = service.node_ports.iter().copied().map(Allocated::Port);
    addresses.map(Allocated::Address).chain(ports)
}

/// What the records say. Addresses that people keep for themselves are nobody's.
fn recorded(books: &Books) -> BTreeMap<Allocated, String> {
    let addresses = books.addresses.iter().filter_map(|(address, record)| {
        let (namespace, name) = record.holder.as_ref()?;
        Some((Allocated::Address(*address), format!("{namespace}/{name}")))
    });
    let ports = books.ports.iter();
    let ports = ports.map(|(port, record)| (Allocated::Port(*port), record.holder.clone()));
    addresses.chain(ports).collect()
}

#[cfg(test)]
mod tests;
