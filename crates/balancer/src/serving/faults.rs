//! Faults of a Service at the edge: faults of its ports for the node's report ([`crate::edge_report`]), and
//! messages for Events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};
use edge::settings::ServiceName;
use edge::{Fault, Faults, PortKey, Transport};

use super::Addresses;
use super::state::ServedService;
use crate::edge_report::PortFault;

const INVALID_CERTIFICATE: &str = "portolan.dev/BadCertificate";

/// Returns the error of a port in the form that the API requires: domain, slash, CamelCase word.
fn port_error(fault: &Fault) -> Option<&'static str> {
    Some(match fault {
        Fault::CannotListen { .. } => "portolan.dev/CannotListen",
        Fault::InvalidCertificate { .. } => INVALID_CERTIFICATE,
        Fault::NoCertificate => "portolan.dev/NoCertificate",
        // The port serves clients; only an Event reports the fault.
        Fault::NoAccessLog { .. } => return None,
    })
}

/// Faults of a Service's ports at the given addresses.
pub(super) fn port_faults(served: &ServedService, addresses: &Addresses, faults: &Faults) -> Vec<PortFault> {
    let meta = &served.service.metadata;
    let name = ServiceName {
        namespace: meta.namespace.as_str().into(),
        name: meta.name.as_str().into(),
    };
    let refused = |port: u16, protocol: Protocol| {
        let mut refused = served.spec.refused.iter();
        refused
            .find(|refused| refused.port == port && refused.protocol == protocol)
            .map(|refused| refused.error)
    };
    let faulty = |port: u16, protocol: Protocol| {
        let transport = match protocol {
            Protocol::Udp => Transport::Udp,
            Protocol::Tcp | Protocol::Sctp => Transport::Tcp,
        };
        let key = PortKey {
            service: name.clone(),
            port,
            transport,
        };
        let faults = faults.get(&key).into_iter().flatten();
        // Faults that reject all clients precede: with an invalid certificate, others may still work.
        let mut errors: Vec<&str> = faults.filter_map(port_error).collect();
        errors.sort_by_key(|error| *error == INVALID_CERTIFICATE);
        errors.first().copied()
    };
    let mut port_faults = Vec::new();
    for port in &served.service.spec.ports {
        let error = refused(port.port, port.protocol).or_else(|| faulty(port.port, port.protocol));
        let Some(error) = error else { continue };
        port_faults.extend(addresses.iter().map(|address: &IpAddr| PortFault {
            namespace: meta.namespace.clone(),
            service: meta.name.clone(),
            address: *address,
            port: port.port,
            protocol: port.protocol,
            error: error.to_owned(),
        }));
    }
    port_faults
}

/// Returns the messages of the edge's faults, by Service.
pub(super) fn messages(faults: &Faults) -> BTreeMap<ObjectKey, BTreeSet<String>> {
    let mut messages: BTreeMap<ObjectKey, BTreeSet<String>> = BTreeMap::new();
    for (port, faults) in faults {
        let key = ObjectKey::new(&port.service.namespace, &port.service.name);
        let service_messages = messages.entry(key).or_default();
        for fault in faults {
            service_messages.insert(format!("port {}/{}: {fault}", port.port, port.transport.name()));
        }
    }
    messages
}

/// Messages that were recorded as Events, by Service, so that none is recorded twice.
#[derive(Debug, Default)]
pub(super) struct RecordedMessages(HashMap<ObjectKey, BTreeSet<String>>);

impl RecordedMessages {
    /// Replaces the messages of a Service. Returns the new ones.
    pub(super) fn replace(&mut self, service: &ObjectKey, messages: BTreeSet<String>) -> Vec<String> {
        if messages.is_empty() {
            self.0.remove(service);
            return Vec::new();
        }
        let before = self
            .0
            .insert(service.clone(), messages.clone())
            .unwrap_or_default();
        messages
            .into_iter()
            .filter(|message| !before.contains(message))
            .collect()
    }
}
