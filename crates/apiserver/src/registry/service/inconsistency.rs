//! Comparison of the allocation records with the Services of a store at rest. Operators verify a store without a server,
//! and tests examine a store after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use store::Entry;

use super::repair::{AllocationRecords, ServiceRecord};

/// An allocated address or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allocated {
    /// A cluster IP.
    Address(IpAddr),
    /// A node port or a health check node port.
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

/// An inconsistency between Services and allocation records. Services are named `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// Several Services use the same item.
    #[error("{item} is used by several Services: {}", services.join(", "))]
    Duplicate {
        /// The shared item.
        item: Allocated,
        /// The Services that use the item.
        services: Vec<String>,
    },
    /// A Service uses an item that is free or another Service's by its record. It may be allocated again.
    #[error("{item} of Service {service} is recorded as {}", recorded.as_deref().unwrap_or("free"))]
    NotRecorded {
        /// The used item.
        item: Allocated,
        /// The Service that uses the item.
        service: String,
        /// The Service of the record; `None` without a record.
        recorded: Option<String>,
    },
    /// An item is recorded for a Service that does not use it. The item cannot be allocated again.
    #[error("{item} is recorded for Service {service}, which does not use it")]
    Leaked {
        /// The recorded item.
        item: Allocated,
        /// The Service of the record.
        service: String,
    },
    /// An object is not readable.
    #[error("{key} cannot be read: {reason}")]
    Unreadable {
        /// The key of the object.
        key: String,
        /// Description of the defect.
        reason: String,
    },
}

/// Compares all Services and records of a store; returns the inconsistencies.
pub fn find_inconsistencies(entries: &[Entry]) -> Vec<Inconsistency> {
    let mut inconsistencies = Vec::new();
    let mut records = AllocationRecords::default();
    for entry in entries {
        if let Err(error) = records.add(entry) {
            inconsistencies.push(Inconsistency::Unreadable {
                key: entry.key.to_string(),
                reason: error.to_string(),
            });
        }
    }
    let mut used: BTreeMap<Allocated, BTreeSet<String>> = BTreeMap::new();
    for service in &records.services {
        let name = format!("{}/{}", service.namespace, service.name);
        for item in items_of(service) {
            used.entry(item).or_default().insert(name.clone());
        }
    }
    compare(&used, &holders(&records), &mut inconsistencies);
    inconsistencies
}

fn compare(
    used: &BTreeMap<Allocated, BTreeSet<String>>,
    recorded: &BTreeMap<Allocated, String>,
    inconsistencies: &mut Vec<Inconsistency>,
) {
    for (item, services) in used {
        if services.len() > 1 {
            inconsistencies.push(Inconsistency::Duplicate {
                item: *item,
                services: services.iter().cloned().collect(),
            });
            continue;
        }
        let holder = recorded.get(item);
        inconsistencies.extend(
            services
                .iter()
                .filter(|service| holder != Some(service))
                .map(|service| Inconsistency::NotRecorded {
                    item: *item,
                    service: service.clone(),
                    recorded: holder.cloned(),
                }),
        );
    }
    for (item, service) in recorded {
        if !used.contains_key(item) {
            inconsistencies.push(Inconsistency::Leaked {
                item: *item,
                service: service.clone(),
            });
        }
    }
}

/// Returns the addresses and ports that a Service uses.
fn items_of(service: &ServiceRecord) -> impl Iterator<Item = Allocated> {
    let addresses = service.cluster_ips.iter();
    let addresses = addresses.filter_map(|address| address.parse().ok());
    let ports = service.node_ports.iter().copied().map(Allocated::Port);
    addresses.map(Allocated::Address).chain(ports)
}

/// Returns the recorded holder of each item. IPAddresses that reference no Service are left out.
fn holders(records: &AllocationRecords) -> BTreeMap<Allocated, String> {
    let addresses = records.addresses.iter().filter_map(|(address, record)| {
        let (namespace, name) = record.holder.as_ref()?;
        Some((Allocated::Address(*address), format!("{namespace}/{name}")))
    });
    let ports = records.ports.iter();
    let ports = ports.map(|(port, record)| (Allocated::Port(*port), record.holder.clone()));
    addresses.chain(ports).collect()
}

#[cfg(test)]
mod tests;
