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
        /// Its key.
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
mod tests {
    use serde_json::{Value, json};
    use store::Revision;

    use super::super::records::{IP_ADDRESSES_PREFIX, NODE_PORTS_PREFIX};
    use super::*;

    fn entry(key: &str, object: &Value) -> Entry {
        Entry {
            key: key.into(),
            value: object.to_string().into(),
            created: Revision(1),
            modified: Revision(1),
        }
    }

    fn service(name: &str, address: &str, port: u16) -> Entry {
        let metadata = json!({"namespace": "default", "name": name});
        let spec = json!({"clusterIP": address, "clusterIPs": [address], "ports": [{"nodePort": port}], "type": "NodePort"});
        entry(
            &format!("/services/default/{name}"),
            &json!({"metadata": metadata, "spec": spec}),
        )
    }

    fn address(address: &str, name: &str) -> Entry {
        let parent = json!({"resource": "services", "namespace": "default", "name": name});
        entry(
            &format!("{IP_ADDRESSES_PREFIX}{address}"),
            &json!({"metadata": {"name": address}, "spec": {"parentRef": parent}}),
        )
    }

    fn port(port: u16, name: &str) -> Entry {
        entry(
            &format!("{NODE_PORTS_PREFIX}{port}"),
            &json!({"service": format!("default/{name}")}),
        )
    }

    #[test]
    fn a_sound_store_has_no_disagreements() {
        let headless = service("headless", "None", 0);
        let sound = [
            service("a", "10.0.0.1", 30_001),
            address("10.0.0.1", "a"),
            port(30_001, "a"),
            headless,
        ];
        assert_eq!(audit(&sound), []);
    }

    #[test]
    fn each_disagreement_is_told() {
        let told =
            |entries: &[Entry]| -> Vec<String> { audit(entries).iter().map(ToString::to_string).collect() };
        assert_eq!(
            told(&[
                service("a", "10.0.0.1", 0),
                service("b", "10.0.0.1", 0),
                address("10.0.0.1", "a")
            ]),
            ["address 10.0.0.1 is used by several Services: default/a, default/b"]
        );
        assert_eq!(
            told(&[service("a", "10.0.0.1", 30_001), address("10.0.0.1", "b")]),
            [
                "address 10.0.0.1 of Service default/a is recorded as default/b",
                "node port 30001 of Service default/a is recorded as free",
            ]
        );
        assert_eq!(
            told(&[address("10.0.0.1", "a"), port(30_001, "a")]),
            [
                "address 10.0.0.1 is recorded for Service default/a, which does not use it",
                "node port 30001 is recorded for Service default/a, which does not use it",
            ]
        );
        let broken = Entry {
            value: "{".into(),
            ..address("10.0.0.1", "a")
        };
        assert!(told(&[broken])[0].contains("cannot be read"));
        let foreign = entry("/configmaps/default/a", &json!({}));
        assert_eq!(told(std::slice::from_ref(&foreign)), [""; 0]);
        let broken = Entry {
            value: "{".into(),
            ..foreign
        };
        assert!(told(&[broken])[0].contains("/configmaps/default/a cannot be read"));
    }
}
