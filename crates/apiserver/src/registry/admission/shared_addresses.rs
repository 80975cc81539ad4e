//! Admission of changes of Services: a change takes no port of a load balancer IP from another namespace.
//!
//! Services of several namespaces can share a load balancer IP, and addresses of nodes. Of two Services with a port at one
//! address, the older one has the port on the nodes. A new Service is the youngest one and takes no port. An older one must
//! not get the port of a younger one later: its namespace would receive the connections until the assigner withdraws its
//! address.

use std::collections::BTreeSet;

use api::tree::{child, items, number, text};
use serde_json::Value;
use store::Index;

use super::WriteAttempt;
use crate::failure::Failure;

/// Annotation with the port ranges of a Service.
const PORT_RANGES: &str = "service.portolan.dev/port-ranges";
/// Ports that the message names; it counts the others.
const NAMED_MAX: usize = 3;

/// Protocol and number of a port.
type Port<'s> = (&'s str, i64);

/// Claims that a change adds to the addresses of a Service.
struct Addition<'s> {
    /// Addresses in the status.
    addresses: BTreeSet<&'s str>,
    ports: BTreeSet<Port<'s>>,
    has_ranges: bool,
}

/// Admits an update of a Service.
pub(super) fn admit(index: &Index, attempt: &WriteAttempt<'_>, service: &Value) -> Result<(), Failure> {
    let Some(stored) = attempt.stored.filter(|_| attempt.requester.is_some()) else {
        return Ok(());
    };
    let addition = Addition::of(stored, service);
    if addition.is_empty() {
        return Ok(());
    }
    let target = attempt.target;
    let listing = index.list(&target.kind.store_prefix(None), None, None, None);
    let listing = listing.map_err(|error| Failure::of_read(&error))?;
    let mut taken = BTreeSet::new();
    for entry in &listing.entries {
        // A search of the text takes less time than its decoding, and few Services share an address.
        if !addition.is_named_in(&entry.value) {
            continue;
        }
        // Nodes ignore a Service that is not readable.
        let Ok(other) = serde_json::from_slice::<Value>(&entry.value) else {
            continue;
        };
        if namespace(&other) != namespace(stored) && precedence(stored) < precedence(&other) {
            addition.collect_taken(&other, &mut taken);
        }
    }
    if taken.is_empty() {
        return Ok(());
    }
    let further = taken.len().saturating_sub(NAMED_MAX);
    let mut named = taken.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if further > 0 {
        named.push_str(&format!(" and {further} more"));
    }
    let message = format!(
        "ports of its load balancer IP belong to other namespaces, from whose younger Services this one would take them: \
         {named}; use other ports, or create a new Service"
    );
    Err(Failure::forbidden(target.kind, target.name(), &message))
}

impl<'s> Addition<'s> {
    /// Returns the claims of `service` that the stored Service does not have.
    fn of(stored: &'s Value, service: &'s Value) -> Self {
        let before = ports(stored);
        let ranges = port_ranges(service);
        Self {
            addresses: addresses(stored).map(|(address, _)| address).collect(),
            ports: ports(service).difference(&before).copied().collect(),
            has_ranges: !ranges.is_empty() && ranges != port_ranges(stored),
        }
    }

    fn is_empty(&self) -> bool {
        self.addresses.is_empty() || (self.ports.is_empty() && !self.has_ranges)
    }

    /// Returns true if the JSON text contains one of the addresses, which have no characters that JSON escapes.
    fn is_named_in(&self, json: &[u8]) -> bool {
        let is_in = |text: &str| self.addresses.iter().any(|address| text.contains(address));
        std::str::from_utf8(json).is_ok_and(is_in)
    }

    /// Adds the ports and ranges that the change takes from another Service.
    fn collect_taken(&self, other: &Value, taken: &mut BTreeSet<String>) {
        let shared = || addresses(other).filter(|(address, _)| self.addresses.contains(address));
        if shared().next().is_none() {
            return;
        }
        let common = ports(other);
        let common = common.intersection(&self.ports);
        taken.extend(common.map(|(protocol, port)| format!("{port}/{protocol}")));
        // Nodes forward ranges, also of ports on which an edge listens.
        let is_of_edge = || shared().any(|(_, mode)| mode == "Proxy");
        if self.has_ranges && (!port_ranges(other).is_empty() || is_of_edge()) {
            taken.insert("port ranges".to_owned());
        }
    }
}

/// Returns the order of a Service among those with a port at one address: creation, namespace and name.
fn precedence(service: &Value) -> [&str; 3] {
    let metadata = child(service, "metadata");
    ["creationTimestamp", "namespace", "name"].map(|field| text(metadata, field))
}

fn namespace(service: &Value) -> &str {
    text(child(service, "metadata"), "namespace")
}

/// Returns the load balancer IPs in the status, with their modes.
fn addresses(service: &Value) -> impl Iterator<Item = (&str, &str)> {
    let balancer = child(child(service, "status"), "loadBalancer");
    let entries = items(balancer, "ingress").iter();
    let entries = entries.map(|entry| (text(entry, "ip"), text(entry, "ipMode")));
    entries.filter(|(address, _)| !address.is_empty())
}

fn ports(service: &Value) -> BTreeSet<Port<'_>> {
    let ports = items(child(service, "spec"), "ports").iter();
    let ports = ports.map(|port| match text(port, "protocol") {
        "" => ("TCP", number(port, "port")),
        protocol => (protocol, number(port, "port")),
    });
    ports.collect()
}

fn port_ranges(service: &Value) -> &str {
    text(child(child(service, "metadata"), "annotations"), PORT_RANGES)
}
