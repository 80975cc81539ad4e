//! Whether the records of what is allocated and the Services agree: for people who look over a store that no server
//! runs on, and for tests of what crashes leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use api::service::{HEADLESS, View};
use api::tree::{child, items, text};
use serde_json::Value;
use store::Entry;

use super::records::{IP_ADDRESSES_PREFIX, NODE_PORTS_PREFIX};

/// Where Services are.
const SERVICES_PREFIX: &str = "/services/";

/// Something that is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allocated {
    /// A cluster IP.
    Address(IpAddr),
    /// A node port, or the port of a health check.
    Port(u64),
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
    let mut used: BTreeMap<Allocated, BTreeSet<String>> = BTreeMap::new();
    let mut recorded: BTreeMap<Allocated, String> = BTreeMap::new();
    for entry in entries {
        let object: Value = match serde_json::from_slice(&entry.value) {
            Ok(object) => object,
            Err(error) => {
                findings.push(Disagreement::Unreadable {
                    key: entry.key.to_string(),
                    reason: error.to_string(),
                });
                continue;
            }
        };
        if let Some(name) = entry.key.strip_prefix(SERVICES_PREFIX) {
            for what in allocated(&object) {
                used.entry(what).or_default().insert(name.to_owned());
            }
        } else if let Some((what, service)) = record(&entry.key, &object) {
            recorded.insert(what, service);
        }
    }
    compare(&used, &recorded, &mut findings);
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
fn allocated(service: &Value) -> Vec<Allocated> {
    let view = View::of(service);
    let spec = child(service, "spec");
    let addresses = match view.is_external_name() {
        true => Vec::new(),
        false => view.cluster_ips(),
    };
    let addresses = addresses.into_iter().filter(|address| *address != HEADLESS);
    let addresses = addresses
        .filter_map(|address| address.parse().ok())
        .map(Allocated::Address);
    let ports = items(spec, "ports").iter().map(|port| child(port, "nodePort"));
    let ports = ports.chain([child(spec, "healthCheckNodePort")]);
    let ports = ports
        .filter_map(Value::as_u64)
        .filter(|port| *port > 0)
        .map(Allocated::Port);
    addresses.chain(ports).collect()
}

/// What a record says. Addresses that people keep for themselves are nobody's.
fn record(key: &str, object: &Value) -> Option<(Allocated, String)> {
    if let Some(address) = key.strip_prefix(IP_ADDRESSES_PREFIX) {
        let parent = child(child(object, "spec"), "parentRef");
        let is_services = text(parent, "resource") == "services" && text(parent, "group").is_empty();
        let service = format!("{}/{}", text(parent, "namespace"), text(parent, "name"));
        return Some((Allocated::Address(address.parse().ok()?), service)).filter(|_| is_services);
    }
    let port = key.strip_prefix(NODE_PORTS_PREFIX)?.parse().ok()?;
    Some((Allocated::Port(port), text(object, "service").to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use store::Revision;

    use super::*;

    fn entry(key: &str, object: &Value) -> Entry {
        Entry {
            key: key.into(),
            value: object.to_string().into(),
            created: Revision(1),
            modified: Revision(1),
        }
    }

    fn service(name: &str, address: &str, port: u64) -> Entry {
        let metadata = json!({"namespace": "default", "name": name});
        let spec = json!({"clusterIPs": [address], "ports": [{"nodePort": port}], "type": "NodePort"});
        entry(
            &format!("/services/default/{name}"),
            &json!({"metadata": metadata, "spec": spec}),
        )
    }

    fn address(address: &str, name: &str) -> Entry {
        let parent = json!({"resource": "services", "namespace": "default", "name": name});
        entry(
            &format!("{IP_ADDRESSES_PREFIX}{address}"),
            &json!({"spec": {"parentRef": parent}}),
        )
    }

    fn port(port: u64, name: &str) -> Entry {
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
    }
}
